# SPDX-License-Identifier: Apache-2.0
"""One instance of Atoll for a test: its own folders, port, name and slots, and daemons that the test may kill.

It does what `atoll up` does, in the smallest way, because the tests need each daemon's pid, environment and end.
"""
import fcntl
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import kernel
from api import Api, wait_until

BASE_BUILD = "00000000-0000-4000-8000-000000000001"
TEMPLATES = "/var/lib/atoll/templates"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find_base_template():
    """The folder of a usable `base` build on this machine, or None."""
    wanted = os.environ.get("ATOLL_TEST_TEMPLATE")
    candidates = [os.path.realpath(wanted)] if wanted else [f"{TEMPLATES}/{BASE_BUILD}"]
    if not wanted and os.path.isdir(TEMPLATES):
        candidates += sorted(os.path.join(TEMPLATES, name) for name in os.listdir(TEMPLATES))
    for folder in candidates:
        if os.path.exists(folder + "/root.erofs"):
            return folder
    return None


def unlike_a_sandbox():
    """What a sandbox must not inherit: groups, and limits that differ from its own."""
    os.setgroups([0, 4])
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.setrlimit(
        resource.RLIMIT_MEMLOCK, (min(4 << 20, hard) if hard != resource.RLIM_INFINITY else 4 << 20, hard)
    )


def take_turn(name):
    """Two instances of one name would take each other's slots: waits until no other run has it, and holds it until the end."""
    lock = open(f"/run/lock/atoll-test-{name}", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for another run that uses the instance name {name}", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


# By comm; the daemons that a test starts itself are waited for by their Daemon.
ORPHANS = ("memfd:atoll", "atoll-guestd", "atoll-gvisor", "atoll-launcher", "atoll-visit", "qemu-system")


def reap_orphans():
    """Sandboxes whose launcher died come to us, as they come to the supervisor of `atoll up`: reaps them for ever."""
    PR_SET_CHILD_SUBREAPER = 36
    kernel.libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def loop():
        while True:
            for pid in kernel.children(os.getpid()):
                if kernel.read(f"/proc/{pid}/comm").startswith(ORPHANS):
                    try:
                        os.waitpid(pid, os.WNOHANG)
                    except ChildProcessError:
                        pass
            time.sleep(0.02)

    if not any(thread.name == "reaper" for thread in threading.enumerate()):
        threading.Thread(target=loop, name="reaper", daemon=True).start()


class Daemon:
    """One of the daemons: started, killed and started again by the test."""

    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, command, log
        self.process = None

    def start(self, environment=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=unlike_a_sandbox,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.running():
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def stop(self, seconds=20):
        """SIGTERM, and the truth: the exit status, or None when it had to be killed."""
        if not self.running():
            return self.process.returncode if self.process else 0
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Instance:
    def __init__(
        self,
        programs,
        folder,
        name="esc",
        slot_first=3500,
        slot_count=200,
        ready=4,
        template=None,
        runsc=None,
        gateway=None,
    ):
        self.programs, self.folder, self.name = programs, folder, name
        self.slot_first, self.slot_count = slot_first, slot_count
        self.ready = int(os.environ.get("ATOLL_TEST_READY", ready))  # sandboxes kept ready
        self.data_dir, self.run_dir = folder + "/data", folder + "/run"
        self.port = free_port()
        self.template = template or find_base_template()
        self.interpreter = os.environ.get("ATOLL_TEST_WITH_INTERPRETER")  # a build of code-interpreter-v1
        self.user = "atoll"
        # The tier of those who name none. Suites of gvisor say auto, which is what a user has.
        self.default_isolation = os.environ.get("ATOLL_TEST_DEFAULT_ISOLATION", "container")
        self.gateway_options = gateway  # flags of atoll-gateway; None: there is none, address rules alone decide
        self.gateway_port = free_port()
        self.runsc = runsc or os.environ.get("ATOLL_TEST_RUNSC", "none")
        self.turn = None
        self.runner = Daemon("runner", self.runner_command(), folder + "/runner.log")
        self.control = Daemon("control", self.control_command(), folder + "/control.log")
        self.gateway = Daemon("gateway", self.gateway_command(), folder + "/gateway.log")

    def shared(self):
        return ["--data-dir", self.data_dir, "--run-dir", self.run_dir]

    def runner_command(self):
        return [
            self.programs + "/atoll-runner",
            *self.shared(),
            "--instance",
            self.name,
            "--slot-first",
            str(self.slot_first),
            "--slot-count",
            str(self.slot_count),
            "--runsc",
            self.runsc,
            "--microvm-emulation",
            *(["--egress-port", str(self.gateway_port)] if self.has_gateway() else []),
        ]

    def has_gateway(self):
        return self.gateway_options is not None

    def gateway_command(self):
        return [
            self.programs + "/atoll-gateway",
            *self.shared(),
            "--user",
            self.user,
            "--port",
            str(self.gateway_port),
            *(self.gateway_options or []),
        ]

    def control_command(self):
        return [
            self.programs + "/atoll-control",
            *self.shared(),
            "--listen",
            f"127.0.0.1:{self.port}",
            "--user",
            self.user,
            "--pool-size",
            str(self.ready),
            "--default-isolation",
            self.default_isolation,
            "--first-use",
            *(["--gateway"] if self.has_gateway() else []),
        ]

    def prepare(self):
        """Folders as `atoll up` makes them, with the base template linked in. Waits for its turn."""
        if not self.template:
            sys.exit("there is no template 'base' on this machine: build it with `atoll-template build-base`")
        self.turn = take_turn(self.name)
        reap_orphans()
        account = self.account()
        for path, owner, mode in (
            (self.data_dir, 0, 0o755),
            (self.data_dir + "/control", account.pw_uid, 0o700),
            (self.data_dir + "/templates", 0, 0o755),
            (self.data_dir + "/disks", 0, 0o700),
            (self.run_dir, 0, 0o755),
            (self.run_dir + "/sandboxes", 0, 0o700),
        ):
            os.makedirs(path, exist_ok=True)
            os.chown(path, owner, account.pw_gid if owner else 0)
            os.chmod(path, mode)
        os.chmod(self.folder, 0o755)
        self.give_template(self.template)
        if self.interpreter:
            self.give_template(self.interpreter)
        self.give_machine_image()

    def give_template(self, folder):
        target = f"{self.data_dir}/templates/{os.path.basename(folder)}"
        if os.path.exists(target):
            return
        os.makedirs(target)
        here = os.stat(target).st_dev == os.stat(folder).st_dev
        for name in os.listdir(folder):
            (os.link if here else shutil.copy2)(f"{folder}/{name}", f"{target}/{name}")

    def give_machine_image(self):
        """The image that ATOLL_TEST_MACHINE names, for suites that run in the tier microvm."""
        image = os.environ.get("ATOLL_TEST_MACHINE")
        if image:
            os.makedirs(self.data_dir + "/machine", exist_ok=True)
            shutil.copy2(image, self.data_dir + "/machine/" + os.path.basename(image))

    def account(self):
        """Control's user, made when the machine does not have it yet: `atoll up` makes the same one."""
        try:
            return pwd.getpwnam(self.user)
        except KeyError:
            subprocess.run(
                [
                    "useradd",
                    "--system",
                    "--user-group",
                    "--no-create-home",
                    "--home-dir",
                    "/nonexistent",
                    "--shell",
                    "/usr/sbin/nologin",
                    self.user,
                ],
                check=True,
            )
            return pwd.getpwnam(self.user)

    def start(self):
        self.runner.start()
        if self.has_gateway():
            self.gateway.start()
        self.control.start()

    def start_first(self):
        """The first start: also names the base template, as `atoll up` does. Returns an Api with the first key."""
        self.start()
        self.wait_ready()
        api = self.api()
        body = {
            "name": "base",
            "buildId": os.path.basename(self.template),
            "poolSize": self.ready,
            "public": True,
            "user": "user",
            "workdir": "/home/user",
        }
        api.expect((200, 201), "POST", "/v1/templates", body)
        if self.interpreter:
            more = {"name": "code-interpreter-v1", "buildId": os.path.basename(self.interpreter), "memoryMB": 2048}
            api.expect((200, 201), "POST", "/v1/templates", {**body, **more, "poolSize": min(1, self.ready)})
        # Whether machines work here is found out by waiting for one, for 18 s at most, beside what the runner serves.
        self.wait_whole(api, 90 if os.environ.get("ATOLL_TEST_MACHINE") else 20)
        return api

    def wait_whole(self, api, seconds):
        """Until control and the runner have found each other and the pool is full; returns the seconds it took."""

        def whole():
            status = api.call("GET", "/v1/status").json()
            return (
                status["runner"]["connected"]
                and not status["host"]["beingTested"]
                and status["reconciled"]
                and status["sandboxes"]["ready"] >= self.ready
            )

        started = time.monotonic()
        wait_until(whole, seconds, f"instance {self.name} to be whole")
        return time.monotonic() - started

    def wait_ready(self, seconds=20):
        started = time.monotonic()
        wait_until(self.answers, seconds, f"control of instance {self.name} ({self.folder}/control.log)")
        return time.monotonic() - started

    def answers(self):
        try:
            return Api(self.port, "", timeout=2).call("GET", "/health").status == 204
        except OSError:
            return False

    def key(self):
        path = self.data_dir + "/control/bootstrap.key"
        return wait_until(lambda: (re.search(r"e2b_[0-9a-f]{40}", kernel.read(path)) or [None])[0], 10, path)

    def api(self, **more):
        return Api(self.port, self.key(), **more)

    def record(self, sandbox_id):
        return kernel.read(f"{self.run_dir}/sandboxes/{sandbox_id}")

    def sandbox_pids(self, sandbox_id):
        return sorted(kernel.cgroup_pids(self.name, sandbox_id))

    def guest_pid(self, sandbox_id):
        """The host's pid of the sandbox's pid 1."""
        for pid in self.sandbox_pids(sandbox_id):
            levels = kernel.status_fields(pid).get("NSpid", "").split()
            if levels and levels[-1] == "1":
                return pid
        return None

    def slot(self, pid):
        """The slot number, from the uid map of any process of the sandbox."""
        fields = kernel.read(f"/proc/{pid}/uid_map").split()
        return (int(fields[1]) - kernel.UID_BASE) // kernel.UIDS_PER_SLOT

    def inventory(self):
        return kernel.Inventory(self)

    def daemon_pids(self):
        found = []
        for daemon in (self.runner, self.control, self.gateway):
            if daemon.running():
                found += [daemon.pid, *kernel.descendants(daemon.pid)]
        return found

    def daemons(self):
        """The daemons themselves by name, without sandboxes and short helpers."""
        named = [(kernel.read(f"/proc/{pid}/comm").strip(), pid) for pid in self.daemon_pids()]
        return sorted(item for item in named if item[0] in ("atoll-control", "atoll-runner", "atoll-launcher"))

    def drain(self, api, seconds=30):
        """Ends every sandbox and takes the template away, so that the pool empties, too. What is left then is a leak."""
        for row in api.list():
            api.kill(row["sandboxID"])
        for template in api.call("GET", "/templates").json():
            api.call("DELETE", f"/templates/{template['templateID']}")

        def empty():
            counts = api.call("GET", "/v1/status").json()["sandboxes"]
            return counts["running"] == counts["ready"] == counts["ending"] == 0

        wait_until(empty, seconds, f"instance {self.name} to be empty")

    def stop(self):
        """Ends every sandbox through the API, then the daemons; then removes what a broken build left behind."""
        try:
            self.drain(self.api(timeout=10))
        except Exception as error:  # the daemons may be dead already: then the leftovers go below
            print(f"note: ending the sandboxes of {self.name}: {error}")
        self.control.stop()
        self.gateway.stop()
        self.runner.stop()
        self.sweep()
        if self.turn:
            self.turn.close()

    def sweep(self):
        """Removes every kernel object of this instance, whatever state it is in. For the end of a test only."""
        left = self.inventory()
        for pid in left.processes + left.strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for top, names in left.cgroups.items():
            for name in names:
                for folder, _, _ in os.walk(os.path.join(top, self.name, name), topdown=False):
                    for _ in range(50):
                        try:
                            os.rmdir(folder)
                            break
                        except OSError:
                            time.sleep(0.02)
        for top in kernel.hierarchies():
            if os.path.isdir(os.path.join(top, self.name)):
                try:
                    os.rmdir(os.path.join(top, self.name))
                except OSError:
                    pass
        for link in left.links:
            subprocess.run(["ip", "link", "delete", link], capture_output=True)
        subprocess.run(["nft", "delete", "table", "inet", self.name], capture_output=True)
        for where in reversed(kernel.mounts_below(self.folder)):
            subprocess.run(["umount", "-l", where], capture_output=True)
        for loop in left.loops:
            subprocess.run(["losetup", "-d", "/dev/" + loop], capture_output=True)
