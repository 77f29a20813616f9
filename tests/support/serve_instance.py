# SPDX-License-Identifier: Apache-2.0
"""Runs an instance of its own until standard input closes: serve_instance.py PROGRAMS NAME SLOT_FIRST SLOT_COUNT

Prints one line of JSON when it serves: {"url", "domain", "key", "ca"}. `ca` is the certificate file of TLS. When anything
was written to standard input, something failed: what the daemons complained of is then printed, too.
"""
import json
import re
import shutil
import signal
import sys
import tempfile

from instance import Instance


COMPLAINTS = 60


def show_complaints(instance):
    """The last warnings and errors of the daemons, and how sandboxes ended that nobody killed."""
    for daemon in (instance.control, instance.runner):
        with open(daemon.log, errors="replace") as log:
            lines = [line for line in log if '"level":"info"' not in line or re.search('"outcome":"(?!killed)', line)]
        print(f"--- {daemon.name} of {instance.name}: {len(lines)} lines, the last of them:", file=sys.stderr)
        print("".join(lines[-COMPLAINTS:]), file=sys.stderr, flush=True)


def main():
    programs, name, slot_first, slot_count = sys.argv[1:5]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = tempfile.mkdtemp(prefix=f"atoll-{name}-", dir="/var/tmp")
    instance = Instance(programs, folder, name=name, slot_first=int(slot_first), slot_count=int(slot_count))
    keep_logs = True
    try:
        instance.prepare()
        instance.start_first()
        print(json.dumps({"url": f"http://127.0.0.1:{instance.port}", "domain": f"atoll.localhost:{instance.port}",
                          "key": instance.key(), "ca": f"{instance.data_dir}/control/tls/ca.pem"}), flush=True)
        if sys.stdin.read():
            show_complaints(instance)
        keep_logs = False
    except SystemExit:
        keep_logs = False
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        instance.stop()
        if keep_logs:
            print(f"the logs of the instance are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
