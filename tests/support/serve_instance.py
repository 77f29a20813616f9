# SPDX-License-Identifier: Apache-2.0
"""Runs an instance of its own until standard input closes: serve_instance.py PROGRAMS NAME SLOT_FIRST SLOT_COUNT

Prints one line of JSON when it serves: {"url", "domain", "key", "ca"}. `ca` is the certificate file of TLS.
"""
import fcntl
import json
import shutil
import signal
import sys
import tempfile

from instance import Instance


def take_turn(name):
    """Two instances of one name would take each other's slots: waits until no other run has it. Held until the end."""
    lock = open(f"/run/lock/atoll-test-{name}", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for another run that uses the instance name {name}", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def main():
    programs, name, slot_first, slot_count = sys.argv[1:5]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    turn = take_turn(name)
    folder = tempfile.mkdtemp(prefix=f"atoll-{name}-", dir="/var/tmp")
    instance = Instance(programs, folder, name=name, slot_first=int(slot_first), slot_count=int(slot_count))
    keep_logs = True
    try:
        if not instance.template:
            sys.exit("there is no template 'base' on this machine: build it with `atoll-template build-base`")
        instance.prepare()
        instance.start_first()
        print(json.dumps({"url": f"http://127.0.0.1:{instance.port}", "domain": f"atoll.localhost:{instance.port}",
                          "key": instance.key(), "ca": f"{instance.data_dir}/control/tls/ca.pem"}), flush=True)
        sys.stdin.read()
        keep_logs = False
    except SystemExit:
        keep_logs = False
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        instance.stop()
        turn.close()
        if keep_logs:
            print(f"the logs of the instance are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
