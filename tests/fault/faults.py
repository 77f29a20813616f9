# SPDX-License-Identifier: Apache-2.0
"""Single faults with an exact expectation: D05, deadlines over a restart, N01, S01, S04, U01, and a clean end."""
import os
import signal
import socket
import subprocess
import threading
import time

import kernel
from api import ApiError, in_threads, wait_until
from instance import Instance
from invariants import leftovers, remember, wait_serving
from ledger import LOST_CONNECTION, MAYBE


def gone(api, sandbox_id):
    return api.get(sandbox_id).status == 404


class Faults:
    def __init__(self, instance, api, ledger, invariants, report, programs, folder):
        self.instance, self.api, self.ledger, self.invariants = instance, api, ledger, invariants
        self.report, self.programs, self.folder = report, programs, folder

    def create(self, timeout_s=600):
        sandbox = self.api.create(timeout_s)
        entry = self.ledger.created(sandbox, timeout_s)
        entry.state = MAYBE
        return sandbox, entry

    # --- D05: the agent dies or hangs -------------------------------------------------------------------------

    def agent_killed(self):
        sandbox, _ = self.create()
        _, stream = sandbox.background("sleep 600")
        ended = []
        threading.Thread(target=lambda: ended.append(self.drain(stream)), daemon=True).start()
        os.kill(self.instance.guest_pid(sandbox.id), signal.SIGKILL)
        started = time.monotonic()
        try:
            wait_until(lambda: gone(self.api, sandbox.id), 2.0, "the state to say that the sandbox is gone")
            self.report.ok("D05.killed.state", f"{time.monotonic() - started:.2f} s")
        except TimeoutError as error:
            self.report.fail("D05.killed.state", str(error))
        wait_until(lambda: ended, 5, "the open stream to end")
        self.report.check(
            "D05.killed.stream", ended[0] != "clean", f"the open stream must break off: {ended[0]}"
        )
        self.dead_answers("D05.killed", sandbox)
        wait_until(lambda: not self.instance.record(sandbox.id), 5, "the runner to forget it")
        self.report.check(
            "D05.killed.nothing_left", not self.instance.sandbox_pids(sandbox.id), "processes are left"
        )

    def dead_answers(self, name, sandbox):
        health = sandbox.call("GET", "/health", timeout=10)
        self.report.check(
            f"{name}.health", health.status == 502, f"/health says {health.status} {health.body[:100]!r}"
        )
        try:
            sandbox.run(["/bin/true"], timeout=10)
            self.report.fail(f"{name}.command", "a command worked in a dead sandbox")
        except ApiError as error:
            self.report.check(
                f"{name}.command", error.status == 502 and b"not found" in error.body, str(error)
            )

    def agent_stopped(self):
        """SIGSTOP: the kernel says it lives, but it does nothing. Callers get an error in bounded time, and can end it
        (field: stuck, and cannot be destroyed, daytonaio/daytona#2236)."""
        sandbox, _ = self.create()
        guest = self.instance.guest_pid(sandbox.id)
        os.kill(guest, signal.SIGSTOP)
        started = time.monotonic()
        try:
            sandbox.run(["/bin/true"], timeout=5)
            self.report.fail("D05.stopped.command", "a command worked although the agent stands still")
        except (ApiError, *LOST_CONNECTION) as error:
            took = time.monotonic() - started
            self.report.check(
                "D05.stopped.command",
                isinstance(error, ApiError) and error.status in (502, 503, 504) and took < 15,
                f"after {took:.1f} s: {type(error).__name__}: {error}",
            )
        others = self.api.create(60)
        self.report.check(
            "D05.stopped.others",
            others.run(["/bin/true"], timeout=5).exit_code == 0,
            "another sandbox is hurt",
        )
        others.kill()
        started = time.monotonic()
        status = sandbox.kill()
        self.report.check(
            "D05.stopped.kill",
            status == 204 and time.monotonic() - started < 5,
            f"{status} in {time.monotonic() - started:.1f} s",
        )

    @staticmethod
    def drain(stream):
        try:
            for _ in stream:
                pass
            return "clean" if stream.end_error is None else f"error {stream.end_error}"
        except (*LOST_CONNECTION, ValueError) as error:
            return f"broken: {type(error).__name__}"

    # --- deadlines --------------------------------------------------------------------------------------------

    def deadlines(self):
        made = in_threads([lambda: self.create(3)[0] for _ in range(5)])
        failed = [x for x in made if isinstance(x, Exception)]
        due = time.time() + 3
        wait_until(lambda: all(gone(self.api, s.id) for s in made), 6, "deadlines")
        late = time.time() - due
        self.report.check("deadline.fires", not failed and late < 3.0, f"{late:.2f} s late, {failed[:1]}")

    def deadline_while_down(self):
        sandbox, _ = self.create(2)
        guest = self.instance.guest_pid(sandbox.id)
        ticks = kernel.start_ticks(guest)
        self.instance.control.kill()
        time.sleep(2.5)
        self.report.check(
            "deadline.down.still_runs", kernel.alive(guest, ticks), "control is down, yet the sandbox is gone"
        )
        self.instance.control.start()
        wait_serving(self.instance)
        started = time.monotonic()
        wait_until(
            lambda: gone(self.api, sandbox.id) and not kernel.alive(guest, ticks), 5, "the missed deadline"
        )
        self.report.check(
            "deadline.down.fires",
            time.monotonic() - started < 3.0,
            f"{time.monotonic() - started:.2f} s after serving",
        )

    # --- restart with live sandboxes ----------------------------------------------------------------------------

    def restart_many(self, count):
        """D03, I13: serving in two seconds, everything known in ten, nothing lost."""
        made = in_threads([lambda: self.create(3600) for _ in range(count)])
        bad = [m for m in made if isinstance(m, Exception)]
        pairs = [m for m in made if not isinstance(m, Exception)]
        self.report.check("restart.create", not bad, f"{len(bad)} creates failed: {bad[:1]}")
        for sandbox, entry in pairs:
            entry.state = "alive"
            inside, stream = sandbox.background(["/bin/sleep", "3600"])
            stream.close()
            remember(self.instance, entry, (inside,))
        self.instance.control.kill()
        self.instance.runner.kill()
        started = time.monotonic()
        self.instance.start()
        took, slow = wait_serving(self.instance)
        self.report.check("restart.serving", not slow, f"{took:.2f} s with {len(pairs)} sandboxes")
        results = in_threads([lambda s=s: s.run(["/bin/true"], timeout=10).exit_code for s, _ in pairs])
        known = time.monotonic() - started
        self.report.check(
            "restart.known",
            results == [0] * len(pairs) and known < 10,
            f"{known:.1f} s: {[r for r in results if r != 0][:2]}",
        )
        found = self.invariants.check()
        self.report.check("restart.invariants", not found, "; ".join(found[:5]))
        in_threads([s.kill for s, _ in pairs])
        for _, entry in pairs:
            entry.state = "dead"

    # --- N01: clients that do not behave ------------------------------------------------------------------------

    def slow_clients(self, count):
        def latency():
            times = []
            for _ in range(100):
                started = time.monotonic()
                if self.api.call("GET", "/health").status != 204:
                    raise RuntimeError("/health failed")
                times.append(time.monotonic() - started)
            return sorted(times)[98]

        before_fds = len(kernel.open_descriptors(self.instance.control.pid))
        quiet = latency()
        slow, refused = [], 0
        for i in range(count):
            try:
                raw = socket.create_connection(("127.0.0.1", self.instance.port), timeout=5)
            except OSError:
                refused += 1
                continue
            slow.append(raw)
            kinds = (
                b"",
                b"G",
                b"GET /health HTTP/1.1\r\nHost: x\r\n",
                b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
                b"POST /files?path=x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            )
            try:
                raw.sendall(kinds[i % len(kinds)])
            except OSError:
                refused += 1
        loud = min(latency() for _ in range(3))  # the machine may be busy with something else
        self.report.check(
            "N01.slow_clients",
            loud < max(0.05, quiet * 5) and refused < count // 20,
            f"p99 {quiet * 1000:.1f} ms alone, {loud * 1000:.1f} ms beside {len(slow)} slow ones, {refused} refused",
        )
        for raw in slow:
            raw.close()
        try:
            wait_until(
                lambda: len(kernel.open_descriptors(self.instance.control.pid)) <= before_fds + 16,
                15,
                "descriptors to return",
            )
            self.report.ok("N01.descriptors_return")
        except TimeoutError:
            now = len(kernel.open_descriptors(self.instance.control.pid))
            self.report.fail("N01.descriptors_return", f"{before_fds} before, {now} after")

    def silent_reader(self):
        """A client that starts a loud command and never reads must not stop others in the same sandbox."""
        sandbox, _ = self.create()
        raw = socket.create_connection(("127.0.0.1", self.instance.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = b'{"process":{"cmd":"/bin/bash","args":["-c","yes"]}}'
        head = (
            f"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {sandbox.id}\r\nE2b-Sandbox-Port: 49983\r\n"
            f"X-Access-Token: {sandbox.token}\r\nContent-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n"
            f"Content-Length: {len(body) + 5}\r\n\r\n"
        ).encode()
        raw.sendall(head + b"\0" + len(body).to_bytes(4, "big") + body)
        time.sleep(1)
        guest = self.instance.guest_pid(sandbox.id)
        before = {pid: kernel.resident_kib(pid) for pid in (self.instance.control.pid, guest)}
        started = time.monotonic()
        outcome = sandbox.run(["/bin/echo", "ok"], timeout=5)
        self.report.check(
            "N01.silent_reader",
            outcome.stdout == b"ok\n" and time.monotonic() - started < 2,
            f"{outcome.stdout!r}",
        )
        time.sleep(2)
        grown = {pid: kernel.resident_kib(pid) - kib for pid, kib in before.items()}
        self.report.check(
            "N01.silent_reader.memory", all(g < 8192 for g in grown.values()), f"grown by KiB: {grown}"
        )
        raw.close()
        sandbox.kill()

    # --- N04: somebody else's hands on our kernel objects ---------------------------------------------------------

    def firewall_wiped(self):
        before = kernel.nft_elements(self.instance.name)
        subprocess.run(["nft", "delete", "table", "inet", self.instance.name], check=True)
        started = time.monotonic()
        try:
            wait_until(lambda: kernel.nft_elements(self.instance.name) == before, 5, "the rules to come back")
            self.report.ok("N04.firewall_wiped", f"back after {time.monotonic() - started:.2f} s")
        except TimeoutError as error:
            self.report.fail(
                "N04.firewall_wiped",
                f"{error}; before {before}, now {kernel.nft_elements(self.instance.name)}",
            )

    def link_deleted(self):
        """The sandbox cannot be reached any more: callers are told so in bounded time, and it can be ended."""
        sandbox, _ = self.create()
        slot = self.instance.slot(self.instance.guest_pid(sandbox.id))
        subprocess.run(["ip", "link", "delete", f"atl{slot}"], check=True)
        started = time.monotonic()
        try:
            sandbox.run(["/bin/true"], timeout=5)
            self.report.fail("N04.link_deleted.command", "a command worked without a link")
        except (ApiError, *LOST_CONNECTION) as error:
            took = time.monotonic() - started
            self.report.check(
                "N04.link_deleted.command",
                isinstance(error, ApiError) and error.status in (502, 503, 504) and took < 15,
                f"after {took:.1f} s: {type(error).__name__}: {error}",
            )
        status = sandbox.kill()
        self.report.check("N04.link_deleted.kill", status in (204, 404), f"HTTP {status}")
        wait_until(lambda: not self.instance.record(sandbox.id), 10, "the runner to let go")

    # --- P01: a herd ------------------------------------------------------------------------------------------------

    def stampede(self, count):
        """More creates at once than there is room for: each is made or refused with a reason, and nothing is left over."""
        answers = in_threads(
            [
                lambda: self.api.call(
                    "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600}, timeout=60
                )
                for _ in range(count)
            ]
        )
        failed = [a for a in answers if isinstance(a, Exception)]
        made = [a.json()["sandboxID"] for a in answers if not isinstance(a, Exception) and a.status == 201]
        refused = [a for a in answers if not isinstance(a, Exception) and a.status != 201]
        odd = [
            (a.status, a.body[:120])
            for a in refused
            if a.status not in (429, 503) or b"error_code" not in a.body
        ]
        self.report.check(
            "P01.answers",
            not failed and not odd and made,
            f"{len(made)} made, {len(refused)} refused, {failed[:1]} {odd[:2]}",
        )
        in_threads([lambda name=name: self.api.kill(name) for name in made])
        found = self.invariants.check()
        self.report.check("P01.invariants", not found, "; ".join(found[:5]))

    # --- S01: no space ------------------------------------------------------------------------------------------

    def another(self, name, slots, **more):
        folder = f"{self.folder}/{name}"
        os.makedirs(folder, exist_ok=True)
        return Instance(self.programs, folder, name=name, slot_first=slots, slot_count=16, ready=0, runsc="none", **more)

    def disk_full(self):
        """The store's file system fills up under a live instance, and gets space again."""
        other = self.another("escfull", 3660)
        other.prepare()
        control_dir = other.data_dir + "/control"
        subprocess.run(
            [
                "mount",
                "-t",
                "tmpfs",
                "-o",
                f"size=4m,mode=0700,uid={os.stat(control_dir).st_uid}",
                "none",
                control_dir,
            ],
            check=True,
        )
        try:
            api = other.start_first()
            survivor = api.create(600)
            ballast = control_dir + "/ballast"
            fd = os.open(ballast, os.O_WRONLY | os.O_CREAT)
            try:
                while True:
                    os.write(fd, b"x" * 4096)
            except OSError:
                os.close(fd)
            answers = []
            for _ in range(60):
                try:
                    answers.append(
                        api.call(
                            "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}, timeout=20
                        ).status
                    )
                except LOST_CONNECTION as error:
                    answers.append(type(error).__name__)
                if answers[-1] != 201:
                    break
            self.report.check("S01.refused", answers[-1] in (503, 507), f"answers {answers[-3:]}")
            self.report.check("S01.alive", other.control.running(), "control died on a full disk")
            self.report.check(
                "S01.survivor",
                survivor.run(["/bin/true"], timeout=10).exit_code == 0,
                "the running sandbox is hurt",
            )
            os.unlink(ballast)
            status = wait_until(
                lambda: api.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}).status
                == 201,
                10,
                "creates to work again",
            )
            self.report.check("S01.recovers", bool(status))
            listed = len(api.list())
            made = answers.count(201) + 2
            self.report.check("S01.nothing_lost", listed == made, f"{made} acknowledged, {listed} listed")
        finally:
            other.stop()
            subprocess.run(["umount", "-l", control_dir], capture_output=True)
        self.report.check("S01.nothing_left", not leftovers(other), "; ".join(leftovers(other)))

    # --- S04, U01: a damaged or foreign store ---------------------------------------------------------------------

    def damaged_store(self):
        """Bytes flipped in the store: refuse with a clear line, or serve what is right. Never crash in a loop silently."""
        other = self.another("escbad", 3676)
        other.prepare()
        try:
            kept = other.start_first().create(3600)
            other.control.stop()
            path = next(
                p
                for p in (other.data_dir + "/control/state.db", other.data_dir + "/state.db")
                if os.path.exists(p)
            )
            whole = open(path, "rb").read()
            for name, damage in (
                ("header", lambda b: b"\0" * 16 + b[16:]),
                ("middle", lambda b: b[: len(b) // 2] + os.urandom(4096) + b[len(b) // 2 + 4096 :]),
                ("truncated", lambda b: b[: len(b) // 2 + 100]),
            ):
                for extra in ("-wal", "-shm"):
                    os.path.exists(path + extra) and os.unlink(path + extra)
                with open(path, "r+b") as file:
                    file.truncate(0)
                    file.write(damage(whole))
                mark = os.path.getsize(other.control.log)
                other.control.start()
                time.sleep(1.5)
                log = open(other.control.log).read()[mark:]
                refused = not other.control.running() and "state.db" in log
                self.report.check(
                    f"S04.{name}",
                    refused or (other.control.running() and other.answers()),
                    f"running={other.control.running()} log={log[-300:]!r}",
                )
                other.control.kill()
            for extra in ("-wal", "-shm"):
                os.path.exists(path + extra) and os.unlink(path + extra)
            with open(path, "r+b") as file:
                file.truncate(0)
                file.write(whole)
            other.control.start()
            other.wait_ready()
            self.report.check(
                "S04.repaired",
                kept.run(["/bin/true"], timeout=10).exit_code == 0,
                "the sandbox did not come back with the whole store",
            )
        finally:
            other.stop()
        self.report.check("S04.nothing_left", not leftovers(other), "; ".join(leftovers(other)))

    def two_daemons(self):
        for daemon, command in (
            ("control", self.instance.control_command()),
            ("runner", self.instance.runner_command()),
        ):
            if daemon == "control":
                command = [part.replace(str(self.instance.port), "0") for part in command]
            done = None
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            except subprocess.TimeoutExpired:
                pass
            ok = (
                done is not None
                and done.returncode not in (0, -9, -11, -6)
                and (done.stderr + done.stdout).strip() != ""
            )
            self.report.check(
                f"U01.second_{daemon}",
                ok,
                "it started"
                if done is None
                else f"exit {done.returncode}: {(done.stderr + done.stdout)[-200:]!r}",
            )
            self.report.check(
                f"U01.first_{daemon}_lives",
                getattr(self.instance, daemon).running() and self.instance.answers(),
                "the first one was hurt",
            )

    def clean_end(self):
        """SIGTERM: the daemons end by themselves, and running sandboxes stay (`atoll down --keep`)."""
        sandbox, entry = self.create()
        entry.state = "alive"
        remember(self.instance, entry)
        for name in ("control", "runner"):
            status = getattr(self.instance, name).stop()
            self.report.check(f"end.{name}", status == 0, f"exit {status}")
        self.report.check(
            "end.sandbox_stays", kernel.alive(*entry.guest), "the sandbox went with the daemons"
        )
        self.instance.start()
        wait_serving(self.instance)
        self.report.check("end.sandbox_known", sandbox.run(["/bin/true"], timeout=10).exit_code == 0)
        sandbox.kill()
        entry.state = "dead"

    def all(self, restart_count, slow_count):
        steps = (
            self.agent_killed,
            self.agent_stopped,
            self.deadlines,
            self.deadline_while_down,
            lambda: self.restart_many(restart_count),
            lambda: self.slow_clients(slow_count),
            self.silent_reader,
            self.two_daemons,
            self.firewall_wiped,
            self.link_deleted,
            lambda: self.stampede(300),
            self.disk_full,
            self.damaged_store,
            self.clean_end,
        )
        names = (
            "agent_killed",
            "agent_stopped",
            "deadlines",
            "deadline_while_down",
            "restart_many",
            "slow_clients",
            "silent_reader",
            "two_daemons",
            "firewall_wiped",
            "link_deleted",
            "stampede",
            "disk_full",
            "damaged_store",
            "clean_end",
        )
        for name, step in zip(names, steps):
            try:
                step()
            except Exception as error:
                self.report.fail(f"faults.{name}", f"{type(error).__name__}: {error}")
            for daemon in ("runner", "control"):
                if not getattr(self.instance, daemon).running():
                    self.report.fail(f"faults.{name}.{daemon}", "it is dead")
                    getattr(self.instance, daemon).start()
            wait_serving(self.instance)
