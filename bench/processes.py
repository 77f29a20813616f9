# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of programs that stand between client and server share: starting them, and what they use."""
import contextlib
import os
import socket
import subprocess
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, address="127.0.0.1"):
    for _ in range(3000):
        with contextlib.suppress(OSError):
            socket.create_connection((address, port)).close()
            return
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens on port {port}")


def family(pid):
    """A process and its children, of every degree."""
    found = [pid]
    for one in found:
        said = subprocess.run(["pgrep", "-P", str(one)], capture_output=True, text=True).stdout
        found += [int(word) for word in said.split()]
    return found


def resident_kib(pid):
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError), open(f"/proc/{one}/status") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return total


def cpu_seconds(pid):
    """Of a process and its children, user and system."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError), open(f"/proc/{one}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
