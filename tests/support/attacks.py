# SPDX-License-Identifier: Apache-2.0
"""Bad neighbours: programs that take all of one thing, for ever, and how their sandbox tells them of its limit.

Each says "limit <errno>" when it meets one, and goes on. Run with python3 inside a sandbox.
"""
import base64
import threading

FORKS = r"""
import os, time
while True:
    try:
        os.fork()
    except OSError as error:
        os.write(1, b'limit %d\n' % error.errno)
        time.sleep(1)
"""
MEMORY = r"""
import subprocess, sys
child = "kept = []\nwhile True: kept.append(b'x' * (1 << 20))"
while True:
    print('limit', subprocess.run([sys.executable, '-c', child]).returncode, flush=True)
"""
DISK = r"""
import os
block = b'x' * (1 << 20)
while True:
    file = os.open('/home/user/fill', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while True: os.write(file, block)
    except OSError as error:
        print('limit', error.errno, flush=True)
    os.close(file)
"""
# Hard links cost no inode and directories cost a block each, so: empty files.
INODES = r"""
import os
os.makedirs('/home/user/many', exist_ok=True)
number = 0
while True:
    try:
        os.close(os.open('/home/user/many/%d' % number, os.O_WRONLY | os.O_CREAT))
        number += 1
    except OSError as error:
        print('limit', error.errno, flush=True)
        for i in range(number): os.unlink('/home/user/many/%d' % i)
        number = 0
"""
OUTPUT = r"""
import os
line = b'x' * 1023 + b'\n'
while True: os.write(1, line * 64)
"""
CPU = r"""
import os
for _ in range(15):
    if os.fork() == 0: break
while True: pass
"""
FSYNC = r"""
import os
for _ in range(3):
    if os.fork() == 0: break
file = os.open('/home/user/sync%d' % os.getpid(), os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(file, os.urandom(4096), 0)
    os.fsync(file)
"""
EAGAIN, ENOSPC, KILLED = "11", "28", "-9"
# name: (program, what it is told at the limit, or None where the limit only slows it down)
ATTACKS = {
    "fork bomb": (FORKS, EAGAIN),
    "memory fill": (MEMORY, KILLED),
    "disk fill": (DISK, ENOSPC),
    "inode fill": (INODES, ENOSPC),
    "output flood": (OUTPUT, None),
    "CPU storm": (CPU, None),
    "fsync storm": (FSYNC, None),
}


class Attack(threading.Thread):
    """One of them, running in a sandbox; what it says is read all the time. `ended` tells how its stream ended."""

    def __init__(self, sandbox, name):
        super().__init__(daemon=True)
        program, self.limit = ATTACKS[name]
        self.said, self.bytes, self.ended = [], 0, None
        self.met = threading.Event()
        self.pid, self.stream = sandbox.background(["/usr/bin/python3", "-c", program], user="user", socket_timeout=300)
        self.start()

    def run(self):
        rest = b""
        try:
            for event in self.stream:
                text = base64.b64decode(event.get("data", {}).get("stdout", ""))
                self.bytes += len(text)
                *lines, rest = (rest[-4096:] + text).split(b"\n")
                told = [line.split()[1].decode() for line in lines if line.startswith(b"limit ")]
                self.said = (self.said + told)[-10:]
                if told or self.bytes > 1 << 20:
                    self.met.set()
                if "end" in event:
                    self.ended = event["end"].get("outcome", {}).get("kind", "no kind")
            self.ended = self.ended or f"error {self.stream.end_error}"
        except Exception as error:  # the sandbox is gone, with its stream
            self.ended = self.ended or f"broken: {type(error).__name__}"
        self.met.set()
