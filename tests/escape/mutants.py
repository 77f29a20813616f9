# SPDX-License-Identifier: Apache-2.0
"""Isolation mutation testing: leave out one step of the confinement, and see that something notices.

The launcher is the real one. strace answers one of its set-up calls in the kernel's place with "done", so that the step
silently does not happen. The mutant is caught when the start is refused, when a probe gets through that did not before, or
when the posture differs. A mutant that nobody notices is a hole in these tests, or a step that nobody needs.
"""
import json
import os
import re
import signal
import subprocess
import time

import kernel
import posture
from api import ApiError

# (call, which one, "launcher" or "child"): the counts are per process, as strace counts them.
ONCE = [
    "setns",
    "unshare",
    "setgroups",
    "setresgid",
    "setresuid",
    "setsid",
    "pivot_root",
    "umount2",
    "sethostname",
    "keyctl",
    "landlock_restrict_self",
    "capset",
    "close_range",
]
MANY = {
    "seccomp": 3,
    "move_mount": 40,
    "mount_setattr": 40,
    "fsconfig": 24,
    "prctl": 42,
    "prlimit64": 4,
    "dup3": 4,
}
# Every capability that is dropped is one mutant; a few stand for all. 1-based places among the prctl calls of the child.
SOME_PRCTL = (1, 4, 8, 12, 16, 20, 24, 28)
# Mutants that change nothing that anybody could use: a regular expression of the call as strace shows it, and the reason.
EQUIVALENT = posture.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutants.equivalent.json"))
# Probes that are slow, or that need a neighbour: not needed to notice a missing step.
QUICK = [
    "K01",
    "K02",
    "K04",
    "K05",
    "K06",
    "K08",
    "K09",
    "K10",
    "K12",
    "K13",
    "K14",
    "K16",
    "K17",
    "K18",
    "K19",
    "K21",
    "K22",
    "K23",
    "K24",
    "K25",
    "K26",
    "K28.host_abstract",
    "K29",
    "K32",
    "I01",
    "N02.loopback",
    "N02.host_address",
    "N04",
    "N05",
    "K20",
]


def launcher_of(instance):
    for pid in kernel.descendants(instance.runner.pid):
        if kernel.read(f"/proc/{pid}/comm").strip() == "atoll-launcher":
            return pid
    raise RuntimeError("the runner has no launcher")


class Mutants:
    def __init__(self, instance, api, neighbour, probe_program, arguments, report):
        self.instance, self.api, self.neighbour = instance, api, neighbour
        self.probe_program, self.arguments, self.report = probe_program, arguments, report
        self.launcher = launcher_of(instance)

    def names(self):
        for call in ONCE:
            yield call, 1
        for call, count in MANY.items():
            for place in SOME_PRCTL if call == "prctl" else range(1, count + 1):
                yield call, place

    def create(self, inject=()):
        """(sandbox, None) or (None, reason) of a start without some calls: [(name, which)], as strace counts them.

        The last of them as it was met, or "" when none was, is in self.met.
        """
        log = self.instance.folder + "/strace.log"
        tracer = None
        self.met = ""
        if inject:
            tracer = subprocess.Popen(
                [
                    "strace",
                    "-f",
                    "-qq",
                    "-o",
                    log,
                    "-e",
                    "trace=" + ",".join(call for call, _ in inject),
                    *(f"--inject={call}:retval=0:when={place}" for call, place in inject),
                    "-p",
                    str(self.launcher),
                ],
                stderr=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + 5
            while kernel.status_fields(self.launcher).get("TracerPid") == "0" and time.monotonic() < deadline:
                time.sleep(0.01)
        try:
            return self.api.create(600, request_timeout=20), None
        except ApiError as error:
            return None, f"refused: {error.body[:160]!r}"
        except OSError as error:
            return None, f"refused: {error}"
        finally:
            if tracer:
                tracer.send_signal(signal.SIGINT)
                tracer.wait()
                line = next((text for text in kernel.read(log).splitlines() if "(INJECTED)" in text), "")
                self.met = re.sub(r"^\d+\s+", "", line).removesuffix(" (INJECTED)")

    def reached(self, sandbox):
        """The set of probes that get through, as root, in one go."""
        with open(self.probe_program, "rb") as file:
            sandbox.write("/usr/local/bin/escape_probe", file.read())
        sandbox.run("chmod 755 /usr/local/bin/escape_probe", user="root")
        outcome = sandbox.run(
            ["/usr/local/bin/escape_probe", "run", *QUICK, *self.arguments], user="root", timeout=90
        )
        answers = [
            json.loads(line)
            for line in outcome.stdout.decode(errors="replace").splitlines()
            if line.startswith("{")
        ]
        if not answers:
            return {"no answer"}
        return {answer["id"] for answer in answers if answer["result"] == "REACHED"}

    def posture(self, sandbox):
        collector = posture.Collector(self.instance, sandbox, self.instance.guest_pid(self.neighbour.id))
        inside, stream = sandbox.background(["/usr/local/bin/escape_probe", "threads", "1"], user="root")
        by_inside = {
            int(kernel.status_fields(pid)["NSpid"].split()[-1]): pid
            for pid in self.instance.sandbox_pids(sandbox.id)
        }
        found = posture.differences(posture.merged("guest"), collector.whole(by_inside[1]))
        found += posture.differences(posture.merged("root"), collector.whole(by_inside[inside]))
        stream.close()
        itself = sandbox.run(["/usr/local/bin/escape_probe", "posture"], user="root")
        return found + posture.differences(posture.EXPECTED["self"], json.loads(itself.stdout or b"{}"))

    def judge(self, name, normal):
        sandbox, refused = self.create([name])
        text = f"{name[0]} #{name[1]} {self.met[:90]}"
        if not self.met:
            if sandbox is not None:
                sandbox.kill()
            return False
        if refused is not None:
            self.report.ok(f"mutant {text}", refused)
            return True
        try:
            new = self.reached(sandbox) - normal
            differs = self.posture(sandbox) if not new else []
        except Exception as error:
            new, differs = {f"unusable: {type(error).__name__}"}, []
        finally:
            sandbox.kill()
        if new or differs:
            self.report.ok(f"mutant {text}", f"{sorted(new)[:3]} {differs[:1]}")
        else:
            reason = next((why for pattern, why in EQUIVALENT.items() if re.match(pattern, self.met)), None)
            if reason:
                self.report.skip(f"mutant {text}", reason)
            else:
                self.report.fail(f"mutant {text}", "nobody noticed")
        return True

    def run(self):
        if subprocess.run(["strace", "-V"], capture_output=True).returncode != 0:
            self.report.skip("mutants", "strace is not installed")
            return
        sandbox, refused = self.create()
        if sandbox is None:
            self.report.fail("mutants", refused)
            return
        normal = self.reached(sandbox)
        clean = self.posture(sandbox)
        sandbox.kill()
        self.report.check("mutants.control", not clean, f"the unmutated sandbox already differs: {clean[:2]}")
        before = self.report.passed
        ended = set()  # calls of which there are no more
        for name in self.names():
            if name[0] in ended:
                continue
            try:
                if not self.judge(name, normal):
                    ended.add(name[0])
            except Exception as error:
                self.report.fail(f"mutant {name}", f"{type(error).__name__}: {error}")
        self.report.check(
            "mutants.count",
            self.report.passed - before >= 25,
            f"only {self.report.passed - before} mutants were caught",
        )
