# SPDX-License-Identifier: Apache-2.0
"""Every named crash point, one by one: arm it, work until the daemon dies there, bring it back, check the invariants."""
import os
import re
import shutil
import sqlite3
import threading
import time

import kernel
import stored
from api import ApiError, in_threads, wait_until
from ledger import DEAD, HONEST, LOST_CONNECTION, MAYBE
from invariants import wait_serving

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src")
SECONDS_TO_DIE = 20


def named_points():
    """{name: daemon}, found in the sources. The folder says in which program a point lies."""
    points = {}
    for folder, _, names in os.walk(SOURCES):
        for name in names:
            if (
                not name.endswith((".cc", ".h"))
                or name in ("fault.h", "fault.cc")
                or name.endswith("_test.cc")
            ):
                continue
            with open(os.path.join(folder, name)) as file:
                for point in re.findall(r'FAULT\("([^"]+)"\)', file.read()):
                    points[point] = "runner" if "/runner" in folder else "control"
    return dict(sorted(points.items()))


class Scenario:
    """Work that passes every point: create (ready and new), run, change, pause, resume, end by hand and by deadline."""

    def __init__(self, api, ledger):
        self.api, self.ledger = api, ledger

    def attempt(self, call):
        try:
            return call()
        except ApiError as error:
            if error.status not in HONEST:
                self.ledger.lie(str(error))
        except LOST_CONNECTION:
            pass
        return None

    def life(self, **fields):
        sandbox = self.attempt(lambda: self.api.create(600, request_timeout=20, **fields))
        if sandbox is None:
            return
        entry = self.ledger.created(sandbox, 600)
        self.attempt(lambda: sandbox.run(["/bin/true"], timeout=10))
        self.attempt(lambda: self.api.call("POST", f"/sandboxes/{sandbox.id}/timeout", {"timeout": 500}))
        self.attempt(
            lambda: self.api.call("PUT", f"/sandboxes/{sandbox.id}/network", {"denyOut": ["1.1.1.1"]})
        )
        self.attempt(lambda: self.api.call("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 600}))
        self.attempt(lambda: self.api.list())
        entry.state = MAYBE
        for memory in (True, False):
            self.attempt(
                lambda memory=memory: self.api.call("POST", f"/sandboxes/{sandbox.id}/pause", {"memory": memory})
            )
            self.attempt(
                lambda: self.api.call("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 600})
            )
        status = self.attempt(sandbox.kill)
        if status in (204, 404):
            entry.state = DEAD

    def short_life(self):
        """Ends by its deadline."""
        sandbox = self.attempt(lambda: self.api.create(1, request_timeout=20))
        if sandbox is not None:
            entry = self.ledger.created(sandbox, 1)
            entry.state = MAYBE

    def crashed_life(self, instance):
        """Its pid 1 is killed from the host."""
        sandbox = self.attempt(lambda: self.api.create(600, request_timeout=20))
        if sandbox is None:
            return
        entry = self.ledger.created(sandbox, 600)
        entry.state = MAYBE
        guest = instance.guest_pid(sandbox.id)
        if guest:
            os.kill(guest, 9)

    def once(self, instance):
        in_threads(
            [
                self.life,
                self.life,
                lambda: self.life(envVars={"A": "b"}),
                lambda: self.life(network={"denyOut": ["1.1.1.1"]}),
                self.short_life,
                lambda: stored.life(self),
                lambda: self.crashed_life(instance),
            ]
        )


class PointRunner:
    def __init__(self, instance, api, ledger, invariants, report):
        self.instance, self.api, self.ledger, self.invariants, self.report = (
            instance,
            api,
            ledger,
            invariants,
            report,
        )

    def arm(self, daemon, point):
        if point == "runner.sweep.after_sandbox":  # passed once for each sandbox that the dead runner held
            self.instance.wait_whole(self.api, 20)
        daemon.kill()
        prepare = {
            "reconcile.orphan_stopped": self.make_orphan,
            "runner.sweep.after_group": self.make_stray_groups,
            "runner.sweep.after_snapshot": self.make_half_snapshot,
            "runner.sweep.after_memory": self.make_half_memory,
        }.get(point)
        if prepare:
            prepare()
        daemon.start({"ATOLL_FAULT": point})

    def make_orphan(self):
        """A sandbox that runs and that the store has never heard of, as after a store that was restored from a backup."""
        self.instance.control.start()
        self.instance.wait_ready()
        self.instance.wait_whole(self.api, 20)
        entry = self.ledger.created(self.api.create(600), 600)
        entry.state = MAYBE
        self.instance.control.kill()
        with sqlite3.connect(self.instance.data_dir + "/control/state.db") as store:
            store.execute("DELETE FROM sandboxes WHERE id = ?", (entry.sandbox.id,))
        for name in os.listdir(self.instance.data_dir + "/control"):
            if name.startswith("state.db"):
                shutil.chown(
                    f"{self.instance.data_dir}/control/{name}", self.instance.user, self.instance.user
                )

    def make_stray_groups(self):
        """Control groups that no record names, as after a crash between making one and writing the other."""
        for top in kernel.cgroup_children(self.instance.name):
            os.mkdir(os.path.join(top, self.instance.name, "istraystraystraystray"))

    def make_half_snapshot(self):
        """A copy that was being made when the runner died."""
        os.mkdir(self.instance.data_dir + "/snapshots/.new-00000000000000000000")

    def make_half_memory(self):
        """Memory that was being written when the runner died."""
        os.makedirs(self.instance.data_dir + "/memory/.new-istraystraystraystray")

    def run(self, point, which):
        daemon = getattr(self.instance, which)
        self.arm(daemon, point)
        scenario = Scenario(self.api, self.ledger)
        # Requests are still under way when the daemon comes back, as they are under a supervisor.
        work = threading.Thread(target=self.work, args=(scenario, daemon))
        work.start()
        while work.is_alive() and daemon.running():
            time.sleep(0.02)
        # The launcher's death is noticed by the runner, which cannot go on without one and says so by its exit.
        wanted = (1,) if point.startswith("launcher.") else (-9,)
        died = not daemon.running() and daemon.process.returncode in wanted
        if not died:
            self.report.fail(f"point.{point}", f"never reached (exit {daemon.process.returncode})")
        daemon.kill()
        daemon.start()
        try:
            _, slow = wait_serving(self.instance)
            work.join()  # only then the ledger is still
            wait_until(self.runner_is_back, 10, "the runner to serve")
            violations = slow + self.invariants.check()
        except Exception as error:
            violations = [f"{type(error).__name__}: {error}"]
        if died:
            self.report.check(f"point.{point}", not violations, "; ".join(violations[:6]))
        self.clean()

    def work(self, scenario, daemon):
        """Until the armed daemon has died. A point of the start is passed before it serves; one of the pool without any request."""
        armed, end = daemon.process, time.monotonic() + SECONDS_TO_DIE
        while armed.poll() is None and time.monotonic() < end:
            scenario.once(self.instance)
            if armed.poll() is None:
                time.sleep(0.2)

    def runner_is_back(self):
        try:
            sandbox = self.api.create(60, request_timeout=10)
        except (ApiError, *LOST_CONNECTION):
            return False
        entry = self.ledger.created(sandbox, 60)
        entry.state = MAYBE
        if sandbox.kill() == 204:
            entry.state = DEAD
        return True

    def clean(self):
        """Ends what the scenario left, but not the sandboxes that must survive everything."""
        stored.clean(self.api, self.ledger)
        for entry in list(self.ledger.entries.values()):
            if entry.state == MAYBE:
                try:
                    if self.api.kill(entry.sandbox.id) in (204, 404):
                        entry.state = DEAD
                except LOST_CONNECTION:
                    pass
        self.ledger.forget_dead()
