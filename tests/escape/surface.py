# SPDX-License-Identifier: Apache-2.0
"""Attacks through the API: files, ports, other tenants, tiers (F, N10, A01, V11, R07, F11 of the corpus)."""
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse

import kernel
import verdict
from api import Api, in_threads

# Spaces around a header's value are no part of it (RFC 9110 5.5), so they are no trick.
TRICKY_PORTS = [
    "02280",
    "+2280",
    "0x8e8",
    "0X8E8",
    "67816",
    "-1",
    "0",
    "2280.0",
    "2_280",
    "٢٢٨٠",
    "2280%00",
    "[::1]",
    "22 80",
    "2280,2280",
    "4294969576",
    "18446744073709553896",
    "",
]


class Surface:
    def __init__(self, world, instance, sandbox, neighbour, report):
        self.world, self.instance, self.sandbox, self.neighbour, self.report = (
            world,
            instance,
            sandbox,
            neighbour,
            report,
        )

    def file_query(self, raw_path, user="root"):
        return f"/files?path={raw_path}&username={user}"

    def judge_file(self, name, answer, allowed, facts):
        leaked = verdict.needle_leaks(self.world, answer.body.decode(errors="replace"))
        changed = [key for key, value in self.world.facts().items() if value != facts[key]]
        text = f"HTTP {answer.status} {answer.body[:120]!r} leaked={leaked} changed={changed}"
        self.report.check(name, not leaked and not changed and answer.status in allowed, text)

    # --- files ------------------------------------------------------------------------------------------------

    def careless_server(self):
        """The positive control of the file probes: a server that joins paths and follows links."""
        root = self.world.folder + "-careless"
        os.makedirs(root, exist_ok=True)
        link = root + "/link"
        if not os.path.islink(link):
            os.symlink(self.world.canary, link)
        seen = []
        for path in (
            f"../{os.path.basename(self.world.folder)}/canary.txt",
            "link",
            f"{'../' * 12}{self.world.canary}",
        ):
            try:
                seen.append(open(os.path.join(root, path)).read())
            except OSError:
                seen.append("")
        through = sum(1 for text in seen if verdict.needle_leaks(self.world, text))
        self.report.check(
            "F.control", through >= 2, f"the oracle sees {through} of 3 escapes of a careless server"
        )

    def paths(self):
        canary = self.world.canary
        dots = "../" * 12
        cases = {
            "dots": urllib.parse.quote(dots + canary.lstrip("/")),
            "absolute": urllib.parse.quote(canary),
            "encoded_dots": "%2e%2e%2f" * 12 + urllib.parse.quote(canary.lstrip("/"), safe=""),
            "double_encoded": "%252e%252e%252f" * 12 + urllib.parse.quote(canary.lstrip("/"), safe=""),
            "slashes": urllib.parse.quote("//" + canary),
            "backslashes": urllib.parse.quote("..\\" * 12 + canary),
            "proc_root": urllib.parse.quote("/proc/1/root" + canary),
            "self_root": urllib.parse.quote("/proc/self/root" + canary),
            "thread_root": urllib.parse.quote("/proc/thread-self/root/../../.." + canary),
            "proc_cwd": urllib.parse.quote("/proc/1/cwd/" + dots + canary),
            "home": urllib.parse.quote("~/" + dots + canary),
            "neighbour": urllib.parse.quote(self.neighbour_canary),
            "kernel_memory": "/proc/kcore",
        }
        for name, raw in cases.items():
            for user in ("root", "user"):
                facts = self.world.facts()
                self.judge_file(
                    f"F01.{name}.{user}",
                    self.sandbox.call("GET", self.file_query(raw, user)),
                    (400, 401, 403, 404),
                    facts,
                )
        bad = {
            "nul": "%2Ftmp%2Fa%00b",
            "not_utf8": "%2Ftmp%2F%ff%fe",
            "overlong": "%2Ftmp%2F%c0%ae%c0%ae%2Fx",
            "long_path": "%2F" + "a%2F" * 2100,
            "long_name": "%2Ftmp%2F" + "a" * 256,
            "surrogate": "%2Ftmp%2F%ed%a0%80",
        }
        for name, raw in bad.items():
            for method, body in (("GET", None), ("POST", b"x")):
                facts = self.world.facts()
                answer = self.sandbox.call(
                    method, self.file_query(raw), body, headers={"Content-Type": "application/octet-stream"}
                )
                self.judge_file(
                    f"F01.{name}.{method}", answer, (400, 404, 414) if method == "GET" else (400, 414), facts
                )

    def links(self):
        canary = self.world.canary
        targets = {
            "host_file": canary,
            "dots": "../" * 12 + canary.lstrip("/"),
            "proc_root": "/proc/1/root" + canary,
            "self_root": "/proc/self/root" + canary,
            "magic_fd": "/proc/self/fd/3",
            "magic_exe": "/proc/1/exe",
            "loop": "/tmp/escape-links/loop",
            "neighbour": self.neighbour_canary,
        }
        script = (
            "rm -rf /tmp/escape-links; mkdir -p /tmp/escape-links; cd /tmp/escape-links; "
            + "".join(f"ln -sfn '{target}' {name}; " for name, target in targets.items())
            + "ln -sfn / up; chmod 777 ."
        )
        self.sandbox.run(script, user="root")
        for name in [*targets, "up" + canary, "up/proc/1/root" + canary]:
            facts = self.world.facts()
            answer = self.sandbox.call(
                "GET", self.file_query(urllib.parse.quote("/tmp/escape-links/" + name))
            )
            # pid 1's program is a file of the sandbox like any other, as far as reading goes.
            allowed = (200, 400, 403, 404) if name in ("magic_exe", "magic_fd") else (400, 403, 404)
            self.judge_file(f"F02.read.{name[:24]}", answer, allowed, facts)
        for name in ("magic_exe", "magic_fd", "loop"):
            facts = self.world.facts()
            answer = self.sandbox.call(
                "POST",
                self.file_query("/tmp/escape-links/" + name),
                b"overwritten",
                headers={"Content-Type": "application/octet-stream"},
            )
            self.judge_file(f"F02.write.{name}", answer, (400, 403, 404, 409), facts)

    def special_files(self):
        """FIFOs, devices and endless files must be answered at once, and never followed."""
        self.sandbox.run(
            "rm -f /tmp/escape-fifo; mkfifo -m 666 /tmp/escape-fifo; mknod -m 666 /tmp/escape-null c 1 3 || true",
            user="root",
        )
        for path in (
            "/tmp/escape-fifo",
            "/dev/zero",
            "/dev/tty",
            "/proc/kmsg",
            "/dev/stdin",
            "/dev/full",
            "/tmp",
        ):
            for method, body in (("GET", None), ("POST", b"x")):
                facts, started = self.world.facts(), time.monotonic()
                try:
                    answer = self.sandbox.call(
                        method,
                        self.file_query(path),
                        body,
                        headers={"Content-Type": "application/octet-stream"},
                        timeout=8,
                    )
                except OSError as error:
                    self.report.fail(f"F05.{method}{path}", f"no answer: {error}")
                    continue
                allowed = (400, 403, 404, 409)
                if path == "/dev/tty" and self.sandbox.created.get("isolation") == "gvisor":
                    allowed += (500,)  # the sandbox's own kernel says "Input/output error"
                self.judge_file(f"F05.{method}{path}", answer, allowed, facts)
                took = time.monotonic() - started
                if took > 2:
                    self.report.fail(f"F05.{method}{path}.time", f"took {took:.1f} s")

    def agent_memory(self):
        """The agent reads files for its callers, but not its own memory: it holds a token that no caller may have."""
        maps = self.sandbox.read("/proc/1/maps").body.decode(errors="replace") + self.sandbox.read(
            "/proc/self/maps"
        ).body.decode(errors="replace")
        spans = [line.split()[0].split("-") for line in maps.splitlines() if " rw" in line]
        leaks = []
        for path in ("/proc/1/mem", "/proc/self/mem", "/proc/thread-self/mem", "/proc/1/task/1/mem"):
            for start, end in spans or [["400000", "410000"]]:
                query = self.file_query(path)
                answer = self.sandbox.call(
                    "GET",
                    query,
                    headers={
                        "Range": f"bytes={int(start, 16)}-{int(end, 16) - 1}",
                        "Accept-Encoding": "identity",
                    },
                )
                if answer.status in (200, 206) and self.sandbox.token.encode() in answer.body:
                    leaks.append((path, start))
            answer = self.sandbox.call(
                "POST", self.file_query(path), b"x", headers={"Content-Type": "application/octet-stream"}
            )
            self.report.check(
                f"F05.write{path}",
                answer.status in (400, 403, 404),
                f"HTTP {answer.status} {answer.body[:100]!r}",
            )
        self.report.check(
            "F05.agent_memory", not leaks, f"the agent's memory can be read through the file API: {leaks[:2]}"
        )

    def planted_links(self):
        """Links that the workload plants where a caller writes as `user` lead nowhere that `user` could not write itself.

        The protocol lets a caller write anywhere as any user, so the user name alone is no boundary; a link is one, since
        the workload and not the caller chose it.
        """
        self.sandbox.run(
            "rm -f /home/user/escape-link; ln -s /etc/escape-root /home/user/escape-link; "
            "rm -rf /home/user/escape-dir; ln -s /etc /home/user/escape-dir",
            user="user",
        )
        for path in ("/home/user/escape-link", "/home/user/escape-dir/escape-root2"):
            answer = self.sandbox.call(
                "POST",
                self.file_query(path, "user"),
                b"x",
                headers={"Content-Type": "application/octet-stream"},
            )
            made = self.sandbox.run("ls /etc/escape-root* 2>/dev/null", user="root").stdout
            self.report.check(
                f"F06.user_write{path}",
                answer.status in (400, 403) and not made.strip(),
                f"HTTP {answer.status} made={made!r}",
            )

    def swap_race(self, seconds):
        """A process flips a folder and a link to the outside, while the API reads and writes through it."""
        flip = (
            "import os\nos.makedirs('/tmp/race/real/x', exist_ok=True)\nopen('/tmp/race/real/f','w').write('inside')\n"
            f"os.path.lexists('/tmp/race/out') or os.symlink('/proc/1/root{self.world.folder}', '/tmp/race/out')\n"
            "import ctypes\nc=ctypes.CDLL(None)\n"
            "while True: c.renameat2(-100, b'/tmp/race/real', -100, b'/tmp/race/out', 2)\n"
        )
        pid, stream = self.sandbox.background(["/usr/bin/python3", "-c", flip], user="root")
        name = os.path.basename(self.world.canary)
        facts, end, tries, bad = self.world.facts(), time.monotonic() + seconds, [0], []

        def attack(method, path, body):
            while time.monotonic() < end:
                answer = self.sandbox.call(
                    method, path, body, headers={"Content-Type": "application/octet-stream"} if body else None
                )
                tries[0] += 1
                if verdict.needle_leaks(self.world, answer.body.decode(errors="replace")):
                    bad.append(answer.body)
                if answer.status >= 500:
                    bad.append((answer.status, answer.body[:200]))

        attacks = [
            ("GET", self.file_query(f"/tmp/race/real/{name}"), None),
            ("POST", self.file_query("/tmp/race/real/planted"), b"planted"),
            ("GET", self.file_query("/tmp/race/real/f"), None),
            ("POST", self.file_query("/tmp/race/real/x/planted"), b"planted"),
        ]
        in_threads([lambda a=a: attack(*a) for a in attacks])
        self.sandbox.signal(pid)
        stream.close()
        changed = [key for key, value in self.world.facts().items() if value != facts[key]]
        self.report.check(
            "F03.swap_race",
            not bad and not changed and tries[0] > 100,
            f"{tries[0]} tries, bad={bad[:2]} changed={changed}",
        )

    def aborted_upload(self):
        """An upload that breaks off leaves no file and no temporary file behind."""
        import socket

        path = "/home/user/escape-upload"
        head = (
            f"POST {self.file_query(path, 'user')} HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {self.sandbox.id}\r\nE2b-Sandbox-Port: 49983\r\n"
            f"X-Access-Token: {self.sandbox.token}\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n"
        ).encode()
        for size in (0, 1, 65536, 999999):
            with socket.create_connection(("127.0.0.1", self.instance.port)) as raw:
                raw.sendall(head + b"x" * size)
        time.sleep(0.3)
        left = self.sandbox.run(
            "ls -A /home/user | grep -i -E 'escape-upload|tmp|part' ; ls -A /tmp | grep -i upload",
            user="root",
        ).stdout
        self.report.check("F13.aborted_upload", not left.strip(), f"left: {left!r}")

    def traced_daemons(self):
        """No daemon executes or loads a file of a sandbox: strace of all of them while the file API works."""
        # Not the sandboxes, which are children of the launcher.
        targets = [
            pid
            for pid in self.instance.daemon_pids()
            if int(kernel.status_fields(pid)["Uid"].split()[0]) < kernel.UID_BASE
        ]
        log = self.world.folder + "-strace"
        command = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=execve,execveat,openat,openat2,read,recvfrom,recvmsg,write,writev,sendmsg",
            "-o",
            log,
            *[x for pid in targets for x in ("-p", str(pid))],
        ]
        try:
            tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            self.report.skip("F11.no_exec", "strace is not installed")
            return
        time.sleep(0.5)
        self.sandbox.run(
            "mkdir -p /usr/local/bin; for n in tar gzip unpigz xz git; do printf '#!/bin/sh\\nid > /tmp/pwned' > /usr/local/bin/$n; "
            "chmod 755 /usr/local/bin/$n; done",
            user="root",
        )
        self.sandbox.write("/tmp/traced.tar.gz", os.urandom(2000))
        self.sandbox.read("/tmp/traced.tar.gz")
        tracer.terminate()
        tracer.wait()
        text = open(log).read() if os.path.exists(log) else ""
        bad = [
            line
            for line in text.splitlines()
            if "execve" in line or re.search(r'openat\(.*"[^"]*(disks|upper|merged)[^"]*\.so', line)
        ]
        self.report.check(
            "F11.no_exec", text != "" and not bad, f"{len(text.splitlines())} calls seen, bad={bad[:3]}"
        )
        os.path.exists(log) and os.unlink(log)

    # --- ports ------------------------------------------------------------------------------------------------

    def ports(self):
        pid, stream = self.sandbox.background(
            ["/usr/local/bin/escape_probe", "serve-tcp", "127.0.0.1", "2280", "port-2280-reached"],
            user="root",
        )
        deadline = time.monotonic() + 5
        good = None
        while time.monotonic() < deadline:
            good = self.sandbox.call("GET", "/", port=2280)
            if b"port-2280-reached" in good.body:
                break
            time.sleep(0.05)
        self.report.check(
            "N10.control", b"port-2280-reached" in good.body, f"HTTP {good.status} {good.body[:80]!r}"
        )
        for text in TRICKY_PORTS:
            for kind, headers in (
                ("header", {"E2b-Sandbox-Id": self.sandbox.id, "E2b-Sandbox-Port": text}),
                ("host", {"Host": f"{text}-{self.sandbox.id}.atoll.localhost"}),
            ):
                name = f"N10.{kind}.{text.strip() or 'empty'}"
                try:
                    answer = Api(self.instance.port, "", timeout=8).call(
                        "GET", "/", headers={k: v.encode() for k, v in headers.items()}
                    )
                except Exception as error:
                    self.report.check(
                        name,
                        "RemoteDisconnected" in repr(error) or "ConnectionReset" in repr(error),
                        f"{error!r}",
                    )
                    continue
                # An empty port in a host name is no sandbox name at all: such a request is one for the API.
                self.report.check(
                    name,
                    b"reached" not in answer.body and answer.status in (400, 401, 404, 421),
                    f"HTTP {answer.status} {answer.body[:80]!r}",
                )
        for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw"):
            for extra in ({}, {"X-Atoll-Internal": "0" * 64}, {"x-atoll-internal": ""}):
                answer = self.sandbox.call(
                    "POST", path, b"{}", headers={"Content-Type": "application/json", **extra}
                )
                self.report.check(
                    f"N10.internal{path}", answer.status == 404, f"HTTP {answer.status} {answer.body[:80]!r}"
                )
        self.sandbox.signal(pid)
        stream.close()

    # --- output -----------------------------------------------------------------------------------------------

    def output_flood(self):
        """200 MiB of output that nobody reads: memory of the daemons stays flat (R07)."""
        guest = self.instance.guest_pid(self.sandbox.id)
        before = {pid: kernel.resident_kib(pid) for pid in [*self.instance.daemon_pids(), guest]}
        pid, stream = self.sandbox.background("head -c 200000000 /dev/zero; sleep 60", user="user")
        time.sleep(3)
        after = {pid: kernel.resident_kib(pid) for pid in before}
        grown = {pid: after[pid] - before[pid] for pid in before if after[pid] - before[pid] > 24 * 1024}
        self.report.check("R07.output_flood", not grown, f"grown by KiB: {grown}")
        one_line = self.sandbox.run("head -c 3000000 /dev/zero | tr '\\0' x", timeout=30)
        self.report.check(
            "R07.whole_output", len(one_line.stdout) == 3000000, f"{len(one_line.stdout)} bytes"
        )
        self.sandbox.signal(pid)
        stream.close()
        # The oracle must be able to see growth: a careless reader keeps everything.
        careless = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import subprocess,time\nx=subprocess.run(['head','-c','60000000','/dev/zero'],"
                "stdout=subprocess.PIPE).stdout\nprint('read',flush=True)\ntime.sleep(60)",
            ],
            stdout=subprocess.PIPE,
        )
        careless.stdout.readline()
        self.report.check(
            "R07.control",
            kernel.resident_kib(careless.pid) > 24 * 1024,
            "growth of a careless reader is seen",
        )
        careless.kill()
        careless.wait()

    def neighbour_latency(self):
        """While this sandbox forks and burns CPU, a command in the neighbour still ends, in bounded time (R01, I11)."""
        stop = threading.Event()
        pid, stream = self.sandbox.background(
            "for i in $(seq 300); do (while :; do :; done) & done; wait", user="user"
        )
        times = []
        for _ in range(15):
            started = time.monotonic()
            outcome = self.neighbour.run(["/bin/true"], timeout=20)
            times.append(time.monotonic() - started)
            if outcome.exit_code != 0:
                self.report.fail("R01.neighbour", f"exit {outcome.exit_code} {outcome.error}")
        stop.set()
        self.sandbox.signal(pid)
        self.sandbox.run("pkill -9 -u user bash; true", user="root", timeout=60)
        stream.close()
        times.sort()
        self.report.check(
            "R01.neighbour", times[-1] < 2.0, f"p50 {times[7] * 1000:.0f} ms, max {times[-1] * 1000:.0f} ms"
        )

    def all(self, race_seconds):
        self.neighbour_canary = "/home/user/neighbour-canary"
        self.neighbour.write(self.neighbour_canary, self.world.secret("neighbour-file").encode())
        self.careless_server()
        for step in (
            self.paths,
            self.links,
            self.special_files,
            self.agent_memory,
            self.planted_links,
            lambda: self.swap_race(race_seconds),
            self.aborted_upload,
            self.ports,
            self.output_flood,
            self.traced_daemons,
            # In a kernel that is a process, 300 busy programs starve the guest daemon too: fault/neighbours.py is for all tiers.
            *([self.neighbour_latency] if self.sandbox.created.get("isolation") == "container" else []),
        ):
            try:
                step()
            except Exception as error:
                self.report.fail(
                    f"surface.{getattr(step, '__name__', 'swap_race')}", f"{type(error).__name__}: {error}"
                )
