# SPDX-License-Identifier: Apache-2.0
"""Deliberately weakened sandboxes, each caught by a probe: the proof that the probes see what they are for.

A sandbox that runs is weakened from outside, as root of the host can, in one respect each: a rule of the firewall, a limit, a
mount, a namespace. Where only the start decides, strace leaves out steps of the launcher (see mutants.py). The named probe is
blocked in a sandbox that is as it should be, and must get through in the weakened one. tests/README.md lists them all; that
the list is right is checked, too.
"""
import ctypes
import os
import re
import shutil
import signal
import stat
import tempfile

import kernel
from api import wait_until
from world import run

HERE = os.path.dirname(os.path.abspath(__file__))
README = os.path.join(HERE, "../README.md")
MIN_COUNT = 25
OPEN_TREE, MOVE_MOUNT, OPEN_TREE_CLONE, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 428, 429, 1, 0x8000, 4, -100
CLONE_NEWNS, MNT_DETACH = 0x20000, 2

libc = ctypes.CDLL(None, use_errno=True)


def in_mounts_of(pid, work):
    """Runs `work` in a child that has entered the mount namespace of a process. No program of the sandbox is run."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
            if libc.setns(space, CLONE_NEWNS) == 0 and work() == 0:
                status = 0
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise OSError("could not change the mounts of the sandbox")


def mount_into(pid, source, target):
    """A copy of a mount of the host, at a place in a sandbox."""
    tree = libc.syscall(OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE | AT_RECURSIVE)
    if tree < 0:
        raise OSError(ctypes.get_errno(), f"open_tree of {source}")
    try:
        move = (MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)
        in_mounts_of(pid, lambda: libc.syscall(*move))
    finally:
        os.close(tree)


def unmount_in(pid, target):
    in_mounts_of(pid, lambda: libc.umount2(target.encode(), MNT_DETACH))


class Weakening:
    """One way of being weak. `work` gets a Workshop; `steps` are calls of the launcher to leave out instead."""

    def __init__(self, name, probe, work=None, steps=()):
        self.name, self.probe, self.work, self.steps = name, probe, work, steps


def no_special(address):
    return lambda shop: shop.firewall(f"delete element inet {shop.table} special {{ {address} }}")


def no_firewall(shop):
    shop.firewall(f"delete table inet {shop.table}")


def open_host(shop):
    shop.firewall(f"flush chain inet {shop.table} to_host")


def unmask(path):
    return lambda shop: unmount_in(shop.guest, path)


def device(name, minor):
    def work(shop):
        folder = f"{shop.world.folder}-dev"
        for path, major, number in (("null", 1, 3), (name, 10, minor)):
            path = f"{folder}/{path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.path.exists(path) or os.mknod(path, stat.S_IFCHR, os.makedev(major, number))
            os.chmod(path, 0o666)
        mount_into(shop.guest, folder, "/dev")
        shop.group("devices.allow", f"c 10:{minor} rw")

    work.needs = f"/dev/{name}"
    return work


def host_folder(shop):
    shop.inside(f"mkdir -p {shop.world.folder}")
    mount_into(shop.guest, shop.world.folder, shop.world.folder)


def host_socket(shop):
    shop.inside(f"mkdir -p {shop.world.folder} && touch {shop.world.host_socket}")
    mount_into(shop.guest, shop.world.host_socket, shop.world.host_socket)


def runner_socket(shop):
    path = shop.instance.run_dir + "/runner.sock"
    shop.inside(f"mkdir -p {shop.instance.run_dir} && touch {path}")
    mount_into(shop.guest, path, path)
    os.chmod(path, 0o666)
    shop.later(lambda: os.chmod(path, 0o660))


def shared_file(shop):
    path = shop.world.folder + "-shared"
    with open(path, "w") as file:
        file.write("12\n")
    os.chmod(path, 0o666)
    for pid in (shop.guest, shop.neighbour_guest):
        mount_into(pid, path, "/etc/debian_version")
    shop.later(lambda: unmount_in(shop.neighbour_guest, "/etc/debian_version"))


def own_group(shop):
    folder = f"{shop.world.folder}-sys"
    os.makedirs(folder + "/fs/cgroup", exist_ok=True)
    mount_into(shop.guest, folder, "/sys")
    group, owner = shop.groups()[0], int(kernel.status_fields(shop.guest)["Uid"].split()[0])
    for path in [group, *(os.path.join(group, name) for name in os.listdir(group))]:
        os.chown(path, owner, owner)
    mount_into(shop.guest, group, "/sys/fs/cgroup")


def bigger_disk(shop):
    # Not in /tmp: on Debian 13 that is memory, and what is written there would count against the sandbox.
    folder = tempfile.mkdtemp(prefix="atoll-escape-disk-", dir="/var/tmp")
    shop.later(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.chmod(folder, 0o777)
    mount_into(shop.guest, folder, "/var/tmp")


def second_link(shop):
    """Into the host, past the slot's rules."""
    run("ip", "link", "add", "weak0", "type", "veth", "peer", "name", "weak1", "netns", str(shop.guest))
    shop.later(lambda: run("ip", "link", "delete", "weak0", check=False))
    run("ip", "address", "add", "10.77.0.1/24", "dev", "weak0")
    run("ip", "link", "set", "weak0", "up")
    shop.in_network("ip", "address", "add", "10.77.0.2/24", "dev", "weak1")
    shop.in_network("ip", "link", "set", "weak1", "up")
    shop.in_network("ip", "route", "add", "169.254.169.254/32", "via", "10.77.0.1")


def sysctl_inside(key, value):
    return lambda shop: shop.in_network("sysctl", "-qw", f"{key}={value}")


CAPABILITIES = [("prctl", "1+"), ("capset", "1+")]
FILTER, LANDLOCK = ("seccomp", 1), ("landlock_restrict_self", 1)
WEAKENINGS = [
    Weakening("there is no firewall table", "N01.metadata_udp", no_firewall),
    Weakening("link-local addresses are not special", "N01.metadata", no_special("169.254.0.0/16")),
    Weakening("10.0.0.0/8 is not special", "N01.private_10", no_special("10.0.0.0/8")),
    Weakening("172.16.0.0/12 is not special", "N01.private_172", no_special("172.16.0.0/12")),
    Weakening("192.168.0.0/16 is not special", "N01.private_192", no_special("192.168.0.0/16")),
    Weakening("100.64.0.0/10 is not special", "N01.metadata_alibaba", no_special("100.64.0.0/10")),
    Weakening("198.18.0.0/15 is not special", "N01.benchmark", no_special("198.18.0.0/15")),
    Weakening("what comes from a slot may reach the host", "N02.host_address", open_host),
    Weakening("a second link, past the rules", "N01.metadata", second_link),
    Weakening("every group may send echo requests", "K20.ping_socket", sysctl_inside("net.ipv4.ping_group_range", "0 2147483647")),
    Weakening("no limit of processes", "R01.fork_bomb", lambda shop: shop.group("pids.max", "max")),
    Weakening("no limit of memory", "R03.anonymous", lambda shop: shop.no_memory_limit()),
    Weakening("/var/tmp is on the host's disk", "R04.disk", bigger_disk),
    Weakening("a folder of the host is mounted", "K05.canary_path", host_folder),
    Weakening("a socket of the host is mounted", "K28.host_path", host_socket),
    Weakening("the runner's socket is mounted, for everybody", "K28.runner_path", runner_socket),
    Weakening("two sandboxes share a writable file", "K31.shared_layer", shared_file),
    Weakening("/proc/keys is not masked", "K02.keys", unmask("/proc/keys")),
    Weakening("/proc/key-users is not masked", "K02.key_users", unmask("/proc/key-users")),
    Weakening("/proc/cmdline is not masked", "K32.kernel_cmdline", unmask("/proc/cmdline")),
    Weakening("/proc/diskstats is not masked", "K32.diskstats", unmask("/proc/diskstats")),
    Weakening("/proc/interrupts is not masked", "K32.interrupts", unmask("/proc/interrupts")),
    Weakening("/proc/zoneinfo is not masked", "K32.zoneinfo", unmask("/proc/zoneinfo")),
    Weakening("the host's /sys", "K32.loop_backing", lambda shop: mount_into(shop.guest, "/sys", "/sys")),
    Weakening("its control group is its own to change", "K24.cgroup_files", own_group),
    Weakening("/dev/fuse, and the right to open it", "K13.fuse", device("fuse", 229)),
    Weakening("/dev/net/tun, and the right to open it", "K13.tun", device("net/tun", 200)),
    Weakening("the host's network", "N02.loopback", steps=[("setns", 1)]),
    Weakening("the host's network, no Landlock", "K28.host_abstract", steps=[("setns", 1), LANDLOCK]),
    Weakening("the host's name", "K32.host_name", steps=[("sethostname", 1)]),
    Weakening("no Landlock", "K12.whiteout", steps=[LANDLOCK]),
    Weakening("no filter of system calls", "K16.add_key", steps=[FILTER]),
    Weakening("no filter, no Landlock, every capability", "K06.tmpfs", steps=[FILTER, LANDLOCK, *CAPABILITIES]),
]


class Workshop:
    """What a weakening works on: a fresh sandbox of its own, and how to take back what it did to the host."""

    def __init__(self, world, instance, sandbox, neighbour_guest):
        self.world, self.instance, self.sandbox = world, instance, sandbox
        self.guest, self.neighbour_guest = instance.guest_pid(sandbox.id), neighbour_guest
        self.table = instance.name
        self.undo = []

    def later(self, work):
        self.undo.append(work)

    def firewall(self, command):
        """The runner would put it right at once, so it stands still meanwhile."""
        os.kill(self.instance.runner.pid, signal.SIGSTOP)
        self.later(lambda: wait_until(lambda: kernel.nft_elements(self.table), 20, "the rules to come back"))
        self.later(lambda: os.kill(self.instance.runner.pid, signal.SIGCONT))
        self.later(lambda: run("nft", "delete", "table", "inet", self.table, check=False))
        run("nft", command)

    def groups(self):
        tops = [os.path.join(top, self.instance.name, self.sandbox.id) for top in kernel.hierarchies()]
        return [folder for folder in tops if os.path.isdir(folder)]

    def group(self, name, value):
        found = [os.path.join(folder, name) for folder in self.groups() if os.path.exists(os.path.join(folder, name))]
        for path in found:
            with open(path, "w") as file:
                file.write(value)
        return found

    def no_memory_limit(self):
        for name, value in (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1"), ("memory.max", "max")):
            self.group(name, value)

    def inside(self, command):
        self.sandbox.run(command, user="root")

    def in_network(self, *command):
        run("nsenter", "-n", "-t", str(self.guest), *command)

    def close(self):
        for work in reversed(self.undo):
            work()


class Weakened:
    def __init__(self, harness, mutants, neighbour):
        self.harness, self.mutants, self.neighbour = harness, mutants, neighbour
        self.report = harness.report

    def probe(self, probe):
        """Whether it gets through in the harness's sandbox, and what was said."""
        through, answer, evidence = self.harness.run_probe(probe, "root", self.harness.arguments)
        self.harness.world.forget_hits()
        return through, f"{answer['errno']} {answer['note']} {answer['detail'][:120]!r} {evidence}"

    def sandbox(self, weakening):
        """A sandbox that starts as it should, or without some steps."""
        sandbox, refused = self.mutants.create(weakening.steps)
        if sandbox is None:
            raise RuntimeError(f"the start was refused: {refused}")
        self.harness.equip(sandbox)
        self.harness.take(sandbox)
        return sandbox

    def one(self, weakening):
        name = f"weakened: {weakening.name}"
        if (needs := getattr(weakening.work, "needs", None)) and not os.path.exists(needs):
            self.report.skip(name, f"this host has no {needs}")
            return False
        sandbox = self.sandbox(weakening)
        shop = Workshop(self.harness.world, self.harness.instance, sandbox, self.harness.instance.guest_pid(self.neighbour.id))
        try:
            if weakening.work:
                before, said = self.probe(weakening.probe)
                if before:
                    self.report.fail(name, f"{weakening.probe} gets through before: {said}")
                    return False
                weakening.work(shop)
            through, said = self.probe(weakening.probe)
        finally:
            shop.close()
            sandbox.kill()
        return self.report.check(name, through, f"{weakening.probe} does not notice: {said}")

    def run(self):
        caught = 0
        for weakening in WEAKENINGS:
            try:
                caught += self.one(weakening)
            except Exception as error:
                self.report.fail(f"weakened: {weakening.name}", f"{type(error).__name__}: {error}")
        self.report.check("weakened.count", caught >= MIN_COUNT, f"{caught} of {len(WEAKENINGS)} were caught")
        section = re.search(r"^## Weakened sandboxes$(.*?)(?=^## |\Z)", kernel.read(README), re.M | re.S)[1]
        listed = re.findall(r"^\| (.+?) \| `(\S+)` \|$", section, re.M)
        wanted = [(weakening.name, weakening.probe) for weakening in WEAKENINGS]
        self.report.check("weakened.listed", listed == wanted, f"tests/README.md differs: {set(wanted) ^ set(listed)}")
