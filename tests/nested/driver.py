#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Atoll on a host where KVM works and cgroups have version 2 only: one that QEMU emulates, with a disk made for it.

Goal: what only such hosts do is tried: machines on KVM, limits, freezing and killing in version 2, Debian's own kernel.
Method: the real command and daemons inside (inside.py), and some of the runner's unit tests; what they say comes out over the
serial console, in lines that begin with "@".

Usage: driver.py [--keep FOLDER]     leaves the disk in FOLDER and shows all that the console says
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import host
from host import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from instance import find_base_template  # noqa: E402

START_S = 90   # until the emulated host begins with its tests; it takes 5 where nothing else runs
LIMIT_S = 780  # of the tests; they take a third of that where nothing else runs
DISK_BYTES = 12 << 30
LINE = "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off random.trust_cpu=on nowatchdog"


def machine_image(programs, folder, qemu):
    """That of the microvm tier, made as a user makes it."""
    done = subprocess.run([programs + "/atoll-template", "machine", "--data-dir", folder, "--kernel-tree", ROOT + "/build/kernel",
                           "--qemu-tree", qemu.folder or "/"], capture_output=True, text=True)
    if done.returncode != 0:
        raise host.Missing(done.stdout + done.stderr)
    (image,) = glob.glob(folder + "/machine/machine-*.erofs")
    return image


def unit_tests():
    """The folder of the preset whose unit tests of the runner were built last, or None."""
    built = [path for name in ("asan", "dev") for path in glob.glob(f"{ROOT}/build/{name}/src/runner/runner_test")]
    newest = max(built, key=os.path.getmtime, default=None)
    return newest and newest.removesuffix("/src/runner/runner_test")


def add_unit_tests(tree, preset):
    """At the places that they were built for, by which they find the programs that they run."""
    stand_ins = ("runner_test", "stub_guestd", "stub_runsc_old", "stub_runsc_failing")
    built = [preset + "/src/sys/sys_test", *(f"{preset}/src/runner/{name}" for name in stand_ins)]
    for path in [*glob.glob(preset + "/bin/atoll-*"), *built]:
        if os.path.exists(path):
            tree.copy(path)
    tree.write("/nested/unit", preset)


def make_disk(work, programs, kernel, qemu):
    template = find_base_template()
    if template is None:
        raise host.Missing("there is no template 'base' on this machine: atoll-template build-base")
    tree = host.Tree(work + "/tree")
    tree.add_system()
    tree.add_modules(kernel)
    for path in glob.glob(programs + "/atoll*"):
        tree.copy(path, "/atoll/" + os.path.basename(path))
    image = machine_image(programs, work + "/machine", qemu)
    tree.copy(image, "/var/lib/atoll/machine/" + os.path.basename(image))
    for name in os.listdir(template):
        tree.copy(f"{template}/{name}", f"/var/lib/atoll/templates/{os.path.basename(os.path.realpath(template))}/{name}")
    for path in (host.HERE + "/start", host.HERE + "/inside.py", ROOT + "/tests/support/api.py", ROOT + "/tests/support/kernel.py"):
        tree.copy(path, "/nested/" + os.path.basename(path))
    preset = unit_tests()
    if preset:
        add_unit_tests(tree, preset)
    tree.image(work + "/disk", DISK_BYTES)
    shutil.rmtree(tree.folder)


class Count:
    """What the lines of the console say."""

    def __init__(self, show_all):
        self.show_all = show_all
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.now, self.ended, self.other = None, False, []

    def take(self, line):
        word, _, rest = line.partition(" ")
        if word == "@begin":
            self.now = rest
        elif word == "@passed":
            self.passed += 1
            print("ok      " + rest, flush=True)
        elif word == "@skipped":
            self.skipped += 1
            print("SKIPPED " + rest, flush=True)
        elif word == "@failed":
            self.failed += 1
            print("FAILED  " + rest, flush=True)
        elif word == "@end":
            self.ended = True
        elif word == "@note" or self.show_all:
            print("        " + (rest if word == "@note" else line), flush=True)
        else:
            self.other = (self.other + [line])[-40:]

    def judge(self, late):
        if not self.ended:
            self.failed += 1
            why = "not done in time, or told to end" if late else "the host ended too early"
            print(f"FAILED  {self.now or 'the start of the host'}: {why}; the last lines of its console:")
            print("\n".join("        " + line for line in self.other))
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0


def come_first():
    """In the child: bounds on the emulated host are those of real ones, so it comes before what else this machine does."""
    os.nice(-10)
    try:
        # KERNEL: where sessions are scheduled as groups, the nice value counts only within one (sched(7), "autogroup").
        with open("/proc/self/autogroup", "w") as file:
            file.write("-10")
    except OSError:
        pass


class Host:
    """The emulated host while it runs, and until it has switched itself off."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=environment, preexec_fn=come_first)
        self.late, self.told = False, False

    def end(self, number, _):
        self.late, self.told = True, number == signal.SIGTERM
        self.process.kill()

    def follow(self, count):
        signal.signal(signal.SIGALRM, self.end)
        signal.signal(signal.SIGTERM, self.end)
        signal.alarm(START_S)
        for line in self.process.stdout:
            began = count.now is not None
            count.take(re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", line.decode(errors="replace")).rstrip())
            if count.now is not None and not began:
                signal.alarm(LIMIT_S)
        signal.alarm(0)
        self.process.wait()
        return count.now is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    programs = os.path.abspath(os.environ.get("ATOLL_PROGRAMS") or ROOT + "/build/dev/bin")
    work = options.keep or tempfile.mkdtemp(prefix="atoll-nested-", dir="/var/tmp")
    os.makedirs(work, exist_ok=True)
    try:
        kernel, qemu = host.Kernel(ROOT + "/build/host-kernel"), host.Qemu(ROOT + "/build/qemu")
        started = time.monotonic()
        make_disk(work, programs, kernel, qemu)
        host.make_first(work + "/first", kernel, work + "/first.cpio")
        print(f"a host with Linux {kernel.version}, made in {time.monotonic() - started:.0f} s", flush=True)
        command = qemu.command(kernel.image, work + "/first.cpio", work + "/disk", LINE)
        count = Count(bool(options.keep))
        emulated = Host(command, qemu.environment)
        if not emulated.follow(count) and emulated.late and not emulated.told:
            print("the host did not begin; once more", flush=True)
            emulated = Host(command, qemu.environment)
            emulated.follow(count)
        return count.judge(emulated.late)
    except host.Missing as missing:
        print(f"SKIPPED tests on an emulated host: {missing}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
