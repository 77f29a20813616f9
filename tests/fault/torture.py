# SPDX-License-Identifier: Apache-2.0
"""Pause and resume, many times, under a program that writes all the time and daemons that are killed at every edge.

A cycle is one pause and one resume of one sandbox: in memory or on disk, by a request or by deadline and traffic. Meanwhile
a cutter kills control, the runner, both, or the sandbox's own processes: at random moments, and at each named crash point
that a pause or a resume passes. A cycle that is cut is gone on with until the sandbox rests, and runs again. What must hold:

  - no line that the writer has said to have written is lost, and none is damaged;
  - after a pause in memory the same writer goes on in the same boot; after one on disk a new boot has the same files;
  - the clock is right, the token opens it, the environment of the create is there;
  - no request gets an answer that may not be given, and nothing stays between two states;
  - only a sandbox whose processes were killed may be gone, and it must be gone or right;
  - at the end there is nothing left (the invariants of invariants.py).

Field: file changes vanish after a later pause (e2b-dev/E2B#884), the automatic pause loses some (#1104), a state stands at
`pausing` for ever (TencentCloud/CubeSandbox#402), a crash of the daemon leaves two truths (docker/sbx-releases#353).
"""
import base64
import json
import os
import random
import re
import signal
import threading
import time

from api import LOST_CONNECTION, ApiError, collect, wait_until
from invariants import Baseline
from ledger import HONEST
from points import named_points
from workload import CHECKER, WRITER

WORKERS = 4
SETTLE_SECONDS = 90  # a state that is still not reached then is stuck; the bounds of the passing states are shorter
POINT_SECONDS = 4
CLOCK_SECONDS = 0.5
FAR_SECONDS = 3600
POINTS = r"(pause|resume|connect|timeout|deadline)\.|runner\.(pause|resume|store|start|stop|sweep\.after_sandbox)"


class Gone(Exception):
    pass


class Wrong(Exception):
    pass


class Life:
    """One sandbox, and what its writer has said."""

    def __init__(self, sandbox, in_memory):
        self.sandbox, self.in_memory = sandbox, in_memory
        self.said = 0  # the highest number that the writer has told the world
        self.offset, self.number = 0, 0  # how far its file was read and found right
        self.pid, self.boot, self.generation = 0, None, 0
        self.may_be_gone = False  # its processes were killed by us

    def listen(self, stream):
        threading.Thread(target=self.hear, args=(stream,), daemon=True).start()

    def hear(self, stream):
        rest = b""
        try:
            for event in stream:
                rest += base64.b64decode(event.get("data", {}).get("stdout", ""))
                *lines, rest = rest.split(b"\n")
                if lines:
                    self.said = max(self.said, int(lines[-1]))
        except (*LOST_CONNECTION, ValueError):
            pass  # also a stream that a pause ends; its next one is taken up after the resume
        finally:
            stream.close()


class Worker(threading.Thread):
    def __init__(self, torture, number):
        super().__init__(daemon=True)
        self.torture, self.api = torture, torture.api
        self.random = random.Random(f"{torture.seed}-{number}")
        self.life = None

    def run(self):
        while self.torture.more():
            try:
                self.cycle()
            except Gone:
                if not self.life.may_be_gone:
                    self.torture.wrong(f"{self.life.sandbox.id}: it is gone, and nobody ended it")
                self.torture.count("sandboxes ended by a kill")
                self.life = None
            except Wrong as error:
                self.torture.wrong(f"{self.life.sandbox.id if self.life else 'create'}: {error}")
                self.drop()
            except Exception as error:  # a fault of this program is a failure, too
                self.torture.wrong(f"{type(error).__name__}: {error}")
                self.drop()
        self.drop()

    def drop(self):
        """Ends its sandbox, whatever it takes."""
        life, self.life = self.life, None
        if life is None:
            return
        self.settle("it is ended", lambda: self.api.kill(life.sandbox.id) in (204, 404), gone_is_wrong=False)

    # --- answers ----------------------------------------------------------------------------------------------

    def settle(self, what, attempt, gone_is_wrong=True):
        """Tries until `attempt` gives something true. What is asked while daemons die may fail, but only honestly."""
        end, last = time.monotonic() + SETTLE_SECONDS, None
        while True:
            try:
                value = attempt()
                if value:
                    return value
                last = value
            except ApiError as error:
                last = str(error)
                cut = error.status == 500 and self.life is not None and self.life.may_be_gone  # we killed it as it booted
                if error.status not in (*HONEST, 404) and not cut:
                    raise Wrong(f"{what}: {error}") from None
            except LOST_CONNECTION as error:
                last = f"{type(error).__name__}: {error}"
            if gone_is_wrong and self.state() == "gone":
                raise Gone()
            if time.monotonic() > end:
                raise Wrong(f"stuck: {what}: not within {SETTLE_SECONDS} s; state {self.state()}; last {last}")
            time.sleep(0.03)

    def state(self):
        if self.life is None:
            return None
        try:
            answer = self.api.get(self.life.sandbox.id)
        except LOST_CONNECTION:
            return None
        if answer.status == 404:
            return "gone"
        return answer.json()["state"] if answer.status == 200 else None

    def post(self, path, body, wanted):
        answer = self.api.call("POST", path.format(self.life.sandbox.id), body)
        if answer.status in wanted:
            return True
        if answer.status == 404:
            return False
        raise ApiError(answer.status, answer.body, path)

    # --- a cycle ----------------------------------------------------------------------------------------------

    def cycle(self):
        if self.life is None:
            self.begin()
        by_itself = self.random.random() < 0.4
        in_memory = self.life.in_memory if by_itself else self.random.random() < 0.7
        self.torture.count(f"{'automatic' if by_itself else 'manual'} {'memory' if in_memory else 'disk'}")
        time.sleep(self.random.random() * 0.1)
        (self.wait_for_deadline if by_itself else self.pause)(in_memory)
        if self.random.random() < 0.3:  # so that kills also meet sandboxes at rest
            time.sleep(self.random.random() * 0.5)
        if by_itself and in_memory:
            self.wake_by_traffic()
        else:
            self.connect()
        self.check(in_memory)
        self.torture.cycle_done()

    def begin(self):
        """A new sandbox with a writer. One whose answer was lost is found and ended at the end of the run."""
        in_memory = self.random.random() < 0.6
        fields = {"autoPause": True, "envVars": {"COLOUR": "blue"}}
        fields |= {"autoResume": {"enabled": True}} if in_memory else {"autoPauseMemory": False}
        sandbox = self.settle(
            "a create",
            lambda: self.api.create(FAR_SECONDS, template=self.torture.template, request_timeout=60, **fields),
        )
        self.life = Life(sandbox, in_memory)
        for name, text in (("writer.py", WRITER), ("check.py", CHECKER)):
            self.settle(f"writing {name}", lambda n=name, t=text: self.write(f"/home/user/{n}", t.encode()))
        self.start_writer()
        told = self.settle("the first check", self.look)
        self.life.pid, self.life.boot = told["pid"], told["boot"]

    def write(self, path, data):
        self.life.sandbox.write(path, data, user="user")
        return True

    def start_writer(self):
        def start():
            command = ["/usr/bin/python3", "/home/user/writer.py"]
            pid, stream = self.life.sandbox.background(command, user="user", socket_timeout=600)
            self.life.listen(stream)
            return pid

        def writes():
            told = self.look()
            return told if told and told["alive"] else start() and None

        self.settle("a writer", start)
        self.settle("the writer to write", writes)

    def pause(self, in_memory):
        path = "/sandboxes/{}/pause"

        def attempt():
            try:
                return self.post(path, {"memory": in_memory}, (204,))
            except ApiError as error:
                if error.status == 409:  # paused already, or on its way: an answer was lost
                    return self.rests()
                raise

        self.settle(f"a pause {'in memory' if in_memory else 'on disk'}", attempt)

    def rests(self):
        """True when it is paused and no longer on its way there."""
        row = self.api.call("GET", f"/v1/sandboxes/{self.life.sandbox.id}")
        return row.status == 200 and row.json()["state"] == "paused"

    def wait_for_deadline(self, in_memory):
        path = "/sandboxes/{}/timeout"
        due = [0.0]

        def attempt():
            if self.rests():
                return True
            if time.monotonic() > due[0] and self.state() == "running":  # the answer, or the pause, was lost
                self.post(path, {"timeout": 1}, (204,))
                due[0] = time.monotonic() + 15
            return False

        self.settle(f"a pause {'in memory' if in_memory else 'on disk'} at the deadline", attempt)

    def connect(self):
        path = "/v2/sandboxes/{}/connect"
        self.settle("a resume", lambda: self.post(path, {"timeout": FAR_SECONDS}, (200, 201)))

    def wake_by_traffic(self):
        self.settle("a resume by traffic", self.look)
        self.connect()  # it runs: this only moves its deadline

    # --- what it looks like inside ----------------------------------------------------------------------------

    def look(self):
        life, before = self.life, time.time()
        command = ["/usr/bin/python3", "/home/user/check.py", str(life.offset), str(life.number)]
        stream = life.sandbox.start(command, user="user", timeout_ms=60_000, socket_timeout=70)
        try:
            outcome = collect(stream)
        finally:
            stream.close()
        if outcome.exit_code is None:
            return None
        if outcome.exit_code != 0:
            if outcome.exit_code == -1:  # a pause to disk ends commands
                return None
            raise Wrong(f"the check failed: {outcome.exit_code} {outcome.error} {outcome.stderr[-300:]!r}")
        told = json.loads(outcome.stdout)
        told["asked"], told["answered"] = before, time.time()
        return told

    def check(self, in_memory):
        life, said = self.life, self.life.said
        told = self.settle("a look inside", self.look)
        if told["bad"]:
            raise Wrong(f"damaged: {told['bad']}")
        if told["number"] < said:
            raise Wrong(f"lost: line {said} was written, and there are {told['number']}")
        self.torture.count("lines checked", told["number"] - life.number)
        life.offset, life.number = told["offset"], told["number"]
        if not told["asked"] - CLOCK_SECONDS <= told["time"] <= told["answered"] + CLOCK_SECONDS:
            raise Wrong(f"clock: {told['time']} when it was {told['asked']} to {told['answered']}")
        if told["environment"] != "blue":
            raise Wrong(f"environment: {told['environment']!r}")
        generation = self.settle("its row", self.generation)
        if generation <= life.generation:
            raise Wrong(f"generation {generation} after {life.generation}")
        life.generation = generation
        if in_memory:
            if (told["pid"], told["boot"], told["alive"]) != (life.pid, life.boot, True):
                raise Wrong(f"memory: writer {life.pid} of boot {life.boot} is not there: {told}")
            self.take_up()
            return
        if told["boot"] == life.boot or told["alive"]:
            raise Wrong(f"a pause on disk that was none: {told}")
        self.start_writer()
        told = self.settle("a look inside", self.look)
        life.pid, life.boot = told["pid"], told["boot"]

    def generation(self):
        row = self.api.call("GET", f"/v1/sandboxes/{self.life.sandbox.id}")
        return row.json()["generation"] if row.status == 200 else None

    def take_up(self):
        """Listens to the writer again. Only what is heard binds, so one attempt is enough."""
        try:
            self.life.listen(self.life.sandbox.connect(self.life.pid, socket_timeout=600))
        except (ApiError, *LOST_CONNECTION):
            pass


class Cutter:
    """Kills something after every other cycle, in turn: each daemon at random, each crash point, a sandbox."""

    def __init__(self, torture):
        self.torture, self.instance = torture, torture.instance
        self.random = random.Random(f"{torture.seed}-cutter")
        self.points = [item for item in named_points().items() if re.match(POINTS, item[0])]
        self.random.shuffle(self.points)
        self.reached, self.missed = set(), set()
        self.turn = 0

    def cut(self):
        self.turn += 1
        time.sleep(self.random.random() * 0.4)
        if self.turn % 5 == 0:
            self.end_sandbox()
        elif self.turn % 5 in (1, 3) and self.points:
            self.at_point(*self.points[(self.turn // 2) % len(self.points)])
        else:
            self.at_random()

    def at_random(self):
        names = self.random.choice((["control"], ["runner"], ["control", "runner"], ["runner", "control"]))
        for name in names:
            getattr(self.instance, name).kill()
        for name in names:
            getattr(self.instance, name).start()
        self.torture.count("kills of " + " and ".join(sorted(names)))

    def at_point(self, point, name):
        """A point that nothing passes now is tried again in its next turn."""
        daemon = getattr(self.instance, name)
        daemon.kill()
        daemon.start({"ATOLL_FAULT": point})
        end = time.monotonic() + POINT_SECONDS
        while daemon.running() and time.monotonic() < end and self.torture.more():
            time.sleep(0.02)
        reached = not daemon.running()
        (self.reached if reached else self.missed).add(point)
        self.torture.count(f"kills at a point of {name}" if reached else "points not reached")
        daemon.kill()
        daemon.start()

    def end_sandbox(self):
        """Any process of a sandbox by which it lives: the one that is pid 1, and in a tier with a kernel of its own any."""
        life = self.random.choice([w.life for w in self.torture.workers])
        if life is None:
            return
        guest = self.instance.guest_pid(life.sandbox.id)
        pids = self.instance.sandbox_pids(life.sandbox.id) if self.torture.tier == "gvisor" else [guest]
        if guest is None or not pids:
            return  # it rests on its disk
        life.may_be_gone = True
        try:
            victim = os.pidfd_open(self.random.choice(pids))
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(victim, signal.SIGKILL)
            self.torture.count("kills of a sandbox")
        except ProcessLookupError:
            pass
        finally:
            os.close(victim)


class Torture:
    def __init__(self, instance, api, invariants, report, cycles, seed, tier="container"):
        self.instance, self.api, self.invariants, self.report = instance, api, invariants, report
        self.cycles, self.seed, self.tier = cycles, seed, tier
        self.template = "base" if tier == "container" else f"base@{tier}"
        self.lock = threading.Lock()
        self.done, self.counts, self.violations = 0, {}, []

    def more(self):
        return self.done < self.cycles and len(self.violations) < 10

    def cycle_done(self):
        with self.lock:
            self.done += 1
            if self.done % 50 == 0:
                print(f"ok    {self.done} cycles, {dict(sorted(self.counts.items()))}", flush=True)

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + number

    def wrong(self, text):
        with self.lock:
            self.violations.append(text)
        print(f"FAIL  torture.{self.tier} after {self.done} cycles, seed {self.seed}: {text}", flush=True)

    def run(self):
        name = f"torture.{self.tier}"
        baseline = Baseline(self.instance)
        self.workers = [Worker(self, i) for i in range(WORKERS)]
        cutter = Cutter(self)
        for worker in self.workers:
            worker.start()
        next_cut = 2
        while any(worker.is_alive() for worker in self.workers):
            if self.done < next_cut or not self.more():
                time.sleep(0.02)
                continue
            next_cut = self.done + 2
            cutter.cut()
            self.instance.wait_ready(30)
        self.instance.wait_ready(30)
        self.report.check(f"{name}.cycles", self.done >= self.cycles, f"{self.done} of {self.cycles}")
        self.report.check(f"{name}.holds", not self.violations, f"seed {self.seed}: {self.violations[:4]}")
        self.report.check(
            f"{name}.load", self.counts.get("lines checked", 0) > self.cycles, f"too thin to mean anything: {self.counts}"
        )
        self.finish(name, baseline)
        print(
            f"torture: tier {self.tier}, {self.done} cycles, seed {self.seed}, {len(cutter.reached)} crash points; "
            f"{dict(sorted(self.counts.items()))}",
            flush=True,
        )
        if cutter.missed - cutter.reached:
            print(f"torture: not reached: {sorted(cutter.missed - cutter.reached)}", flush=True)

    def finish(self, name, baseline):
        """Sandboxes whose create was not answered end here; then nothing may be left."""
        wait_until(self.empty, 60, "the last sandboxes to end")
        found = self.invariants.check()
        self.report.check(f"{name}.invariants", not found, "; ".join(found[:6]))
        found = baseline.violations()
        self.report.check(f"{name}.baseline", not found, "; ".join(found))

    def empty(self):
        try:
            rows = self.api.list()
            for row in rows:
                self.api.kill(row["sandboxID"])
            return not rows
        except (ApiError, *LOST_CONNECTION):
            return False
