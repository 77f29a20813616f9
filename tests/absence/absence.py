#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Absence injection: the runner is started on a host that seems to lack one thing, once for each thing.

What must follow is one of three: the runner ends and its log names the feature; the tiers that need the feature refuse
creates, and the refusal names it; or sandboxes are made as before, and a layer of defence that is gone is told with each of
them. In every case the posture and the metrics say that the feature is not there. A sandbox that is made without what its
tier needs, or that is silent about a missing layer, is a failure.

  absence.py [--only NAME[,NAME...]]
"""
import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "escape")]

import kernel  # noqa: E402
import world as ground  # noqa: E402
from api import wait_until  # noqa: E402
from instance import Instance  # noqa: E402
from verdict import Report  # noqa: E402

EPERM, ENOENT, EINVAL, ENODEV, ENOSPC, ENOSYS, EOPNOTSUPP, EPROTONOSUPPORT = 1, 2, 22, 19, 28, 38, 95, 93
SOME_CASES = 25  # fewer would not be worth the name
NEW = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "network": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
       "cgroup": 0x2000000}
IDMAP = 0x00100000  # MOUNT_ATTR_IDMAP


def fails(*calls, number=ENOSYS):
    return [word for call in calls for word in ("--errno", call, str(number))]


def namespace(kind, number):
    """By unshare(2), clone(2), and clone3(2), whose flags are the first thing in its struct."""
    flag, error = str(NEW[kind]), str(number)
    return ["--flag", "unshare", "0", flag, error, "--flag", "clone", "0", flag, error, "--struct", "clone3", "0", flag, error]


def file_named(text, number=ENOENT):
    """A file that cannot be opened or seen, whatever its folder: for the files of a group, which is new each time."""
    words = []
    for call in ("openat", "faccessat", "faccessat2"):
        words += ["--text", call, "1", text, str(number)]
    return words + ["--text", "access", "0", text, str(number), "--text", "open", "0", text, str(number)]


def hierarchies(*wanted):
    """Mount points of version 1 controllers, or of the unified tree."""
    found = []
    for line in kernel.read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        names = ["unified"] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        if set(wanted) & set(names):
            found.append(left.split()[4])
    return found


def controller(name):
    where = hierarchies(name)
    if where:
        return [word for path in where for word in ("--unmount", path)]
    return file_named("cgroup.controllers")  # version 2: all of them, since they are told in one file


def cases():
    """(name of the case, feature that is gone, rules of absence_hide, other words of the runner)."""
    yield "mount_api", "mount_api", fails("fsopen"), []
    yield "user_namespaces", "user_namespaces", namespace("user", EPERM), []
    yield "quota_of_user_namespaces", "user_namespaces", namespace("user", ENOSPC), []
    for kind in ("mount", "pid", "network", "ipc", "uts", "cgroup"):
        yield f"{kind}_namespaces", f"{kind}_namespaces", namespace(kind, EINVAL), []
    for feature, call in (("setns", "setns"), ("pivot_root", "pivot_root"), ("clone3", "clone3"), ("pidfd", "pidfd_open"),
                          ("close_range", "close_range"), ("openat2", "openat2"), ("execveat", "execveat"),
                          ("keyrings", "keyctl"), ("memfd_sealing", "memfd_create"), ("seccomp", "seccomp"),
                          ("mount_setattr", "mount_setattr")):
        yield feature, feature, fails(call), []
    yield "pidfd_send_signal", "pidfd", fails("pidfd_send_signal", number=EPERM), []
    yield "landlock", "landlock", fails("landlock_create_ruleset", number=EOPNOTSUPP), []
    yield "landlock_refused", "landlock", fails("landlock_restrict_self", number=EPERM), []
    yield "overlay", "overlay", [
        "--text", "fsopen", "0", "overlay", str(ENODEV), "--text", "mount", "2", "overlay", str(ENODEV)], []
    yield "overlay_userxattr", "overlay_userxattr", [
        "--text", "fsconfig", "2", "userxattr", str(EINVAL), "--text", "mount", "4", "userxattr", str(EINVAL)], []
    yield "erofs", "erofs", ["--text", "fsopen", "0", "erofs", str(ENODEV)], []
    yield "ext4", "ext4", ["--text", "fsopen", "0", "ext4", str(ENODEV)], []
    yield "loop_devices", "loop_devices", ["--mask", "/dev/loop-control"], []
    yield "idmapped_mounts", "idmapped_mounts", ["--struct", "mount_setattr", "3", str(IDMAP), str(EINVAL)], []
    for name in ("memory", "cpu", "pids"):
        yield f"cgroup_{name}", f"cgroup_{name}", controller(name), []
    yield "cgroup_tree", "cgroup_tree", [w for path in hierarchies("unified") for w in ("--unmount", path)], []
    yield "cgroup_freeze", "cgroup_freeze", file_named("cgroup.freeze"), []
    yield "cgroup_kill", "cgroup_kill", file_named("cgroup.kill"), []
    yield "swap_limit", "swap_limit", file_named("memsw") + file_named("memory.swap"), []
    yield "nftables", "nftables", ["--flag", "socket", "2", "12", str(EPROTONOSUPPORT)], []  # NETLINK_NETFILTER
    yield "conntrack", "conntrack", ["--message", "ct%00", str(EOPNOTSUPP)], []
    yield "nat", "nat", ["--message", "masq%00", str(EOPNOTSUPP)], []
    yield "veth", "veth", ["--message", "veth%00", str(EOPNOTSUPP)], []
    yield "process_labels", "process_labels", ["--message", "socket%00", str(EOPNOTSUPP)], []
    yield "pressure", "pressure", file_named("/proc/pressure"), []
    yield "tun", "tun", ["--mask", "/dev/net/tun"], []
    yield "kvm", "kvm", ["--mask", "/dev/kvm"], []
    yield "runsc_missing", "runsc", [], ["--runsc", "/nonexistent/runsc"]
    yield "runsc_old", "runsc_recent", [], ["--runsc", "OLD"]
    yield "qemu_missing", "qemu", [], []  # by PATH, which holds nothing of it


class Absence:
    def __init__(self, options):
        self.options = options
        self.report = Report(options.verbose)
        self.folder = tempfile.mkdtemp(prefix="atoll-absence-")
        self.tools = {name: os.path.join(options.programs, name) for name in ("absence_hide", "absence_old_runsc")}

    def set_up(self):
        os.chmod(self.folder, 0o755)
        ground.run("ip", "link", "set", "lo", "up")
        self.instance = Instance(
            self.options.programs, self.folder + "/atoll", name="escabs", slot_first=3670, slot_count=20, ready=0
        )
        os.makedirs(self.instance.folder)
        self.instance.prepare()
        self.plain = list(self.instance.runner.command)
        self.api = self.instance.start_first()
        # A program that is gone is found in no folder: PATH holds what the runner itself may want, and no QEMU.
        self.empty = self.folder + "/path"
        os.makedirs(self.empty)

    # --- one host ---------------------------------------------------------------------------------------------

    def restart(self, rules, more, environment=None):
        """A runner on another host. True once it serves, False when it has ended instead."""
        runner = self.instance.runner
        runner.stop()
        more = [self.tools["absence_old_runsc"] if word == "OLD" else word for word in more]
        runner.command = [self.tools["absence_hide"], *rules, "--", *self.plain, *more] if rules else self.plain + more
        self.log_from = os.path.getsize(runner.log) if os.path.exists(runner.log) else 0
        runner.start(environment)
        state = {}

        def settled():
            if not runner.running():
                return True
            status = self.api.call("GET", "/v1/status").json()
            ours = status["runner"].get("pid") in self.pids()
            state["up"] = status["runner"]["connected"] and status["reconciled"] and ours
            return state["up"]

        wait_until(settled, 30, f"a runner that serves or ends ({runner.log})")
        return runner.running() and bool(state.get("up"))

    def pids(self):
        return [self.instance.runner.pid, *kernel.descendants(self.instance.runner.pid)]

    def log(self):
        with open(self.instance.runner.log, errors="replace") as file:
            file.seek(self.log_from)
            return file.read()

    def create(self, **fields):
        answer = self.api.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60, **fields}, timeout=30)
        return answer.status, json.loads(answer.body)

    # --- what must follow -------------------------------------------------------------------------------------

    def judge(self, name, feature, served):
        if not served:
            lines = [line for line in self.log().splitlines() if f'"feature":"{feature}"' in line]
            self.report.check(name, bool(lines), f"the runner ended and did not name {feature}: {self.log()[-300:]}")
            return "the runner ends, and names it"
        posture = self.api.call("GET", "/v1/host/posture").json()
        entry = next(item for item in posture["features"] if item["name"] == feature)
        self.report.check(f"{name}.posture", not entry["present"] and entry["error"] and entry["remedy"], f"posture says {entry}")
        self.judge_metrics(name, feature, entry)
        said = [self.judge_tier(name, feature, entry, tier) for tier in posture["tiers"]]
        return ", ".join(part for part in said if part)

    def judge_metrics(self, name, feature, entry):
        text = self.api.call("GET", "/metrics").body.decode()
        found = re.findall(rf'atoll_host_feature{{feature="{feature}",tier="(\w+)"}} (\d)', text)
        wanted = sorted((tier, "0") for tier in entry["neededBy"] + entry["usedBy"])
        self.report.check(f"{name}.metrics", sorted(found) == wanted, f"metrics say {found}")

    def judge_tier(self, name, feature, entry, tier):
        isolation = tier["isolation"]
        status, body = self.create(isolation=isolation)
        made = body.get("isolation") if status == 201 else None
        try:
            if isolation in entry["neededBy"]:
                refused = made != isolation and not tier["usable"]
                self.report.check(f"{name}.{isolation}", refused, f"a sandbox without it: {body}")
                if made is None and isolation == "container":
                    told = body.get("error_code") == "isolation_unavailable" and feature in body.get("message", "")
                    self.report.check(f"{name}.{isolation}.named", told, f"the refusal does not name {feature}: {body}")
                return f"{isolation} refused" if made is None else f"{made} stands in for {isolation}"
            if made == isolation:
                layers = body["missingLayers"], self.api.get(body["sandboxID"]).json()["missingLayers"]
                wanted = entry["layer"] and isolation in entry["usedBy"]
                told = all((feature in seen) == wanted for seen in layers)
                self.report.check(f"{name}.{isolation}", told, f"missing layers: {layers}")
                return f"{isolation} without the layer" if wanted else ""
            usable_before = isolation in self.usable and isolation != "microvm"
            self.report.check(f"{name}.{isolation}", not usable_before, f"it has no need of {feature}, and got {status} {body}")
            return ""
        finally:
            if status == 201:
                self.api.kill(body["sandboxID"])

    # --- the whole --------------------------------------------------------------------------------------------

    def run_case(self, case):
        name, feature, rules, more = case
        environment = {"PATH": self.empty} if name == "qemu_missing" else None
        served = self.restart(rules, more, environment)
        print(f"--    {name}: {self.judge(name, feature, served)}", flush=True)

    def whole_host(self):
        self.usable = self.api.call("GET", "/v1/host").json()["isolation"]
        self.report.check("whole.container", "container" in self.usable, f"this host has only {self.usable}")
        status, body = self.create()
        self.report.check("whole.create", status == 201, f"{status} {body}")
        if status == 201:
            self.api.kill(body["sandboxID"])

    def run(self):
        count = 0
        try:
            self.set_up()
            self.whole_host()
            for case in cases():
                if self.options.only and case[0] not in self.options.only.split(","):
                    continue
                count += 1
                try:
                    self.run_case(case)
                except Exception as error:
                    self.report.fail(case[0], f"{type(error).__name__}: {error}")
                    if self.options.verbose:
                        raise
            self.report.check("cases.count", bool(self.options.only) or count >= SOME_CASES, f"only {count} cases")
            self.report.check("whole.again", self.restart([], []) and self.create()[0] == 201, "the whole host no longer works")
        except Exception as error:
            self.report.fail("absence", f"{type(error).__name__}: {error}")
            if self.options.verbose:
                raise
        finally:
            self.tear_down()
        return self.report.finish("absence")

    def tear_down(self):
        if hasattr(self, "instance"):
            self.instance.stop()
        if self.options.keep:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=os.environ.get("ATOLL_PROGRAMS", os.path.join(HERE, "../../build/dev/bin")))
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the work folder")
    options = parser.parse_args()
    options.programs = os.path.abspath(options.programs)
    if os.geteuid() != 0:
        print("SKIPPED absence: not root\n0 passed, 0 failed, 1 skipped")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ground.enter_private_host()
    return Absence(options).run()


if __name__ == "__main__":
    sys.exit(main())
