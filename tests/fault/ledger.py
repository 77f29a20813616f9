# SPDX-License-Identifier: Apache-2.0
"""What was asked of Atoll and what it acknowledged: the memory against which the invariants are checked.

An operation is acknowledged when its 2xx answer has arrived. One that got no answer may have happened or not: both are
legal, but the sandbox must then be wholly there or wholly gone.
"""
import random
import threading
import time

from api import LOST_CONNECTION, ApiError

ALIVE, MAYBE, DEAD = "alive", "maybe", "dead"
# Honest answers of a system of which a part is down right now.
HONEST = (409, 429, 499, 502, 503, 504, 507)


class Entry:
    def __init__(self, sandbox, deadline):
        self.sandbox, self.deadline = sandbox, deadline
        self.state = ALIVE
        self.files = {}  # path -> bytes, acknowledged
        self.processes = {}  # pid inside -> (host pid, start ticks)
        self.guest = None  # (host pid, start ticks) of pid 1


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.entries = {}
        self.lies = []  # answers that must never be given
        self.counts = {}
        self.unanswered_creates = 0
        self.snapshots = {}  # id -> what a file in it holds, acknowledged

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def lie(self, text):
        with self.lock:
            self.lies.append(text)

    def created(self, sandbox, timeout_s):
        entry = Entry(sandbox, time.time() + timeout_s)
        with self.lock:
            if sandbox.id in self.entries:
                self.lies.append(f"{sandbox.id} was given out twice")
            self.entries[sandbox.id] = entry
        return entry

    def alive(self):
        with self.lock:
            return [entry for entry in self.entries.values() if entry.state == ALIVE]

    def forget_dead(self):
        with self.lock:
            self.entries = {key: value for key, value in self.entries.items() if value.state != DEAD}


class Client(threading.Thread):
    """Creates, runs commands, writes and reads files, kills, for ever, and writes down what was acknowledged."""

    def __init__(self, api, ledger, seed):
        super().__init__(daemon=True)
        self.api, self.ledger, self.random = api, ledger, random.Random(seed)
        self.stopping = threading.Event()
        self.going = threading.Event()
        self.idle = threading.Event()
        self.going.set()

    def run(self):
        while not self.stopping.is_set():
            if not self.going.is_set():
                self.idle.set()
                self.going.wait(0.05)
                continue
            self.idle.clear()
            try:
                self.one_life()
            except ApiError as error:
                self.ledger.count(f"HTTP {error.status}")
                if error.status not in HONEST:
                    self.ledger.lie(f"{error}")
                time.sleep(0.01)
            except LOST_CONNECTION:
                self.ledger.count("connection lost")
                time.sleep(0.01)
        self.idle.set()

    def one_life(self):
        try:
            sandbox = self.api.create(600, request_timeout=30)
        except LOST_CONNECTION:
            with self.ledger.lock:
                self.ledger.unanswered_creates += 1
            raise
        entry = self.ledger.created(sandbox, 600)
        self.ledger.count("created")
        for _ in range(self.random.randrange(3)):
            try:
                self.work(entry)
            except (ApiError, *LOST_CONNECTION):
                if self.stopping.is_set() or not self.going.is_set():
                    break
        self.kill(entry)

    def work(self, entry):
        sandbox, text = entry.sandbox, str(self.random.random())
        outcome = sandbox.run(["/bin/echo", text], timeout=20)
        if outcome.exit_code == 0 and outcome.stdout.decode() != text + "\n":
            self.ledger.lie(f"{sandbox.id}: echo said {outcome.stdout[:80]!r}, not {text!r}")
        self.ledger.count("commands")
        path = f"/home/user/file-{self.random.randrange(4)}"
        entry.files.pop(path, None)  # between request and answer either content is legal
        sandbox.write(path, text.encode(), user="user")
        entry.files[path] = text.encode()

    def kill(self, entry):
        for _ in range(200):
            entry.state = MAYBE
            try:
                status = entry.sandbox.kill()
            except LOST_CONNECTION:
                time.sleep(0.02)
                continue
            if status in (204, 404):
                entry.state = DEAD
                self.ledger.count("killed")
                return
            if status not in HONEST:
                self.ledger.lie(f"{entry.sandbox.id}: kill answered {status}")
            time.sleep(0.02)

    def pause(self):
        self.going.clear()

    def resume(self):
        self.idle.clear()
        self.going.set()

    def stop(self):
        self.stopping.set()
        self.going.set()
