# SPDX-License-Identifier: Apache-2.0
"""Templates that are built when they are first asked for: two who ask, failures, and kills of everybody in the middle.

The program that builds is played by a script, which lies where the command looks for its daemons: beside itself.
"""
import contextlib
import json
import os
import shutil
import signal
import tempfile

from cli_world import PROGRAMS, World, find_base_template, wait_for

NAME = "code-interpreter-v1"
OWN = "00000000-0000-4000-8000-000000000001"  # a build of the operator

# Says that it has begun, and does what it is told through a pipe.
BUILDER = """#!/bin/sh
echo $$ >>{folder}/builds
echo '{{"event":"progress","percent":45,"text":"installing the packages"}}'
read -r answer <{folder}/go
echo "$answer"
"""
DONE = '{{"event":"done","build":"{}","name":"' + NAME + '","sizeBytes":1,"memoryMB":512,"cached":false}}'
FAILED = '{"event":"error","code":"internal","message":"no mirror answers","hint":"look at the network"}'


class BuildWorld(World):
    """An instance of its own, whose template program waits for a word of the test."""

    def __init__(self, folder):
        super().__init__(folder)
        os.makedirs(folder + "/bin")
        for name in os.listdir(PROGRAMS):
            if name.startswith("atoll") and name != "atoll-template" and not name.endswith("_test"):
                self.place(f"{PROGRAMS}/{name}", f"{folder}/bin/{name}")
        with open(folder + "/bin/atoll-template", "w") as script:
            script.write(BUILDER.format(folder=folder))
        os.chmod(folder + "/bin/atoll-template", 0o755)
        os.mkfifo(folder + "/go")
        self.program = folder + "/bin/atoll"
        self.machine[1] = "cli3"
        self.start = [*self.machine, *self.start[len(self.machine):]]
        self.start[self.start.index("--slot-first") + 1] = "3490"
        self.start[self.start.index("--slot-count") + 1] = "10"
        self.start[self.start.index("--ready") + 1] = "0"
        self.build = os.path.basename(find_base_template())

    @staticmethod
    def place(source, target):
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    def put_build_in_place(self, build=None):
        source, target = find_base_template(), f"{self.folder}/data/templates/{build or self.build}"
        os.makedirs(target)
        for name in os.listdir(source):
            self.place(f"{source}/{name}", f"{target}/{name}")

    def builds(self):
        """The pids of all that have begun."""
        try:
            with open(self.folder + "/builds") as lines:
                return [int(line) for line in lines]
        except FileNotFoundError:
            return []

    def answer(self, line):
        with open(self.folder + "/go", "w") as pipe:
            pipe.write(line + "\n")

    def ask(self):
        return self.run("create", "--lifetime", "10m", "--template", NAME)

    def refused(self, *words):
        done = self.ask()
        said = done.stderr.decode()
        assert done.returncode == 125 and all(word in said for word in words), (done.returncode, words, said)

    def is_built(self):
        return NAME in self.ok("template", "list", "-q").split()

    def note(self):
        return f"{self.folder}/data/templates/.first-use/{NAME}"


@contextlib.contextmanager
def build_world():
    folder = tempfile.mkdtemp(prefix="atoll-cli-build-")
    world = BuildWorld(folder)
    try:
        world.ok("up", *world.start)
        world.put_build_in_place()
        yield world
        assert "nothing is left" in world.ok("down", *world.machine)
    finally:
        world.run("down", *world.machine)
        shutil.rmtree(folder, ignore_errors=True)


def gone(pid):
    """Whether nothing of it runs any more; one that nobody has waited for yet does not run."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def a_template_is_built_when_it_is_first_asked_for(_):
    with build_world() as world:
        asking = [world.spawn("create", "--template", NAME) for _ in range(2)]
        for each in asking:
            _, said = each.communicate(timeout=60)
            assert each.returncode == 125 and b"try again" in said, said
        wait_for(world.builds, "the build")
        world.refused("is being built", "45 % (installing the packages)")
        assert f"{NAME} is being built: 45 % (installing the packages)" in world.ok("status")
        assert b"45 %" in world.run("template", "list").stderr
        # Neither control's end nor the supervisor's ends the build, or begins another one.
        daemons = world.daemons()
        for name in ("control", "supervisor"):
            os.kill(daemons[name], signal.SIGKILL)
        wait_for(lambda: gone(daemons["supervisor"]), "the supervisor's end")
        world.ok("up", *world.start)
        assert world.daemons()["builder"] == daemons["builder"]
        world.refused("45 %")
        world.answer(DONE.format(world.build))
        wait_for(world.is_built, "the template")
        done = world.ask()
        assert done.returncode == 0, done.stderr
        wait_for(lambda: "builder" not in world.daemons(), "the builder's end")
        assert len(world.builds()) == 1, "two who ask, one build"
        assert not os.path.exists(world.note()) and "is being built" not in world.ok("status")
        assert os.listdir(f"{world.folder}/data/control/wanted") == []


def a_build_that_fails_says_why_and_is_tried_again_later(_):
    with build_world() as world:
        world.ask()
        wait_for(world.builds, "the build")
        world.answer(FAILED)
        wait_for(lambda: "could not be built" in world.ok("status"), "the failure")
        world.refused("no mirror answers (look at the network)", "/log/template.log", "atoll template build")
        assert b"no mirror answers" in world.run("template", "list").stderr
        assert len(world.builds()) == 1 and "builder" not in world.daemons(), "who asks too early begins nothing"
        # The time comes.
        with open(world.note()) as note:
            later = [line if not line.startswith("not_before") else "not_before 0\n" for line in note]
        with open(world.note(), "w") as note:
            note.writelines(later)
        world.refused("try again")
        wait_for(lambda: len(world.builds()) == 2, "the second try")
        world.answer(DONE.format(world.build))
        wait_for(world.is_built, "the template")
        assert world.ask().returncode == 0


def a_builder_that_is_killed_is_started_again(_):
    with build_world() as world:
        world.ask()
        wait_for(world.builds, "the build")
        os.kill(world.daemons()["builder"], signal.SIGKILL)
        wait_for(lambda: gone(world.builds()[0]), "the end of what it had started")
        wait_for(lambda: len(world.builds()) == 2, "the next one")
        world.refused("45 %")
        # Everything is killed, and what comes then knows of no build: it is begun once more.
        killed = world.daemons().values()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: all(gone(pid) for pid in [*killed, world.builds()[1]]), "the end of all, and of what it had started")
        world.ok("up", *world.start)
        wait_for(lambda: len(world.builds()) == 3, "the third one")
        world.answer(DONE.format(world.build))
        wait_for(world.is_built, "the template")
        assert world.ask().returncode == 0
        # `down` ends one that runs.
        template = json.loads(world.ok("template", "remove", "--json", NAME))
        assert template["name"] == NAME
        world.ask()
        wait_for(lambda: len(world.builds()) == 4, "a build of what was removed")
        running = world.daemons()["builder"]
        world.ok("down", *world.machine)
        assert gone(running) and gone(world.builds()[3])
        world.ok("up", *world.start)
        wait_for(lambda: len(world.builds()) == 5, "what is asked for outlives a stop")


def a_template_of_ones_own_is_not_replaced(_):
    with build_world() as world:
        world.ask()
        wait_for(world.builds, "the build")
        world.put_build_in_place(OWN)
        world.register(NAME, OWN, poolSize=0, memoryMB=128)
        world.answer(DONE.format(world.build))
        wait_for(lambda: "builder" not in world.daemons(), "the builder's end")
        shown = [row for row in json.loads(world.ok("template", "list", "--json")) if row["names"] == [NAME]]
        assert [(row["buildID"], row["memoryMB"]) for row in shown] == [(OWN, 128)], shown
        assert not os.path.exists(world.note()) and os.listdir(f"{world.folder}/data/control/wanted") == []
        with open(f"{world.folder}/data/log/builder.log") as log:
            assert "it stays, and the build is not used" in log.read()


def without_it_the_command_is_told(_):
    with build_world() as world:
        world.ok("down", *world.machine)
        world.ok("up", *world.start, "--no-first-use")
        world.refused("sudo atoll template build code-interpreter-v1")
        assert world.builds() == [] and "builder" not in world.daemons()


TESTS = [a_template_is_built_when_it_is_first_asked_for, a_build_that_fails_says_why_and_is_tried_again_later,
         a_builder_that_is_killed_is_started_again, a_template_of_ones_own_is_not_replaced, without_it_the_command_is_told]
