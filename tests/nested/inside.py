# SPDX-License-Identifier: Apache-2.0
"""What is tried on the emulated host, by the real command: nothing here knows how Atoll does it, but for what the kernel shows.

Says on the console what begins, passes, fails and is skipped (driver.py reads it).
"""
import glob
import json
import os
import re
import resource
import subprocess
import time
import traceback

import kernel
from api import LOST_CONNECTION, Api, wait_until

CGROUPS = "/sys/fs/cgroup/atoll"
# Programs for inside: takes memory until something happens, and starts processes until that is refused.
# In large pieces: a program that goes on in small ones reads its own pages again for each, and a guest that is emulated twice over
# then reads for minutes before its kernel takes the memory for used up.
TAKE_MEMORY = "taken = []\nwhile True: taken.append(b'x' * (64 << 20))"
TAKE_PROCESSES = """import subprocess
started = []
try:
    while True: started.append(subprocess.Popen(["sleep", "600"]))
except BlockingIOError:
    for each in started: each.kill()
    print(len(started))"""
MEMORY_MB, PROCESSES, CPU_MILLIS = 256, 64, 900
# Nothing here leads outside, and there is no runsc.
# Guests in there are emulated twice over: 4 to 40 s for a boot, as busy as the machine below is.
UP = ["up", "--no-base", "--ready", "0", "--no-gateway", "--default-isolation", "container", "--patience", "6"]
DISK_MB = 256
# Of the runner's unit tests, what depends on the version of cgroups or of the kernel, and takes no measure of time.
UNIT_TESTS = ["InsideTest.ProcessLimitHolds", "InsideTest.StatsTellTheTruth", "InsideTest.CpuTimeOfManyIsToldAtOnce",
              "RunnerTest.StoppedSandboxLeavesNothing", "RunnerTest.SandboxSurvivesTheRunner",
              "RunnerTest.CleanEndWithoutSandboxesLeavesNothing", "NetworkTest.ConnectionsOfOneSandboxEndWithIt",
              "PausingTest.StandsStillAndGoesOn", "PausingTest.FrozenOneCanBeStopped", "HostFeatures.*"]
RUNNER_LOG = "/var/lib/atoll/log/runner.log"
# What the runner and control say of a guest that they have waited for in vain.
TOO_SLOW = re.compile("did not (?:answer|report|do it) (?:in time|within)")
TESTS = []
NEEDED = []  # when one of these fails, the others say nothing new


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def needed(function):
    NEEDED.append(function)
    return test(function)


def say(word, text):
    print(word, text.replace("\n", "\n@note "), flush=True)


def command(*words, **more):
    more.setdefault("timeout", 300)  # what takes longer hangs, and is to be explained
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **more)


def atoll(*words):
    """What the command says on its standard output; it must succeed."""
    words = [str(word) for word in words]
    done = command("atoll", *words)
    assert done.returncode == 0, f"atoll {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def boot(*words):
    """A command that boots a machine. The runner gives it 18 s; where all is emulated and busy that may be too short."""
    for _ in range(2):
        before = len(kernel.read(RUNNER_LOG))
        try:
            return atoll(*words)
        except AssertionError as failure:
            if not TOO_SLOW.search(kernel.read(RUNNER_LOG)[before:]):
                raise
            say("@note", f"slow: {failure}")
    return atoll(*words)


def told(*words):
    return json.loads(atoll(*words[:1], "--json", *words[1:]))


def doctor():
    done = command("atoll", "doctor", "--json")
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}


def group(sandbox, name):
    return kernel.read(f"{CGROUPS}/{sandbox}/{name}").strip()


def events(sandbox, name, file="cgroup.events"):
    return int(re.search(rf"^{name} (\d+)$", group(sandbox, file), re.M).group(1))


def members(sandbox):
    return [int(pid) for pid in group(sandbox, "cgroup.procs").split()]


def shell(sandbox, script, user="user"):
    return atoll("exec", "-u", user, sandbox, "sh", "-c", script).strip()


def wait_for(condition, what):
    return wait_until(condition, 120, what, 0.1)


def api():
    variables = told("env")
    return Api(int(variables["E2B_API_URL"].rpartition(":")[2]), variables["E2B_API_KEY"])


def connected():
    try:
        answer = api().call("GET", "/v1/status")
    except LOST_CONNECTION:
        return False  # control is about to start
    status = answer.json()
    return status["runner"]["connected"] and status["reconciled"]


class Box:
    """The sandbox of a tier that several tests use; made by the first."""

    def __init__(self, tier):
        self.tier, self.row, self.obstacle = tier, None, None

    def __str__(self):
        if self.obstacle:
            raise Skip(self.obstacle)
        if self.row is None:
            self.row = json.loads(boot("create", "--json", "--isolation", self.tier, "--lifetime", "1h"))
        return self.row["sandboxID"]


container, microvm = Box("container"), Box("microvm")


def boxes():
    return [box for box in (container, microvm) if not box.obstacle]


# ---- the host ----

@needed
def host_has_kvm_and_only_version_2_of_cgroups():
    kinds = {line.split()[2] for line in kernel.read("/proc/mounts").splitlines() if "cgroup" in line}
    assert kinds == {"cgroup2"}, kinds
    assert os.path.exists("/dev/kvm"), "no /dev/kvm: " + command("dmesg").stdout[-2000:]


@test
def doctor_finds_it_fit_before_anything_runs():
    status, rows = doctor()
    wrong = {name: row for name, row in rows.items() if row["state"] == "failed"}
    assert status == 0 and not wrong, wrong
    for name in ("kvm", "tun", "qemu", "cgroup_tree", "cgroup_memory", "cgroup_cpu", "cgroup_pids", "cgroup_freeze", "cgroup_kill",
                 "swap_limit", "nftables", "conntrack"):
        assert rows[name]["state"] == "ok", rows[name]


def guests_begun():
    """How many guests' kernels KVM has run: each asks early for a register that the emulated processor has not."""
    return len(re.findall(r"kvm \[\d+\]: vcpu0, guest rIP", command("dmesg").stdout))


def bring_up():
    """Starts Atoll, again where the machine was too slow for its bounds. The runner remembers what came of its first guest.
    Why there are no machines, when guests do begin on KVM and the time is never enough."""
    begun = guests_begun()
    for left in reversed(range(2)):
        done = command("atoll", *UP)
        slow = done.stderr if "did not begin to serve within" in done.stderr else ""
        assert done.returncode == 0 or slow, done.stderr
        if not slow:
            wait_for(connected, "control and the runner")
            wait_for(lambda: not api().call("GET", "/v1/host").json()["beingTested"], "the test of the tiers")
            obstacle = api().call("GET", "/v1/host/posture").json()["unusable"].get("microvm", "")
            if not TOO_SLOW.search(obstacle):
                return None
            slow = obstacle
            if left == 0 and guests_begun() > begun:
                return f"emulated twice over, machines do not boot here in time: {obstacle}"
            atoll("down", "--keep")
        say("@note", f"slow: {slow}")
        if os.path.exists("/run/atoll/microvm.tested"):
            os.unlink("/run/atoll/microvm.tested")
    raise AssertionError("this machine is too slow")


@needed
def up_boots_a_machine_on_kvm():
    microvm.obstacle = bring_up()
    build = os.path.basename(glob.glob("/var/lib/atoll/templates/*-*-*")[0])
    api().expect((200, 201), "POST", "/v1/templates",
                 {"name": "base", "buildId": build, "public": True, "poolSize": 0, "user": "user", "workdir": "/home/user",
                  "memoryMB": MEMORY_MB, "processes": PROCESSES, "cpuMillis": CPU_MILLIS, "diskMB": DISK_MB})
    posture = api().expect((200,), "GET", "/v1/host/posture").json()
    assert "container" in posture["isolation"], posture["unusable"]
    assert posture["cgroups"] == "v2" and posture["missingLayers"] == ["gateway"], posture
    if microvm.obstacle:
        raise Skip(microvm.obstacle)
    assert "microvm" in posture["isolation"], posture["unusable"]
    status, rows = doctor()
    assert status == 0 and rows["tier microvm"]["state"] == rows["kvm"]["state"] == rows["machine_starts"]["state"] == "ok", rows


# ---- container ----

@test
def container_runs_within_its_limits_of_version_2():
    assert shell(container, "uname -r") == os.uname().release
    limits = {name: group(container, name) for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert limits == {"memory.max": str(MEMORY_MB << 20), "memory.swap.max": "0", "pids.max": str(PROCESSES),
                      "cpu.max": f"{CPU_MILLIS}00 100000"}, limits
    assert members(container), "the group has no processes"
    assert shell(container, "cat /proc/self/cgroup") == "0::/"


@test
def container_reaches_its_limit_of_memory_and_lives():
    done = command("atoll", "exec", str(container), "python3", "-c", TAKE_MEMORY)
    assert done.returncode == 137 and "ran out of memory" in done.stderr, done
    assert events(container, "oom_kill", "memory.events") == 1
    assert shell(container, "echo alive") == "alive"


@test
def container_reaches_its_limit_of_processes():
    started = int(atoll("exec", container, "python3", "-c", TAKE_PROCESSES))
    assert PROCESSES / 2 < started < PROCESSES, started
    assert events(container, "max", "pids.events") > 0
    wait_for(lambda: int(group(container, "pids.current")) < PROCESSES / 2, "the end of its processes")


@test
def container_is_held_to_its_share_of_the_processors():
    before = events(container, "nr_throttled", "cpu.stat")
    shell(container, "for i in 1 2; do timeout 3 sh -c 'while :; do :; done' & done; wait")
    assert events(container, "nr_throttled", "cpu.stat") > before, group(container, "cpu.stat")


def stands_still(sandbox):
    assert (events(sandbox, "frozen"), group(sandbox, "cgroup.freeze")) == (1, "1"), "it does not stand still"
    used = events(sandbox, "usage_usec", "cpu.stat")
    time.sleep(0.3)
    assert events(sandbox, "usage_usec", "cpu.stat") == used, "it works while it is paused"


def is_in_files(sandbox):
    """A machine rests with its memory in files, and leaves no process."""
    assert not os.path.exists(f"{CGROUPS}/{sandbox}"), "its processes are still there"


def pauses_and_goes_on(sandbox, rests):
    pid = shell(sandbox, "(while :; do date +%s%N >/tmp/now; sleep 0.1; done) >/dev/null 2>&1 & echo $!")
    wait_for(lambda: shell(sandbox, "cat /tmp/now 2>/dev/null; true"), "its work")
    atoll("pause", str(sandbox))
    rests(sandbox)
    atoll("resume", "--lifetime", "1h", str(sandbox))
    assert events(sandbox, "frozen") == 0
    first = shell(sandbox, "cat /tmp/now")
    wait_for(lambda: shell(sandbox, "cat /tmp/now") != first, "the work to go on")
    shell(sandbox, f"kill {pid}")


@test
def container_stands_still_and_goes_on():
    pauses_and_goes_on(container, stands_still)


@test
def frozen_container_is_killed_and_leaves_nothing():
    sandbox = told("create", "--isolation", "container", "--lifetime", "1h")["sandboxID"]
    pids = members(sandbox)
    atoll("pause", sandbox)
    atoll("kill", sandbox)
    wait_for(lambda: not os.path.exists(f"{CGROUPS}/{sandbox}"), "the group to go")
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")], pids


# ---- microvm ----

def qemu_of(sandbox):
    return next(pid for pid in members(sandbox) if "-accel\0kvm" in kernel.read(f"/proc/{pid}/cmdline"))


@test
def microvm_is_a_machine_on_kvm():
    release = shell(microvm, "uname -r")
    assert "cloud" in release and release != os.uname().release, release
    assert microvm.row["isolation"] == "microvm" and microvm.row.get("missingLayers") == [], microvm.row
    assert "anon_inode:kvm-vm" in kernel.open_descriptors(qemu_of(microvm)).values(), "QEMU has no machine of KVM"
    assert shell(microvm, "grep -cwE 'svm|vmx' /proc/cpuinfo; true") == "0", "a guest sees virtualisation"


@test
def microvm_runs_within_its_limits_of_version_2():
    assert int(group(microvm, "memory.max")) > MEMORY_MB << 20, "what QEMU needs itself is not added"
    assert (group(microvm, "memory.swap.max"), group(microvm, "cpu.max")) == ("0", f"{CPU_MILLIS}00 100000")
    assert int(group(microvm, "pids.max")) > PROCESSES
    memory_kib = int(re.search(r"MemTotal: +(\d+)", shell(microvm, "cat /proc/meminfo")).group(1))
    assert memory_kib < MEMORY_MB << 10, memory_kib


@test
def microvm_reaches_its_limit_of_memory_inside():
    done = command("atoll", "exec", str(microvm), "python3", "-c", TAKE_MEMORY)
    assert done.returncode == 137 and "ran out of memory" in done.stderr, done
    assert events(microvm, "oom_kill", "memory.events") == 0, "the host's kernel had to end something"
    assert shell(microvm, "echo alive") == "alive"


@test
def microvm_rests_in_its_files_and_goes_on():
    pauses_and_goes_on(microvm, is_in_files)


@test
def microvm_rests_on_its_disk_and_boots_again():
    shell(microvm, "echo kept >note; cat /proc/sys/kernel/random/boot_id >boot")
    atoll("pause", "--disk-only", str(microvm))
    assert not os.path.exists(f"{CGROUPS}/{microvm}"), "its processes are still there"
    boot("resume", "--lifetime", "1h", microvm)
    assert shell(microvm, "cat note") == "kept"
    assert shell(microvm, "cat boot") != shell(microvm, "cat /proc/sys/kernel/random/boot_id"), "not booted again"


# ---- the daemons ----

def daemons():
    """Pids by name, the supervisor's too; the launcher is the runner's child."""
    said = command("atoll", "status", "--json").stdout
    state = json.loads(said or "{}").get("daemons")
    if state is None:
        return {}  # control does not answer
    return {"supervisor": state["pid"], **{row["name"]: row["pid"] for row in state["daemons"]}}


def kill_and_wait(name, pid):
    os.kill(pid, 9)
    wait_for(lambda: not kernel.read(f"/proc/{pid}/cmdline"), f"the end of {name}")

    if name == "supervisor":
        atoll(*UP)
    wait_for(lambda: connected() and daemons().get(name, pid) != pid, f"another {name}")


def survives(kill):
    for sandbox in boxes():
        shell(sandbox, "sleep 3600 >/dev/null 2>&1 & echo $! >~/pid")
    before = {sandbox: members(sandbox) for sandbox in boxes()}
    kill()
    for sandbox, pids in before.items():
        assert set(pids) <= set(members(sandbox)), f"processes of {sandbox.tier} are gone"
        assert shell(sandbox, "cat /proc/$(cat ~/pid)/comm") == "sleep", sandbox.tier
        shell(sandbox, "kill $(cat ~/pid)")


@test
def sandboxes_survive_the_runner():
    survives(lambda: kill_and_wait("runner", daemons()["runner"]))


@test
def sandboxes_survive_the_launcher():
    runner = daemons()["runner"]
    launcher = next(pid for pid in kernel.children(runner) if kernel.read(f"/proc/{pid}/comm").startswith("atoll-launcher"))

    def kill():
        os.kill(launcher, 9)
        wait_for(lambda: connected() and daemons().get("runner", runner) != runner, "another runner")

    survives(kill)


@test
def sandboxes_survive_control():
    survives(lambda: kill_and_wait("control", daemons()["control"]))


@test
def sandboxes_survive_the_supervisor():
    survives(lambda: kill_and_wait("supervisor", daemons()["supervisor"]))


@test
def machine_at_rest_survives_the_runner():
    atoll("pause", str(microvm))
    kill_and_wait("runner", daemons()["runner"])
    is_in_files(microvm)
    atoll("resume", "--lifetime", "1h", str(microvm))
    assert shell(microvm, "echo alive") == "alive"


# ---- the end ----

@test
def killed_ones_leave_nothing():
    atoll("kill", *boxes())
    wait_for(lambda: not any(kernel.cgroup_children("atoll").values()), "all groups to go")
    left = [pid for pid in kernel.pids() if kernel.read(f"/proc/{pid}/comm").startswith(("qemu", "memfd:atoll"))]
    assert not left, left


@test
def down_leaves_nothing():
    said = atoll("down")
    assert "nothing is left" in said, said
    assert not os.path.exists(CGROUPS) and not kernel.links(), (os.listdir("/sys/fs/cgroup"), kernel.links())


@test
def daemons_have_warned_of_nothing():
    """But for what the tests themselves did to them."""
    expected = ("daemon died", "launcher", "no connection to the runner", "the runner went away",
                "the runner is not reachable")
    lines = [line for path in glob.glob("/var/lib/atoll/log/*.log") for line in kernel.read(path).splitlines()]
    wrong = [line for line in lines if re.search(r'"level":"(warn|error)"', line) and not any(word in line for word in expected)
             and not TOO_SLOW.search(line)]
    assert not wrong, "\n".join(wrong)


def unit(program, names):
    preset = kernel.read("/nested/unit").strip()
    if not preset:
        raise Skip("the unit tests of the runner are not built")
    done = command(f"{preset}/{program}", "--gtest_filter=" + ":".join(names), "--gtest_color=no", cwd="/tmp")
    counted = re.search(r"\[==========\] (\d+) tests? from .* ran", done.stdout)
    assert done.returncode == 0 and counted and int(counted.group(1)) > 0, (done.stdout + done.stderr)[-4000:]


@test
def unit_tests_of_sys_pass():
    unit("src/sys/sys_test", ["*"])


@test
def unit_tests_of_the_runner_pass():
    unit("src/runner/runner_test", UNIT_TESTS)


def explain():
    """What helps to understand the first failure."""
    files = [*sorted(glob.glob("/var/lib/atoll/log/*.log")), "/run/atoll/microvm.log"]
    parts = [f"{path}:\n" + "\n".join(kernel.read(path).splitlines()[-6:]) for path in files if os.path.exists(path)]
    return "\n".join([*parts, "dmesg:", *command("dmesg").stdout.splitlines()[-10:]])


def is_too_slow(problem, before):
    """Whether the machine's slowness explains it: a bound of the daemons was missed meanwhile, or, where one was missed before, a
    command was not done in time."""
    slow = told_too_slow()
    return slow > before or (slow > 0 and isinstance(problem, subprocess.TimeoutExpired))


def told_too_slow():
    """How often the runner and control have said that they waited in vain."""
    return sum(len(TOO_SLOW.findall(kernel.read(path))) for path in (RUNNER_LOG, "/var/lib/atoll/log/control.log"))


def run(function):
    """True when it did not fail."""
    name = function.__name__.replace("_", " ")
    say("@begin", name)
    started, slow = time.monotonic(), told_too_slow()
    try:
        function()
        say("@passed", f"{name} ({time.monotonic() - started:.1f} s)")
    except Skip as reason:
        say("@skipped", f"{name}: {reason}")
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        lines = ", ".join(str(frame.lineno) for frame in frames if frame.filename == __file__)
        if is_too_slow(problem, slow):  # what a bound has cut short says nothing about what was to be shown
            say("@skipped", f"{name} (lines {lines}): the machine was too slow: {problem}")
            return True
        say("@failed", f"{name} (lines {lines}): {type(problem).__name__}: {problem}")
        return False
    return True


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
    explained = False
    for function in TESTS:
        if run(function):
            continue
        if not explained:
            say("@note", explain())
            explained = True
        if function in NEEDED:
            break
    say("@end", "")


main()
