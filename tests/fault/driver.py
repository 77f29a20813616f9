# SPDX-License-Identifier: Apache-2.0
"""The fault tests: kill, stop, fill and damage a running Atoll, and check what must hold.

    python3 tests/fault/driver.py [--programs DIR] [--only PART,...] [--kills N] [--cycles N] [--seed N] [--point NAME]...

Parts: faults, points, killer, torture, gvisor, neighbours.

Needs root, the daemons of a `dev` build (a release has no crash points) and the base template. Runs in a network namespace
of its own. The last line is "N passed, N failed, N skipped".
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "escape")]

from api import wait_until  # noqa: E402
from faults import Faults  # noqa: E402
from instance import Instance  # noqa: E402
from invariants import Baseline, Invariants, leftovers  # noqa: E402
from killer import Killer  # noqa: E402
from ledger import Ledger  # noqa: E402
from neighbours import Neighbours  # noqa: E402
from points import PointRunner, named_points  # noqa: E402
from torture import Torture  # noqa: E402
from verdict import Report  # noqa: E402
from world import enter_private_host  # noqa: E402

MIN_POINTS = 40
# Passed only where a sandbox's memory is kept in files, which the container of this workload never has.
# gvisor_memory_test and microvm_test kill the runner at each of them.
MEMORY_IN_FILES = (
    "launcher.after_visit",
    "runner.forget.",
    "runner.memory.",
    "runner.prepared.",
    "runner.restore.",
    "runner.save.",
)
# Labels need the gateway, which this instance has not. egress_test kills the runner at each of them.
LABELS = ("runner.labels.",)


class Driver:
    def __init__(self, options):
        self.options, self.report = options, Report(options.verbose)
        self.folder = tempfile.mkdtemp(prefix="atoll-fault-")

    def set_up(self):
        os.chmod(self.folder, 0o755)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        folder = self.folder + "/atoll"
        os.makedirs(folder)
        self.instance = Instance(
            self.options.programs, folder, name="escfault", slot_first=3560, slot_count=100, ready=2, runsc="none"
        )
        self.instance.prepare()
        self.api, self.ledger = self.instance.start_first(), Ledger()
        self.invariants = Invariants(self.instance, self.api, self.ledger)

    def faults(self):
        Faults(
            self.instance,
            self.api,
            self.ledger,
            self.invariants,
            self.report,
            self.options.programs,
            self.folder,
        ).all(self.options.restart_with, self.options.slow_clients)

    def points(self):
        points = named_points()
        self.report.check(
            "points.count",
            len(points) >= MIN_POINTS,
            f"{len(points)} named crash points, {MIN_POINTS} wanted",
        )
        chosen = {name: points[name] for name in (self.options.point or points)}
        for name in [name for name in chosen if name.startswith(MEMORY_IN_FILES)]:
            del chosen[name]
            self.report.skip(
                f"point.{name}",
                "only tiers that keep memory in files pass it (gvisor_memory_test, microvm_test)",
            )
        for name in [name for name in chosen if name.startswith(LABELS)]:
            del chosen[name]
            self.report.skip(f"point.{name}", "only sandboxes behind the gateway pass it (egress_test)")
        runner = PointRunner(self.instance, self.api, self.ledger, self.invariants, self.report)
        baseline = Baseline(self.instance)
        for name, daemon in chosen.items():
            runner.run(name, daemon)
        found = baseline.violations()
        self.report.check("points.baseline", not found, "; ".join(found))

    def seed(self):
        return self.options.seed if self.options.seed is not None else random.randrange(1 << 30)

    def killer(self):
        Killer(self.instance, self.api, self.ledger, self.invariants, self.report, self.seed()).run(
            self.options.kills
        )

    def torture(self):
        Torture(
            self.instance, self.api, self.invariants, self.report, self.options.cycles, self.seed()
        ).run()

    def neighbours(self):
        Neighbours(self.api, self.report).run()

    def gvisor(self):
        """Neighbours and torture, on an instance of its own: the runner of the others is told of no runsc."""
        runsc = os.environ.get("ATOLL_TEST_RUNSC", "none")
        if runsc == "none":
            self.report.skip("gvisor", "there is no runsc (ATOLL_TEST_RUNSC)")
            return
        folder = self.folder + "/gvisor"
        os.makedirs(folder)
        instance = Instance(
            self.options.programs, folder, name="escgv", slot_first=3692, slot_count=8, ready=0, runsc=runsc
        )
        instance.prepare()
        try:
            api = instance.start_first()
            invariants = Invariants(instance, api, Ledger())
            Neighbours(api, self.report, "gvisor").run()
            cycles = self.options.gvisor_cycles
            Torture(instance, api, invariants, self.report, cycles, self.seed(), "gvisor").run()
        finally:
            instance.stop()
        self.report.check("gvisor.nothing_left", not leftovers(instance), "; ".join(leftovers(instance)))

    def run(self):
        try:
            self.set_up()
            for part in self.options.only.split(","):
                self.report.part(part)
                getattr(self, part)()
        except Exception as error:
            self.report.fail("driver", f"{type(error).__name__}: {error}")
            if self.options.verbose:
                raise
        finally:
            self.end()
        return self.report.finish("fault")

    def end(self):
        instance = getattr(self, "instance", None)
        if instance is not None:
            try:
                instance.drain(self.api)
                wait_until(lambda: not leftovers(instance, running=True), 30, "everything to be released")
            except Exception as error:
                self.report.fail("end.drain", f"{error}; {leftovers(instance, running=True)}")
            for daemon in (instance.control, instance.runner):
                status = daemon.stop()
                self.report.check(f"end.{daemon.name}", status == 0, f"exit {status}")
            try:  # the kernel takes network namespaces apart in the background
                wait_until(lambda: not leftovers(instance), 30, "the kernel to let go")
            except TimeoutError:
                pass
            left = leftovers(instance)
            self.report.check("end.nothing_left", not left, "; ".join(left))
            instance.sweep()
        if self.options.keep:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", default=os.environ.get("ATOLL_PROGRAMS", os.path.join(HERE, "../../build/dev/bin"))
    )
    parser.add_argument("--only", default="faults,points,killer,neighbours,torture,gvisor")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--cycles", type=int, default=40, help="pauses and resumes of the torture")
    parser.add_argument("--gvisor-cycles", type=int, default=8)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--point", action="append")
    parser.add_argument("--restart-with", type=int, default=40)
    parser.add_argument("--slow-clients", type=int, default=1000)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the work folder")
    options = parser.parse_args()
    options.programs = os.path.abspath(options.programs)
    if os.geteuid() != 0:
        print("fault: needs root\nSKIPPED fault: not root\n0 passed, 0 failed, 1 skipped")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken down
    enter_private_host()
    return Driver(options).run()


if __name__ == "__main__":
    sys.exit(main())
