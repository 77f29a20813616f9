# SPDX-License-Identifier: Apache-2.0
"""A sandbox that takes all it can get, and one beside it: the neighbour's commands succeed, the attacker is told its limit.

How much slower the neighbour is meanwhile is no question of right or wrong here; bench/neighbours measures it.
"""
import errno

from api import LOST_CONNECTION, ApiError, wait_until
from attacks import ATTACKS, Attack

COMMANDS = 10
SECONDS = 180  # filling a disk takes long on a slow machine
# Ends of a whole sandbox that may come of its own limit, where its kernel is a process under that limit.
TOLD_ENDS = ("out_of_memory", "agent_lost")
ENDS_WHOLE = {"container": (), "gvisor": ("fork bomb", "memory fill")}
# Files are slow there, so filling a disk or all inodes takes minutes; escape/ has a probe for the disk's limit.
SLOW = {"container": (), "gvisor": ("disk fill", "inode fill")}


class Neighbours:
    def __init__(self, api, report, tier="container"):
        self.api, self.report, self.tier = api, report, tier
        self.template = "base" if tier == "container" else f"base@{tier}"

    def run(self):
        neighbour = self.api.create(3600, template=self.template)
        for name in [name for name in ATTACKS if name not in SLOW[self.tier]]:
            try:
                self.one(name, neighbour)
            except Exception as error:
                self.report.fail(f"neighbours.{self.tier}.{name}", f"{type(error).__name__}: {error}")
        neighbour.kill()

    def one(self, name, neighbour):
        what = f"neighbours.{self.tier}.{name}"
        attacker = self.api.create(3600, template=self.template)
        attack = Attack(attacker, name)
        outcomes = [self.command(neighbour) for _ in range(COMMANDS)]
        if attack.limit:  # it has to get there, and the neighbour works then, too
            wait_until(attack.met.is_set, SECONDS, "the attacker to meet its limit")
            outcomes += [self.command(neighbour) for _ in range(COMMANDS)]
        bad = [outcome for outcome in outcomes if outcome != "ok"]
        self.report.check(f"{what}.neighbour", not bad, f"{len(bad)} of {len(outcomes)} commands failed: {bad[:2]}")
        if attack.limit:
            self.report.check(f"{what}.told", *self.told(name, attacker, attack))
        wait_until(lambda: attacker.kill() in (204, 404), SECONDS, "the attacker to be ended")
        row = self.api.call("GET", f"/v1/sandboxes/{attacker.id}").json()
        expected = ("killed", *(TOLD_ENDS if name in ENDS_WHOLE[self.tier] else ()))
        self.report.check(
            f"{what}.ends", row["outcome"] in expected, f"{row['outcome']} {row['reason']}"
        )

    @staticmethod
    def command(sandbox):
        try:
            outcome = sandbox.run(["/bin/echo", "fine"], timeout=SECONDS)
        except (ApiError, *LOST_CONNECTION) as error:
            return f"{type(error).__name__}: {error}"
        return "ok" if outcome.stdout == b"fine\n" and outcome.exit_code == 0 else f"{outcome.exit_code} {outcome.error}"

    def told(self, name, attacker, attack):
        """(whether the attacker was told its limit, what it was told): by an error, or by the end of its sandbox."""
        if attack.limit in attack.said:
            return True, ""
        if name in ENDS_WHOLE[self.tier]:
            gone = lambda: self.api.get(attacker.id).status == 404  # noqa: E731
            wait_until(gone, SECONDS, "the sandbox to be known as ended")
            row = self.api.call("GET", f"/v1/sandboxes/{attacker.id}").json()
            return row["outcome"] in TOLD_ENDS, f"{row['outcome']} {row['reason']}"
        wanted = errno.errorcode.get(int(attack.limit), attack.limit)
        return False, f"wanted {wanted}, was told {attack.said[-3:]}, its stream: {attack.ended}"
