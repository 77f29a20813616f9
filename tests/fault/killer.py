# SPDX-License-Identifier: Apache-2.0
"""The random killer: SIGKILL to control, the runner, or both, at random moments, under load, many times."""
import random
import time

from api import ApiError, wait_until
from invariants import Baseline, remember, wait_serving
from ledger import ALIVE, Client, LOST_CONNECTION

CLIENTS = 6
SURVIVORS = 3
KILLS_BETWEEN_CHECKS = 10


class Survivor:
    """A sandbox that lives through everything: a process that counts, and an open terminal."""

    def __init__(self, instance, api, ledger):
        self.sandbox = api.create(86400)
        self.entry = ledger.created(self.sandbox, 86400)
        self.counter, stream = self.sandbox.background(
            "i=0; while :; do i=$((i+1)); echo $i > /home/user/next; mv /home/user/next /home/user/count; sleep 0.05; done", user="user"
        )
        stream.close()
        self.terminal, stream = self.sandbox.background(["/bin/bash", "-i", "-l"], user="user", pty=(80, 24))
        stream.close()
        self.sandbox.write("/home/user/kept", b"kept", user="user")
        self.entry.files["/home/user/kept"] = b"kept"
        self.last_count = 0
        remember(instance, self.entry, (self.counter, self.terminal))

    def check(self):
        """The counter moves, and the terminal answers to a new connection."""
        found = []
        count = int(self.sandbox.read("/home/user/count", user="user").body or b"0")
        if count <= self.last_count:
            found.append(f"I2 {self.sandbox.id}: the counter stands at {count}")
        self.last_count = count
        word = f"again-{random.randrange(10 ** 9)}"
        stream = self.sandbox.connect(self.terminal, socket_timeout=10)
        try:
            import base64

            events = iter(stream)
            next(events)
            text = base64.b64encode(f"echo {word[:3]}''{word[3:]}\n".encode()).decode()
            self.sandbox.rpc(
                "/process.Process/SendInput", {"process": {"pid": self.terminal}, "input": {"pty": text}}
            )
            seen = b""
            end = time.monotonic() + 10
            while word.encode() not in seen:
                if time.monotonic() > end:
                    found.append(f"I2 {self.sandbox.id}: the terminal does not answer")
                    break
                event = next(events)
                seen += base64.b64decode(event.get("data", {}).get("pty", ""))
        except (StopIteration, ApiError, *LOST_CONNECTION) as error:
            found.append(
                f"I2 {self.sandbox.id}: the terminal cannot be attached again: {type(error).__name__} {error}"
            )
        finally:
            stream.close()
        return found


class Killer:
    def __init__(self, instance, api, ledger, invariants, report, seed):
        self.instance, self.api, self.ledger, self.invariants, self.report = (
            instance,
            api,
            ledger,
            invariants,
            report,
        )
        self.random, self.seed = random.Random(seed), seed
        self.serving = []

    def kill_once(self):
        # Mostly in the middle of work; sometimes while the daemons are still finding each other.
        if self.random.random() < 0.7:
            self.instance.wait_whole(self.api, 20)
            time.sleep(self.random.random() * 0.3)
        else:
            time.sleep(self.random.random() * 0.05)
        victims = self.random.choice((["control"], ["runner"], ["control", "runner"], ["runner", "control"]))
        for name in victims:
            getattr(self.instance, name).kill()
        if self.random.random() < 0.2:  # again, during the start
            for name in victims:
                getattr(self.instance, name).start()
            time.sleep(self.random.random() * 0.05)
            for name in victims:
                getattr(self.instance, name).kill()
        for name in victims:
            getattr(self.instance, name).start()
        took, slow = wait_serving(self.instance)
        if "control" in victims:
            self.serving.append(took)
        return slow

    def rest(self, clients):
        for client in clients:
            client.pause()
        for client in clients:
            client.idle.wait(60)

    def run(self, kills):
        survivors = [Survivor(self.instance, self.api, self.ledger) for _ in range(SURVIVORS)]
        baseline = Baseline(self.instance)
        clients = [Client(self.api, self.ledger, f"{self.seed}-{i}") for i in range(CLIENTS)]
        for client in clients:
            client.start()
        done = 0
        while done < kills and self.report.failed < 20:
            found = []
            for _ in range(min(KILLS_BETWEEN_CHECKS, kills - done)):
                found += self.kill_once()
                done += 1
            self.rest(clients)
            try:
                wait_until(self.works_again, 15, "a create to succeed")
                found += self.invariants.check()
                for survivor in survivors:
                    found += survivor.check()
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
            self.report.check(f"killer {done} kills", not found, f"seed {self.seed}: " + "; ".join(found[:8]))
            self.end_unanswered(survivors)
            for client in clients:
                client.resume()
        for client in clients:
            client.stop()
        for client in clients:
            client.join(60)
        self.end_unanswered(survivors)
        self.report.check("killer.baseline", not baseline.violations(), "; ".join(baseline.violations()))
        counts = dict(sorted(self.ledger.counts.items()))
        self.report.check(
            "killer.load",
            counts.get("created", 0) > kills,
            f"the load was too thin to mean anything: {counts}",
        )
        if self.serving:
            ordered = sorted(self.serving)
            print(
                f"killer: {done} kills, seed {self.seed}, serving again p50 {ordered[len(ordered) // 2] * 1000:.0f} ms, "
                f"max {ordered[-1] * 1000:.0f} ms; load {counts}",
                flush=True,
            )
        for survivor in survivors:
            survivor.sandbox.kill()
            survivor.entry.state = "dead"

    def works_again(self):
        try:
            sandbox = self.api.create(60, request_timeout=10)
        except (ApiError, *LOST_CONNECTION):
            return False
        return sandbox.kill() == 204

    def end_unanswered(self, survivors):
        """Creates whose answer was lost may have made a sandbox that nobody knows: the list shows them, and we end them."""
        mine = {entry.sandbox.id for entry in self.ledger.alive()} | {s.sandbox.id for s in survivors}
        for row in self.api.list():
            if row["sandboxID"] not in mine:
                self.api.kill(row["sandboxID"])
        with self.ledger.lock:
            for entry in self.ledger.entries.values():
                if entry.state != ALIVE:
                    entry.state = "dead"
        self.ledger.forget_dead()
