# SPDX-License-Identifier: Apache-2.0
"""Sleep for want of work, as the command shows it."""
import json
import re

from cli_world import wait_for


def sleeps_without_work(world):
    """A process whose client is gone is work (ColeMurray/background-agents#1263); what is left behind and waits is none."""
    sandbox = world.create("--idle-timeout", "1s")

    def why():
        return json.loads(world.ok("get", "--json", sandbox))["activity"]

    process = world.spawn("exec", sandbox, "sh", "-c", "echo $$; exec sleep 600")
    pid = process.stdout.readline().decode().strip()
    wait_for(lambda: why()["because"] == "request", "the stream counts")
    process.kill()
    process.communicate()
    named = f"process {pid} started through the API"
    wait_for(lambda: (why()["detail"] or "").startswith(named), "the process counts without its client")
    world.ok("exec", "-u", "root", sandbox, "sh", "-c", f"kill {pid}; echo kept > /root/note; sleep 600 > /dev/null 2>&1 &")

    def listed():
        """What was seen last. To ask it again and again would be work for it."""
        rows = json.loads(world.ok("ps", "--json"))
        return next(row["activity"] for row in rows if row["sandboxID"] == sandbox)

    wait_for(lambda: not listed()["awake"], "it falls asleep", 60)
    assert why()["because"] == "idle", why()
    assert "no work" in world.ok("ps") and re.search("state +paused", world.ok("get", sandbox))
    assert world.ok("exec", "-u", "root", sandbox, "cat", "/root/note") == "kept\n", "a command wakes it"
    world.ok("idle", sandbox, "off")
    assert why()["because"] == "no_idle_timeout", why()
    assert "paused after 1 s without work" in world.ok("logs", sandbox)
    world.ok("kill", sandbox)
