# SPDX-License-Identifier: Apache-2.0
"""The positive control: each probe, run in escape_weak, where it must get through."""
import json
import os
import subprocess

from verdict import Observer, reached

# Probes that need a control with something special.
LEAK = ("K05.descriptors",)
# Random calls as the real root are no control but a gamble. Their oracle is calibrated by itself (harness.py).
NEVER = ("K33.random_calls", "K30.inotify")
AS_USER = ("K04.", "K14.")
GATEWAY = "169.254.0.22"


class Control:
    def __init__(self, programs, world, arguments):
        self.probe, self.weak = programs["escape_probe"], programs["escape_weak"]
        self.world, self.arguments = world, arguments

    def list(self):
        text = subprocess.run([self.probe, "list"], capture_output=True, text=True, check=True).stdout
        return [line.split("\t")[0] for line in text.splitlines() if not line.startswith(NEVER)]

    def run(self, probe):
        """(reached, answer, evidence) of one probe, in a control of its own."""
        options = ["--agent", self.world.secret("agent"), "--mount-more"]
        if probe in LEAK:
            options += ["--leak", "/"]
        if probe.startswith(AS_USER) and probe != "K04.stack":
            options += ["--uid", "1000"]
        if probe == "R08.zombies":
            options += ["--lazy"]
        if probe == "R09.host_victim":
            options = ["--host-pids"]
        observer = Observer(self.world)
        done = subprocess.run(
            [self.weak, *options, "--", self.probe, "run", probe, *self.arguments],
            capture_output=True,
            text=True,
            timeout=30,
        )
        try:
            answer = json.loads(done.stdout.splitlines()[0])
        except (IndexError, ValueError):
            answer = {
                "id": probe,
                "result": "BLOCKED",
                "errno": "",
                "note": "no_answer",
                "detail": done.stderr[-300:],
            }
        evidence = observer.evidence(probe, answer)
        if "DIED" in done.stderr:  # escape_weak says so when its agent is gone
            evidence.append("the agent died")
        self.world.restore(observer.facts)
        if self.world.victim.poll() is not None:
            self.world.make_victim()
        return reached(probe, answer, evidence), answer, evidence

    def inotify(self):
        """Two controls of one uid share the quota: while the first holds all, the second gets none."""
        hold = os.path.join(self.world.folder, "hold-control")
        first = subprocess.Popen(
            [self.weak, "--", self.probe, "run", "K30.inotify", f"hold_file={hold}"], stdout=subprocess.PIPE
        )
        try:
            while not os.path.exists(hold) and first.poll() is None:
                pass
            second = subprocess.run(
                [self.weak, "--", self.probe, "run", "K30.inotify"], capture_output=True, text=True
            )
            return json.loads(second.stdout)["detail"]
        finally:
            if os.path.exists(hold):
                os.unlink(hold)
            first.wait()
