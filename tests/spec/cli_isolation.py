# SPDX-License-Identifier: Apache-2.0
"""Isolation in the command: how it is asked for and ruled, and when `atoll doctor` fails. Part of cli.py."""
import json


def doctor_finds_this_machine_fit(world):
    findings = json.loads(world.ok("doctor", "--json", *world.machine))
    names = {item["name"] for item in findings}
    assert {"user_namespaces", "cgroup_memory", "idmapped_mounts", "runsc_starts", "tier container"} <= names, names
    wrong = [item for item in findings if item["state"] == "failed"]
    assert not wrong, wrong


def doctor_fails_when_the_default_tier_cannot_work(world):
    done = world.run("doctor", "--json", "--default-isolation", "microvm", "--run-dir", world.folder + "/elsewhere",
                     "--data-dir", world.folder + "/data")
    findings = {item["name"]: item for item in json.loads(done.stdout)}
    if findings["qemu"]["state"] == "ok":
        assert findings["tun"]["state"] != "skipped", findings["tun"]
        return
    assert (done.returncode, findings["qemu"]["state"]) == (1, "failed"), findings["qemu"]
    assert findings["qemu"]["remedy"], findings["qemu"]


def given_or_refused(world, least, *words):
    """What this host can: the tier or a stronger one, or a refusal that names it."""
    done = world.run("create", "--json", *words)
    if done.returncode != 0:
        assert done.returncode == 125 and b"isolation_unavailable" in done.stderr and least.encode() in done.stderr, done
        return
    row = json.loads(done.stdout)
    tiers = ["container", "gvisor", "microvm"]
    assert tiers.index(row["isolation"]) >= tiers.index(least), row
    world.ok("kill", row["sandboxID"])


def isolation_is_asked_for_and_ruled(world):
    row = json.loads(world.ok("create", "--json", "--risk", "low"))
    assert (row["isolation"], row["isolationAsked"], row["isolationAskedBy"]) == ("container", "low", "caller"), row
    world.ok("kill", row["sandboxID"])
    given_or_refused(world, "microvm", "--isolation", "microvm")
    assert "at least gvisor" in world.ok("template", "set", "base", "--min-isolation", "gvisor")
    shown = json.loads(world.ok("template", "list", "--json"))[0]
    assert shown["minIsolation"] == "gvisor", shown
    given_or_refused(world, "gvisor", "--isolation", "container")
    world.ok("template", "set", "base", "--min-isolation", "none")
    assert "medium" in world.ok("tenant", "set", "default", "--isolation", "medium")
    assert json.loads(world.ok("tenant", "list", "--json"))[0]["isolation"] == "medium"
    world.ok("tenant", "set", "default", "--isolation", "none")
    assert world.run("tenant", "set", "nobody", "--isolation", "low").returncode != 0
    assert world.run("tenant", "set", "default").returncode != 0


TESTS = [doctor_finds_this_machine_fit, doctor_fails_when_the_default_tier_cannot_work, isolation_is_asked_for_and_ruled]
