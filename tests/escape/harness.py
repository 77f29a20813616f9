# SPDX-License-Identifier: Apache-2.0
"""The escape tests: a hostile workload in a real sandbox, judged from outside.

    python3 tests/escape/harness.py [--programs DIR] [--tier TIER] [--only PART,...] [--long] [--verbose] [--keep]

Parts: probes, surface; and for the tier container also tenants, archives, posture, mutants, weakened. Needs root. Everything happens in namespaces of its own (see world.py); the last line is
"N passed, N failed, N skipped". A probe that does not get through in its positive control proves nothing here: it is
counted as skipped, and listed with what the control answered.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]

import kernel  # noqa: E402
import posture  # noqa: E402
import verdict  # noqa: E402
import world as ground  # noqa: E402
from api import LOST_CONNECTION, ApiError, wait_until  # noqa: E402
from archives import Archives  # noqa: E402
from calibrate import control_arguments, probe_arguments  # noqa: E402
from controls import Control  # noqa: E402
from instance import Instance  # noqa: E402
from mutants import Mutants  # noqa: E402
from surface import Surface  # noqa: E402
from tenants import Tenants  # noqa: E402
from weakened import Weakened  # noqa: E402

PROBE = "/usr/local/bin/escape_probe"
# What gets through in a tier and hurts nobody outside: {tier: {probe: reason}}.
KNOWN = posture.load(os.path.join(HERE, "known.json"))
# Probes that only one layer stops: where this host lacks it (and says so), they prove nothing.
NEEDS_LAYER = {"K12.whiteout": "landlock"}
# More than that, and the tier is too open, whatever the reasons. A kernel of one's own may be asked for much.
MAX_KNOWN = {"container": 8, "gvisor": 30}
# Probes that may end their own sandbox, as this user: each gets one of its own. A kernel that is a process under the
# sandbox's limits ends when they are reached, and gVisor's does not protect pid 1 from root.
FATAL = {
    "container": {},
    "gvisor": {
        "R01.fork_bomb": ("root", "user"),
        "R03.anonymous": ("root", "user"),
        "R03.memfd": ("root", "user"),
        "R04.shm": ("root", "user"),
        "R09.kill_agent": ("root",),
        "R09.stop_agent": ("root",),
        "R09.segv_agent": ("root",),
    },
}
# Outcomes with which such an end is told.
TOLD_ENDS = ("out_of_memory", "agent_lost")
PARTS = {
    "container": "probes,surface,tenants,archives,posture,mutants,weakened",
    "gvisor": "probes,surface",
}


class Harness:
    def __init__(self, options):
        self.options = options
        self.report = verdict.Report(options.verbose)
        self.tier, self.known = options.tier, KNOWN[options.tier]
        self.template = "base" if self.tier == "container" else f"base@{self.tier}"
        self.folder = tempfile.mkdtemp(prefix="atoll-escape-")
        self.world = ground.World(self.folder + "/host")
        self.programs = {
            name: os.path.join(options.programs, name) for name in ("escape_probe", "escape_weak")
        }

    def set_up(self):
        self.world.start()
        os.chmod(self.folder, 0o755)
        self.instance = Instance(
            self.options.programs,
            self.folder + "/atoll",
            name="esc",
            slot_first=3500,
            slot_count=60,
            runsc=self.options.runsc if self.tier == "gvisor" else "none",
        )
        os.makedirs(self.instance.folder)
        self.instance.prepare()
        self.api = self.instance.start_first()
        self.neighbour = self.create()
        self.take(self.create())

    def create(self):
        return self.equip(self.api.create(3600, template=self.template))

    def equip(self, sandbox):
        with open(self.programs["escape_probe"], "rb") as file:
            sandbox.write(PROBE, file.read())
        sandbox.run(f"chmod 755 {PROBE}", user="root")
        return sandbox

    def take(self, sandbox):
        """The sandbox that is attacked from now on."""
        self.sandbox = sandbox
        self.guest = self.instance.guest_pid(sandbox.id)
        self.guest_ticks = kernel.start_ticks(self.guest)

    # --- probes -----------------------------------------------------------------------------------------------

    def agent_alive(self):
        text = kernel.read(f"/proc/{self.guest}/stat")
        return kernel.alive(self.guest, self.guest_ticks) and text.rpartition(")")[2].split()[0] not in "Tt"

    def shared_layer_changed(self):
        text = self.neighbour.run(["/bin/cat", "/etc/debian_version"], user="root").stdout.decode()
        return ["the neighbour sees the change"] if self.world.nonce in text else []

    def sandbox_arguments(self):
        detail = self.api.get(self.sandbox.id).json()
        slot, other = self.instance.slot(self.guest), self.instance.slot(
            self.instance.guest_pid(self.neighbour.id)
        )
        # A process of the other user for each: `user` looks at one of root, root at one of `user`.
        self.peers = {
            user: self.sandbox.background([PROBE, "hold", self.world.secret("peer")], user=other)
            for user, other in (("root", "user"), ("user", "root"))
        }
        _, self.abstract_stream = self.neighbour.background(
            [PROBE, "serve-abstract", "escape-neighbour"], user="root"
        )
        self.world.secrets["access-token"] = self.sandbox.token
        return probe_arguments(
            self.world,
            data_dir=self.instance.data_dir,
            run_dir=self.instance.run_dir,
            neighbour=self.neighbour.id,
            neighbour_canary="/home/user/neighbour-canary",
            data_canary=self.instance.data_dir + "/control/bootstrap.key",
            neighbour_abstract="escape-neighbour",
            runner_socket=self.instance.run_dir + "/runner.sock",
            slot_address=f"100.64.{(slot + 1) >> 8}.{(slot + 1) & 255}",
            neighbour_slot_address=f"100.64.{(other + 1) >> 8}.{(other + 1) & 255}",
            api_port=self.instance.port,
            memory_prefix=self.sandbox.token[:8],
            shared_file="/etc/debian_version",
            memory_mib=detail["memoryMB"] + 76,
            disk_mib=detail["diskSizeMB"] + 128,
            processes=600,
        )

    def run_probe(self, probe, user, arguments):
        more = self.shared_layer_changed if probe == "K31.shared_layer" else (lambda: [])
        observer = verdict.Observer(self.world, self.agent_alive, more)
        outcome = self.sandbox.run(
            [PROBE, "run", probe, *arguments, f"peer_pid={self.peers[user][0]}"], user=user, timeout=30
        )
        try:
            answer = json.loads(outcome.stdout.decode(errors="replace").splitlines()[0])
        except (IndexError, ValueError):
            answer = {
                "result": "BLOCKED",
                "errno": "",
                "note": "no_answer",
                "detail": f"{outcome.status} {outcome.error} {outcome.stderr[-200:]!r}",
            }
        evidence = observer.evidence(probe, answer)
        return verdict.reached(probe, answer, evidence), answer, evidence

    def judge(self, probe, user, arguments, control_through, control_answer):
        through, answer, evidence = self.run_probe(probe, user, arguments)
        for _ in range(2):
            # What a memfd holds is given back only after its process has gone, so that the kernel may end the one that
            # reports, too.
            if answer["note"] == "no_answer" and probe.startswith(("R03.", "R04.")):
                through, answer, evidence = self.run_probe(probe, user, arguments)
        said = f"{answer['errno']} {answer['note']} {answer['detail'][:160]!r} {'; '.join(evidence)}"
        name = f"{probe} as {user}"
        if probe.startswith(verdict.WAY_OUT):
            self.report.check(name, through, f"the way out that the policy allows is closed: {said}")
        elif through and not evidence and probe in self.known:
            self.known_seen.add(probe)
            self.report.known.append(f"{name}: {self.known[probe]}")
            self.report.ok(name)
        elif through and any(
            NEEDS_LAYER.get(probe) == layer for layer in self.sandbox.created.get("missingLayers", [])
        ):
            self.report.skip(name, f"this host has no {NEEDS_LAYER[probe]}, and the sandbox says so")
        elif through:
            self.report.fail(name, f"got through: {said}")
        elif answer["note"] == "no_answer":
            self.report.fail(name, f"no answer: {said}")
        elif not control_through:
            self.report.skip(
                name,
                f"vacuous: the control answered {control_answer['errno'] or control_answer['note'] or control_answer['detail'][:40]}",
            )
        else:
            self.report.ok(name, said)

    def judge_fatal(self, probe, user, arguments, control_through):
        """It may end its own sandbox, and that is told; the host and the neighbour see nothing of it."""
        sandbox = self.create()
        observer = verdict.Observer(self.world)
        try:
            outcome = sandbox.run([PROBE, "run", probe, *arguments], user=user, timeout=30)
            text = outcome.stdout.decode(errors="replace")
        except (ApiError, *LOST_CONNECTION) as error:
            text = f"{type(error).__name__}"
        evidence = observer.evidence(probe, {"detail": text})
        through = bool(evidence) or ('"REACHED"' in text and not probe.startswith(verdict.EFFECT_ONLY))
        fine = self.neighbour.run(["/bin/true"]).exit_code == 0
        killed = sandbox.kill()
        row = self.api.call("GET", f"/v1/sandboxes/{sandbox.id}").json()
        told = row["outcome"] in (TOLD_ENDS if killed == 404 else ("killed",))
        said = f"{text[-200:]!r} {row['outcome']} {row['reason']!r} {evidence} neighbour {fine}"
        if control_through:
            self.report.check(f"{probe} as {user}", not through and told and fine, said)
        else:
            self.report.skip(f"{probe} as {user}", "vacuous: the control was stopped, too")

    def probes(self):
        self.known_seen = set()
        self.neighbour.write("/home/user/neighbour-canary", self.world.secret("neighbour-file").encode())
        control = Control(self.programs, self.world, control_arguments(self.world))
        self.world.gateway_address(True)
        controls = {probe: control.run(probe) for probe in control.list()}
        control_inotify = control.inotify()
        self.world.gateway_address(False)
        self.world.forget_hits()
        arguments = self.sandbox_arguments()
        daemons = self.instance.daemons()
        for probe, (through, answer, _) in controls.items():
            for user in ("root", "user"):
                try:
                    if user in FATAL[self.tier].get(probe, ()):
                        self.judge_fatal(probe, user, arguments, through)
                    else:
                        self.judge(probe, user, arguments, through, answer)
                    self.world.forget_hits()
                except Exception as error:
                    self.report.fail(f"{probe} as {user}", f"{type(error).__name__}: {error}")
        self.agent_secrets_are_there()
        self.inotify(control_inotify)
        self.random_calls()
        self.report.check(
            "probes.daemons_alive",
            daemons == self.instance.daemons(),
            "a daemon died or appeared",
        )
        self.report.check(
            "probes.known_is_current",
            self.known_seen >= set(self.known),
            f"known.json lists what is blocked: {set(self.known) - self.known_seen}",
        )
        self.report.check(
            "probes.known_is_short",
            len(self.known) < MAX_KNOWN[self.tier],
            f"{len(self.known)} probes get through on purpose",
        )

    def agent_secrets_are_there(self):
        """The memory probes mean something only if the agent's memory does hold the token."""
        token = self.sandbox.token.encode()
        memory = kernel.memory_of(self.guest) if self.tier == "container" else self.kernel_memory()
        self.report.check(
            "K14.control", any(token in block for block in memory), "the host finds the access token in the agent's memory"
        )
        if "K04.maps" in self.known:
            return
        # The daemon's first work for another user closes its memory by itself; it has to be closed before.
        fresh = self.api.create(60, template=self.template)
        told = fresh.run(["/bin/cat", "/proc/1/maps"], user="root").stdout
        self.report.check("K14.fresh", not told, f"root reads the memory map of an idle agent: {told[:60]!r}")
        fresh.kill()

    def kernel_memory(self):
        """Memory of programs of a tier with a kernel of its own: that kernel keeps it in a file that has no name."""
        for pid in self.instance.sandbox_pids(self.sandbox.id):
            for fd, target in kernel.open_descriptors(pid).items():
                if target.startswith("/memfd:runsc-memory"):
                    yield from kernel.data_of_file(f"/proc/{pid}/fd/{fd}")

    def inotify(self, control_detail):
        if int(control_detail.split()[0]) > 0:
            self.report.skip("K30.inotify", f"vacuous: a second control still gets {control_detail}")
            return
        hold = "/tmp/escape-hold"
        self.sandbox.run(f"rm -f {hold}", user="root")
        _, stream = self.sandbox.background([PROBE, "run", "K30.inotify", f"hold_file={hold}"], user="root")
        wait_until(
            lambda: self.sandbox.run(["/bin/ls", hold], user="root").exit_code == 0,
            5,
            "the quota to be taken",
        )
        outcome = self.neighbour.run([PROBE, "run", "K30.inotify"], user="root")
        self.sandbox.run(f"rm -f {hold}", user="root")
        stream.close()
        detail = json.loads(outcome.stdout)["detail"]
        self.report.check(
            "K30.inotify",
            int(detail.split()[0]) > 0,
            f"the neighbour gets {detail} while another sandbox holds its own",
        )

    def random_calls(self):
        """K33: the oracle is the kernel's log, and it is calibrated by a line of our own."""
        log = os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
        os.lseek(log, 0, os.SEEK_END)

        def alarms():
            found = []
            while True:
                try:
                    line = os.read(log, 8192).decode(errors="replace")
                except BlockingIOError:
                    return found
                except OSError:
                    continue
                if any(
                    word in line
                    for word in (
                        "WARNING:",
                        "BUG:",
                        "Oops",
                        "hung task",
                        "KASAN",
                        "general protection fault:",
                    )
                ):
                    found.append(line)

        os.write(log, b"WARNING: escape test calibrates its oracle\n")
        try:
            wait_until(alarms, 5, "the kernel's log to show our line")
            self.report.ok("K33.control", "the oracle sees a warning")
        except TimeoutError as error:
            self.report.fail("K33.control", str(error))
        for _ in range(20 if self.options.long else 1):
            seed = random.randrange(1 << 30)
            for user in ("root", "user"):
                outcome = self.sandbox.run([PROBE, "run", "K33", f"seed={seed}"], user=user, timeout=30)
                seen = alarms()
                self.report.check(
                    f"K33.random_calls as {user}",
                    not seen and self.agent_alive(),
                    f"seed {seed}: {seen[:1]} {outcome.status}",
                )
        os.close(log)

    # --- the whole --------------------------------------------------------------------------------------------

    def archives(self):
        Archives(self.options.programs, self.world, self.report).run()

    def surface(self):
        Surface(self.world, self.instance, self.sandbox, self.neighbour, self.report).all(
            120 if self.options.long else 6
        )

    def tenants(self):
        Tenants(self.world, self.instance, self.api, self.sandbox, self.report).run()

    def posture(self):
        """The same before and after all that a sandbox lives through, and what the expected document says."""
        self.fresh_posture()
        neighbour = self.instance.guest_pid(self.neighbour.id)
        collector = posture.Collector(self.instance, self.sandbox, neighbour)
        streams = [self.sandbox.background([PROBE, "threads", "8"], user=user) for user in ("root", "user")]
        kinds = {"guest": 1, "root": streams[0][0], "user": streams[1][0]}
        limits = collector.group_limits()
        if self.options.print_posture:
            print(json.dumps(limits, indent=1))
        before = None
        for stage, act in (
            ("after exec", lambda: None),
            ("after pause and resume", self.pause_and_resume),
            ("after restart of the daemons", self.restart_daemons),
            ("after pause and resume by the new daemons", self.pause_and_resume),
        ):
            act()
            host_pids = {
                int(kernel.status_fields(pid)["NSpid"].split()[-1]): pid
                for pid in self.instance.sandbox_pids(self.sandbox.id)
            }
            for kind, inside in kinds.items():
                self.compare(collector, stage, kind, host_pids[inside])
            seen = {kind: collector.whole(host_pids[inside]) for kind, inside in kinds.items()}
            seen.update(ids={kind: posture.namespace_ids(host_pids[inside]) for kind, inside in kinds.items()})
            before = before or seen
            self.diff(f"posture.same {stage}", before, seen)
            self.diff(f"posture.group {stage}", posture.EXPECTED["group"], collector.group_limits())
        self.diff("posture.group", posture.EXPECTED["group"], limits)
        for user in ("root", "user"):
            outcome = self.sandbox.run([PROBE, "posture"], user=user)
            self.diff(f"posture.self.{user}", posture.EXPECTED["self"], json.loads(outcome.stdout or b"{}"))
        for _, stream in streams:
            stream.close()

    def fresh_posture(self):
        """Of a sandbox in which nothing was ever run; then with a first command, which changes nothing of pid 1."""
        sandbox = self.api.create(600)
        collector = posture.Collector(self.instance, sandbox, self.instance.guest_pid(self.neighbour.id))
        guest = self.instance.guest_pid(sandbox.id)
        self.compare(collector, "after create", "guest", guest)
        before, groups = collector.whole(guest), collector.group_limits()
        self.diff("posture.group after create", posture.EXPECTED["group"], groups)
        sandbox.run(["/bin/true"], user="root")
        self.diff("posture.same after the first command", before, collector.whole(guest))
        self.diff("posture.group.same after the first command", groups, collector.group_limits())
        sandbox.kill()

    def pause_and_resume(self):
        self.api.expect((204,), "POST", f"/sandboxes/{self.sandbox.id}/pause", {})
        self.api.expect((200, 201), "POST", f"/sandboxes/{self.sandbox.id}/connect", {"timeout": 3600})

    def restart_daemons(self):
        self.instance.control.kill()
        self.instance.runner.kill()
        self.instance.start()
        self.instance.wait_ready()
        self.instance.wait_whole(self.api, 30)

    def second_instance(self):
        """With no sandboxes started ahead, so that each create passes through the launcher while it is watched."""
        if self.instance.name == "escmut":
            return
        self.instance.stop()
        self.instance = Instance(
            self.options.programs,
            self.folder + "/mutants",
            name="escmut",
            slot_first=3500,
            slot_count=60,
            ready=0,
            runsc="none",
        )
        os.makedirs(self.instance.folder)
        self.instance.prepare()
        self.api = self.instance.start_first()
        self.neighbour = self.create()

    def launches(self):
        arguments = probe_arguments(
            self.world, data_dir=self.instance.data_dir, api_port=self.instance.port, memory_prefix="none"
        )
        return Mutants(
            self.instance, self.api, self.neighbour, self.programs["escape_probe"], arguments, self.report
        )

    def mutants(self):
        self.second_instance()
        self.launches().run()

    def weakened(self):
        self.second_instance()
        self.take(self.create())
        self.arguments = self.sandbox_arguments()
        self.peers = {"root": (0, None), "user": (0, None)}
        self.sandbox.kill()
        Weakened(self, self.launches(), self.neighbour).run()

    def compare(self, collector, stage, kind, pid):
        actual = collector.whole(pid)
        if self.options.print_posture:
            print(json.dumps({kind: actual}, indent=1))
        self.diff(f"posture.{kind} {stage}", posture.merged(kind), actual)
        for task in os.listdir(f"/proc/{pid}/task"):
            per_thread = collector.process(pid, task)
            expected = {key: value for key, value in posture.merged(kind).items() if key in per_thread}
            self.diff(f"posture.{kind} thread {stage}", expected, per_thread)

    def diff(self, name, expected, actual):
        found = posture.differences(expected, actual)
        self.report.check(name, not found, "; ".join(found)[:1500])

    def tear_down(self):
        for step in (getattr(getattr(self, "instance", None), "stop", None), self.world.stop):
            if step is not None:
                step()
        if self.options.keep:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self):
        before = self.world_before = None
        try:
            self.set_up()
            before = self.world.facts()
            for part in self.options.only.split(","):
                self.report.part(part)
                getattr(self, part)()
            after = self.world.facts()
            changed = {
                key: after[key]
                for key in after
                if after[key] != before[key] and "shared-layer" not in key and "agent-program" not in key
            }
            self.report.check("host.unchanged", not changed, f"{changed}")
        except Exception as error:
            self.report.fail("harness", f"{type(error).__name__}: {error}")
            if self.options.verbose:
                raise
        finally:
            self.tear_down()
        return self.report.finish(f"escape of {self.tier}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", default=os.environ.get("ATOLL_PROGRAMS", os.path.join(HERE, "../../build/dev/bin"))
    )
    parser.add_argument("--tier", default="container", choices=sorted(PARTS))
    parser.add_argument("--runsc", default=os.environ.get("ATOLL_TEST_RUNSC", "none"))
    parser.add_argument("--only", help="default: all that the tier has")
    parser.add_argument("--long", action="store_true", help="races and random calls for minutes, not seconds")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the work folder")
    parser.add_argument(
        "--print-posture",
        action="store_true",
        help="print what was collected, to write the expected document",
    )
    options = parser.parse_args()
    options.programs = os.path.abspath(options.programs)
    options.only = options.only or PARTS[options.tier]
    if options.tier == "gvisor" and options.runsc == "none":
        print("SKIPPED escape of gvisor: there is no runsc (ATOLL_TEST_RUNSC)\n0 passed, 0 failed, 1 skipped")
        return 0
    if os.geteuid() != 0:
        print(
            "escape: needs root, to make namespaces and to look from outside\nSKIPPED escape: not root\n0 passed, 0 failed, 1 skipped"
        )
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken down
    ground.enter_private_host()
    return Harness(options).run()


if __name__ == "__main__":
    sys.exit(main())
