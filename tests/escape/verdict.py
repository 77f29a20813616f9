# SPDX-License-Identifier: Apache-2.0
"""From what a probe said and what was seen outside to a verdict.

A probe runs twice: in the control, where it must get through, and in the sandbox, where it must not. What it says counts
against the sandbox only ("I got through" is believed); "I was blocked" is believed only where nothing was seen outside.
"""
import re

from world import NEEDLE

# Probes whose own answer means nothing: a signal to pid 1 is accepted and has no effect, a write to a
# shared file goes to one's own copy. The observer decides alone.
EFFECT_ONLY = ("R09.", "K31.")
# Probes that must get through, because without them the silence of the others would mean nothing.
WAY_OUT = ("N00.",)


class Observer:
    """What is seen outside while one probe runs: compare before and after."""

    def __init__(self, world, agent_alive=lambda: True, more=lambda: []):
        self.world, self.agent_alive, self.more = world, agent_alive, more
        self.facts = world.facts()

    def evidence(self, probe, answer):
        """Proofs that the probe got through, as text; empty when there is none."""
        found = []
        for name, secret in self.world.secrets.items():
            if secret in answer.get("detail", "") and not probe.startswith(WAY_OUT):
                found.append(f"the secret '{name}' came out")
        if self.world.hit(probe):
            found.append("a listener was reached")
        now = self.world.facts()
        for key, value in now.items():
            if value != self.facts[key]:
                found.append(f"{key} changed: {self.facts[key]!r} -> {value!r}"[:200])
        if not self.agent_alive():
            found.append("the agent died")
        return found + self.more()


def needle_leaks(world, text):
    """Secrets of the harness in any text that left a sandbox."""
    return [name for name, secret in world.secrets.items() if secret in text] + (
        [] if re.search(NEEDLE + r"-[a-z-]+-[0-9a-f]{32}", text) is None else ["some secret"]
    )


def reached(probe, answer, evidence):
    if probe.startswith(EFFECT_ONLY):
        return bool(evidence)
    return answer["result"] == "REACHED" or bool(evidence)


class Report:
    """Counts and prints; the last line is the contract of the test suites."""

    def __init__(self, verbose=False):
        self.verbose = verbose
        self.passed = self.failed = self.skipped = 0
        self.failures, self.skips, self.known = [], [], []

    def part(self, name):
        print(
            f"--    {name} (so far {self.passed} passed, {self.failed} failed, {self.skipped} skipped)",
            flush=True,
        )

    def ok(self, name, text=""):
        self.passed += 1
        if self.verbose:
            print(f"ok    {name} {text}", flush=True)
        elif self.passed % 50 == 0:
            print(f"ok    {self.passed} so far, the latest {name}", flush=True)

    def fail(self, name, text):
        self.failed += 1
        self.failures.append(f"{name}: {text}")
        print(f"FAIL  {name}: {text}", flush=True)

    def skip(self, name, text):
        self.skipped += 1
        self.skips.append(f"{name}: {text}")
        print(f"SKIPPED {name}: {text}", flush=True)

    def check(self, name, condition, text=""):
        (self.ok if condition else self.fail)(name, text)
        return condition

    def finish(self, title):
        if self.known:
            print(f"{title}: reached on purpose ({len(self.known)}):")
            for line in self.known:
                print("  " + line)
        if self.failures:
            print(f"{title}: failed ({len(self.failures)}):")
            for line in self.failures:
                print("  " + line)
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0
