# SPDX-License-Identifier: Apache-2.0
"""atoll template: lists, builds, and what changes of a build that is registered."""
import json
import os
import shutil


def make_tree(world, name):
    """A root file system with a shell, and with its name in it."""
    tree = f"{world.folder}/{name}"
    os.makedirs(tree + "/bin")
    shutil.copy("/bin/sh", tree + "/bin/sh")
    with open(tree + "/name", "w") as file:
        file.write(name)
    return tree


def templates_are_listed(world):
    assert "base" in world.ok("template", "list", "-q").split()
    assert world.run("template", "remove", "no-such").returncode == 125


def template_build_goes_into_the_folder_of_its_installation(world):
    tree = make_tree(world, "rootfs")
    made = json.loads(world.ok("template", "build", "mine", "--from", tree, "--json"))  # no --data-dir
    assert os.path.exists(f"{world.folder}/data/templates/{made['build']}/root.erofs")
    assert "mine" in world.ok("template", "list", "-q").split()
    world.ok("template", "remove", "mine")


def a_build_that_is_registered_changes_in_what_can_change(world):
    def build(*words):
        return json.loads(world.ok("template", "build", "base", "--json", *words))

    def shown():
        return next(row for row in json.loads(world.ok("template", "list", "--json")) if row["names"] == ["base"])
    before = shown()
    again = build("--min-isolation", "container")
    assert (again["build"], again["changed"]) == (before["buildID"], True), again
    assert shown()["minIsolation"] == "container", shown()
    refused = world.run("template", "build", "base", "--memory", "300M", "--ready", "1")
    assert refused.returncode == 125 and b"another memory" in refused.stderr, refused.stderr
    assert (shown()["poolSize"], shown()["memoryMB"]) == (before["poolSize"], before["memoryMB"]), shown()
    assert "1 kept ready" in world.ok("template", "set", "base", "--ready", "1") and shown()["poolSize"] == 1
    assert not build()["changed"] and shown()["poolSize"] == 1
    assert build("--ready", str(before["poolSize"]))["changed"] and shown()["poolSize"] == before["poolSize"]
    world.ok("template", "set", "base", "--min-isolation", "none")


TESTS = [templates_are_listed, template_build_goes_into_the_folder_of_its_installation,
         a_build_that_is_registered_changes_in_what_can_change]
