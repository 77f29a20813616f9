# SPDX-License-Identifier: Apache-2.0
"""What the kernel holds: the objects that a sandbox is made of, found without asking Atoll.

`Inventory` lists everything on this machine that belongs to one instance. The fault tests compare two of them; the
escape tests look at the processes of one sandbox.
"""
import ctypes
import os
import re
import socket
import subprocess

UID_BASE = 0x70000000
UIDS_PER_SLOT = 65536
CGROUP_ROOT = "/sys/fs/cgroup"

libc = ctypes.CDLL(None, use_errno=True)


def read(path, default=""):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return default


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def status_fields(pid, task=None):
    """/proc/<pid>/status as a dictionary; empty when the process is gone."""
    path = f"/proc/{pid}/task/{task}/status" if task else f"/proc/{pid}/status"
    return dict(
        line.split(":\t", 1) if ":\t" in line else (line.rstrip(":"), "")
        for line in read(path).splitlines()
        if ":" in line
    )


def start_ticks(pid):
    """Field 22 of /proc/<pid>/stat: with the pid, it names a process for ever. None when it is gone."""
    text = read(f"/proc/{pid}/stat")
    return int(text.rpartition(")")[2].split()[19]) if text else None


def alive(pid, ticks):
    text = read(f"/proc/{pid}/stat")
    if not text:
        return False
    fields = text.rpartition(")")[2].split()
    return int(fields[19]) == ticks and fields[0] not in "ZX"


def hierarchies():
    """Mount points of every control group hierarchy."""
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            found.append(left.split()[4])
    return sorted(set(found))


def cgroup_children(parent):
    """{hierarchy: [names]} of the groups one level below <hierarchy>/<parent>."""
    found = {}
    for top in hierarchies():
        path = os.path.join(top, parent)
        if os.path.isdir(path):
            found[top] = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    return found


def cgroup_pids(parent, name):
    """Every process in <hierarchy>/<parent>/<name> or below, over all hierarchies."""
    found = set()
    for top in hierarchies():
        for folder, _, files in os.walk(os.path.join(top, parent, name)):
            if "cgroup.procs" in files:
                found.update(int(line) for line in read(os.path.join(folder, "cgroup.procs")).split())
    return found


def processes_of_uids(first, count):
    """pids whose real uid is in the range."""
    found = []
    for pid in pids():
        uid = status_fields(pid).get("Uid", "").split()
        if uid and first <= int(uid[0]) < first + count:
            found.append(pid)
    return found


def links(prefix="atl"):
    # Not /sys/class/net: that shows the namespace in which /sys was mounted, not ours.
    return sorted(name for _, name in socket.if_nameindex() if re.fullmatch(prefix + r"\d+", name))


def loop_devices(folder):
    """Loop devices whose backing file lies below `folder`."""
    found = {}
    for name in os.listdir("/sys/block"):
        backing = read(f"/sys/block/{name}/loop/backing_file").strip() if name.startswith("loop") else ""
        if backing.startswith(folder):
            found[name] = backing
    return found


def mounts_below(folder, pid="self"):
    """Mount points at or below `folder` as process `pid` sees them, and those whose source is there."""
    found = []
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        where, source = left.split()[4], right.split()[1]
        if where.startswith(folder) or source.startswith(folder) or folder in right:
            found.append(where)
    return sorted(found)


def nft_tables():
    done = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True)
    return sorted(line.strip() for line in done.stdout.splitlines())


def nft_elements(table):
    """How many set elements, rules and chains the table holds, by name. Empty when there is no such table."""
    import json

    done = subprocess.run(["nft", "-j", "list", "table", "inet", table], capture_output=True, text=True)
    if done.returncode != 0:
        return {}
    counts = {}
    for item in json.loads(done.stdout)["nftables"]:
        for kind in ("set", "map"):
            if kind in item:
                counts[f"{kind} {item[kind]['name']}"] = len(item[kind].get("elem", []))
        if "rule" in item:
            key = "rules of " + item["rule"]["chain"]
            counts[key] = counts.get(key, 0) + 1
    return counts


def open_descriptors(pid):
    """Targets of the open descriptors of a process."""
    found = {}
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                pass
    except OSError:
        pass
    return found


def children(pid):
    """Direct children of all threads of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for task in tasks for child in read(f"/proc/{pid}/task/{task}/children").split()]


def descendants(pid):
    children = {}
    for other in pids():
        text = read(f"/proc/{other}/stat")
        if text:
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(other)
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def memory_of(pid):
    """What a process may write in its memory, in blocks."""
    for line in read(f"/proc/{pid}/maps").splitlines():
        span, rights = line.split()[:2]
        if not rights.startswith("rw"):
            continue
        start, end = (int(x, 16) for x in span.split("-"))
        try:
            with open(f"/proc/{pid}/mem", "rb") as memory:
                memory.seek(start)
                yield memory.read(end - start)
        except OSError:
            pass


def data_of_file(path):
    """The stretches of a sparse file that hold data, in blocks."""
    with open(path, "rb") as file:
        size, at = file.seek(0, os.SEEK_END), 0
        while at < size:
            try:
                start = file.seek(at, os.SEEK_DATA)
            except OSError:
                return
            at = file.seek(start, os.SEEK_HOLE)
            file.seek(start)
            yield file.read(at - start)


def resident_kib(pid, field="VmRSS"):
    return int(status_fields(pid).get(field, "0 kB").split()[0])


def proportional_kib(pid):
    match = re.search(r"^Pss:\s+(\d+)", read(f"/proc/{pid}/smaps_rollup"), re.M)
    return int(match.group(1)) if match else 0


class Inventory:
    """Everything one instance holds on this machine right now. Two are equal when nothing leaked between them."""

    def __init__(self, instance):
        first, count = instance.slot_first, instance.slot_count
        self.processes = sorted(processes_of_uids(UID_BASE + first * UIDS_PER_SLOT, count * UIDS_PER_SLOT))
        # Helpers that a daemon started and left behind: they name the folders in their arguments, as it does.
        ours = set(instance.daemon_pids())
        self.strays = [
            pid for pid in pids() if pid not in ours and instance.data_dir in read(f"/proc/{pid}/cmdline")
        ]
        self.cgroups = {top: names for top, names in cgroup_children(instance.name).items() if names}
        self.links = [name for name in links() if first <= int(name[3:]) < first + count]
        self.loops = loop_devices(instance.data_dir)
        self.mounts = mounts_below(instance.data_dir)
        # Of sandboxes that run or rest in memory, and of those that rest on their disk.
        folders = [instance.run_dir + "/sandboxes", instance.data_dir + "/stored"]
        names = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
        self.records = sorted(set(names))
        disks = instance.data_dir + "/disks"
        self.disks = sorted(os.listdir(disks)) if os.path.isdir(disks) else []
        self.temporary = [
            os.path.join(folder, name)
            for top in (instance.data_dir, instance.run_dir)
            for folder, _, names in os.walk(top)
            for name in names
            if name.endswith(".tmp")
        ]
        self.nft = nft_elements(instance.name)

    def as_dict(self):
        return dict(vars(self))
