# SPDX-License-Identifier: Apache-2.0
"""An instance of Atoll that is driven by the command alone, and a person at a terminal."""
import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
from instance import find_base_template  # noqa: E402

PROGRAMS = os.environ.get("ATOLL_PROGRAMS") or os.path.join(HERE, "../../build/dev/bin")
ATOLL = os.path.join(os.path.abspath(PROGRAMS), "atoll")


def wait_for(condition, what, seconds=20):
    """Waits for a state that nothing announces, and says what it waited for when it does not come."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"waited {seconds} s for {what}")
        select.select([], [], [], 0.02)


class World:
    """One instance and the home directory of its user."""

    def __init__(self, folder):
        self.folder = folder
        self.program = ATOLL
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("E2B_", "ATOLL_", "SUDO_"))}
        self.environment.update(HOME=folder + "/home", PATH=os.environ.get("PATH", ""), TERM="xterm")
        os.makedirs(folder + "/home")
        os.chmod(folder, 0o755)
        self.machine = ["--instance", "cli", "--data-dir", folder + "/data", "--run-dir", folder + "/run"]
        self.start = [*self.machine, "--listen", "127.0.0.1:0", "--slot-first", "3400", "--slot-count", "90", "--ready", "2",
                      "--default-isolation", "container", "--no-base"]

    def run(self, *words, stdin=None, **more):
        feed = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run([self.program, *words], capture_output=True, env=self.environment, timeout=120, **feed, **more)

    def ok(self, *words, **more):
        done = self.run(*words, **more)
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, f"atoll {' '.join(words)}: status {done.returncode}\n{said}"
        return done.stdout.decode()

    def spawn(self, *words, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([self.program, *words], env=self.environment, **more)

    def sandboxes(self):
        return self.ok("ps", "-q").split()

    def create(self, *words):
        return self.ok("create", "--lifetime", "10m", *words).strip()

    def daemons(self):
        told = json.loads(self.ok("status", "--json"))["daemons"]
        return {"supervisor": told["pid"], **{daemon["name"]: daemon["pid"] for daemon in told["daemons"]}}

    def register_base(self):
        """The base template of this machine, bound in as `atoll up` would have built it."""
        source = find_base_template()
        if source is None:
            return False
        target = f"{self.folder}/data/templates/{os.path.basename(source)}"
        os.makedirs(target, exist_ok=True)
        for name in os.listdir(source):
            same = os.stat(target).st_dev == os.stat(source).st_dev
            (os.link if same else shutil.copy2)(f"{source}/{name}", f"{target}/{name}")
        self.register("base", os.path.basename(source), poolSize=2)
        return True

    def register(self, name, build, **more):
        """Names a build whose files are in place, past the command."""
        variables = json.loads(self.ok("env", "--json"))
        body = {"name": name, "buildId": build, "public": True, **more}
        request = urllib.request.Request(variables["E2B_API_URL"] + "/v1/templates", json.dumps(body).encode(), method="POST",
                                         headers={"X-API-Key": variables["E2B_API_KEY"], "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 201


class Terminal:
    """A person at a terminal that runs `words`: types, and reads what the screen shows."""

    def __init__(self, world, *words):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], words, world.environment)

    def type(self, text):
        os.write(self.fd, text)

    def expect(self, text, seconds=20):
        limit = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < limit, f"{text} did not come, but {self.seen}"
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 4096)
        before, _, self.seen = self.seen.partition(text)
        return before

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self):
        """The exit status of the command."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)
