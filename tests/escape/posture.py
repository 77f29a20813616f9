# SPDX-License-Identifier: Apache-2.0
"""The posture of every process of a sandbox, collected from the host and compared with posture.expected.json.

Everything that confines a process is in the document: what is not listed there must not be there. A field of
/proc/<pid>/status that is neither compared nor listed as "ignored" fails, so that a new kernel's new field is looked at.
"""
import json
import os
import re

import kernel

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
LIMITS = {
    "Max cpu time": "cpu",
    "Max file size": "fsize",
    "Max data size": "data",
    "Max stack size": "stack",
    "Max core file size": "core",
    "Max resident set": "rss",
    "Max processes": "nproc",
    "Max open files": "nofile",
    "Max locked memory": "memlock",
    "Max address space": "as",
    "Max file locks": "locks",
    "Max pending signals": "sigpending",
    "Max msgqueue size": "msgqueue",
    "Max nice priority": "nice",
    "Max realtime priority": "rtprio",
    "Max realtime timeout": "rttime",
}
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def namespace_ids(pid):
    ids = {}
    for name in NAMESPACES:
        try:
            ids[name] = os.readlink(f"/proc/{pid}/ns/{name}")
        except OSError:
            ids[name] = None
    return ids


def limits(pid):
    found = {}
    for line in kernel.read(f"/proc/{pid}/limits").splitlines()[1:]:
        name = line[:26].strip()
        soft, hard = line[26:].split()[:2]
        found[LIMITS.get(name, name)] = f"{soft} {hard}"
    return found


def descriptor_class(target, replace):
    for old, new in replace:
        target = target.replace(old, new)
    # Where a file of a control group is seen depends on the mounts of whoever opened it, and those go with the launcher.
    target = re.sub(r"^.*/<instance>/<id>/", "cgroup: ", target)
    target = re.sub(r"\d{2,}", "N", target)
    target = re.sub(r":\[\d+\]", "", target)
    return re.sub(r"\(deleted\)", "", target).strip()


def mount_table(pid, replace, base):
    """Mount points with file system, options and the shown source; owners relative to the sandbox's first id."""
    found = []
    for line in kernel.read(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        options = ",".join(
            o for o in tail[2].split(",") if not re.match(r"(lowerdir|upperdir|workdir|inode64)", o)
        )
        text = f"{fields[4]} {tail[0]} {fields[5]} source={tail[1]} root={fields[3]} {options} {' '.join(fields[6:])}".strip()
        for old, new in replace:
            text = text.replace(old, new)
        text = re.sub(r"([ug]id)=(\d+)", lambda match: f"{match[1]}=base+{int(match[2]) - base}", text)
        found.append(text)
    return found


class Collector:
    """Reads the posture of processes of one sandbox, with the parts that differ by sandbox replaced by their meaning."""

    def __init__(self, instance, sandbox, neighbour_pid):
        self.instance, self.sandbox = instance, sandbox
        self.guest = instance.guest_pid(sandbox.id)
        self.slot = instance.slot(self.guest)
        self.host, self.neighbour = namespace_ids("self"), namespace_ids(neighbour_pid)
        self.own = namespace_ids(self.guest)
        self.replace = [
            (sandbox.id, "<id>"),
            (instance.data_dir, "<data>"),
            (instance.run_dir, "<run>"),
            (f"/{instance.name}/", "/<instance>/"),
        ]

    def namespaces(self, pid):
        found = {}
        for name, value in namespace_ids(pid).items():
            if value is None:
                found[name] = "unreadable"
            elif value == self.host[name]:
                found[name] = "host"
            elif value == self.neighbour[name]:
                found[name] = "neighbour"
            else:
                found[name] = "own" if value == self.own[name] else "other"
        return found

    def id_map(self, text):
        base = kernel.UID_BASE + self.slot * kernel.UIDS_PER_SLOT
        return [" ".join(line.split()).replace(str(base), "<base>") for line in text.splitlines()]

    def ids(self, text):
        base = kernel.UID_BASE + self.slot * kernel.UIDS_PER_SLOT
        return " ".join(
            f"base+{int(n) - base}" if base <= int(n) < base + kernel.UIDS_PER_SLOT else n
            for n in text.split()
        )

    def cgroups(self, pid):
        found = {}
        for line in kernel.read(f"/proc/{pid}/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            for old, new in self.replace:
                path = path.replace(old, new)
            found[controllers or "v2"] = path
        return found

    def process(self, pid, task=None):
        status = kernel.status_fields(pid, task)
        fields = {
            "uid_map": self.id_map(kernel.read(f"/proc/{pid}/uid_map")),
            "gid_map": self.id_map(kernel.read(f"/proc/{pid}/gid_map")),
            "setgroups": kernel.read(f"/proc/{pid}/setgroups").strip(),
            "uid": self.ids(status.get("Uid", "")),
            "gid": self.ids(status.get("Gid", "")),
            "groups": self.ids(status.get("Groups", "")),
            "umask": status.get("Umask"),
            "no_new_privs": status.get("NoNewPrivs"),
            "seccomp": status.get("Seccomp"),
            "seccomp_filters": status.get("Seccomp_filters"),
            "namespaces": self.namespaces(pid),
            "limits": limits(pid),
            "cgroups": self.cgroups(pid),
            "oom_score_adj": kernel.read(f"/proc/{pid}/oom_score_adj").strip(),
            "coredump_filter": kernel.read(f"/proc/{pid}/coredump_filter").strip(),
            "personality": kernel.read(f"/proc/{pid}/personality").strip(),
            "timens_offsets": " ".join(kernel.read(f"/proc/{pid}/timens_offsets").split()),
            "scheduler": f"{os.sched_getscheduler(pid)} nice {os.getpriority(os.PRIO_PROCESS, pid)}",
            "tracer": status.get("TracerPid"),
            # A session that began outside has no number inside.
            "session": "outside" if status.get("NSsid", "0").split()[-1] == "0" else "inside",
            "root_is_own": os.stat(f"/proc/{pid}/root/").st_dev != os.stat("/").st_dev,
        }
        fields.update({name: status.get(name) for name in CAPABILITIES})
        fields["unknown_status_fields"] = sorted(
            set(status)
            - set(EXPECTED["status_fields"]["compared"])
            - set(EXPECTED["status_fields"]["ignored"])
        )
        return fields

    def group_limits(self):
        """What bounds the sandbox as a whole; a name without a value is a file that does not exist."""
        found = {}
        for top in kernel.hierarchies():
            folder = os.path.join(top, self.instance.name, self.sandbox.id)
            for name in (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                "memory.max",
                "memory.swap.max",
                "memory.swappiness",
                "memory.kmem.limit_in_bytes",
                "pids.max",
                "cpu.cfs_quota_us",
                "cpu.max",
                "cpu.shares",
                "devices.list",
                "cgroup.freeze",
            ):
                text = kernel.read(os.path.join(folder, name), None)
                if text is not None:
                    found[name] = text.split("\n")[:-1]
        return found

    def whole(self, pid):
        """What is per process and not per thread."""
        fields = self.process(pid)
        fields["descriptors"] = sorted(
            {descriptor_class(target, self.replace) for target in kernel.open_descriptors(pid).values()}
        )
        fields["environment"] = sorted(
            entry.split("=", 1)[0] for entry in kernel.read(f"/proc/{pid}/environ").split("\0") if entry
        )
        fields["cwd"] = os.readlink(f"/proc/{pid}/cwd")
        fields["mounts"] = mount_table(pid, self.replace, kernel.UID_BASE + self.slot * kernel.UIDS_PER_SLOT)
        return fields


def load(path):
    with open(path) as file:
        return json.load(file)


EXPECTED = load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "posture.expected.json"))


def merged(kind):
    """The expected document of one kind of process: the common part with its own on top.

    A masked or locked part of /proc ("?/proc/..." among the mounts) is expected exactly where this kernel has it.
    """
    document = {**EXPECTED["common"], **EXPECTED[kind]}
    document["mounts"] = [
        text.lstrip("?")
        for text in document["mounts"]
        if not text.startswith("?") or os.path.exists(text[1:].split()[0])
    ]
    return document


def differences(expected, actual, where=""):
    """Every way in which `actual` differs, as text.

    In `expected`, a string that begins with "~" is a regular expression; a key or list item that begins with "?" may be absent.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        optional = {key[1:]: value for key, value in expected.items() if key.startswith("?")}
        expected = {key: value for key, value in expected.items() if not key.startswith("?")}
        expected.update({key: value for key, value in optional.items() if key in actual})
        for key in sorted(set(expected) | set(actual)):
            place = f"{where}.{key}" if where else key
            if key not in expected:
                found.append(f"{place}: not in the expected document: {actual[key]!r}")
            elif key not in actual:
                found.append(f"{place}: missing, expected {expected[key]!r}")
            else:
                found += differences(expected[key], actual[key], place)
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        left, missing = list(actual), []
        for item in expected:
            optional = isinstance(item, str) and item.startswith("?")
            match = next((a for a in left if same(item[1:] if optional else item, a)), None)
            if match is not None:
                left.remove(match)
            elif not optional:
                missing.append(item)
        return [f"{where}: missing {item!r}" for item in missing] + [
            f"{where}: unexpected {item!r}" for item in left
        ]
    return [] if same(expected, actual) else [f"{where}: expected {expected!r}, found {actual!r}"]


def same(expected, actual):
    if isinstance(expected, str) and expected.startswith("~") and isinstance(actual, str):
        return re.fullmatch(expected[1:], actual) is not None
    return expected == actual
