# SPDX-License-Identifier: Apache-2.0
"""atoll map: order, input, failures, lost sandboxes, interruption; and what atoll run says of one that it cannot keep."""
import json
import signal
import subprocess
import urllib.request

from cli_world import ATOLL, wait_for


def gives_output_in_the_order_of_the_input(world):
    # The first is the slowest.
    done = world.run("map", "-j", "4", "sh", "-c", "sleep 0.$((4 - {})); echo {} {}", stdin=b"1\n2\n3\n\n4\n")
    assert (done.returncode, done.stdout) == (0, b"1 1\n2 2\n3 3\n4 4\n"), done
    assert world.sandboxes() == []


def feeds_the_line_where_there_is_no_mark(world):
    done = world.run("map", "--json", "sh", "-c", "read x; echo got $x; [ $x = a ]", stdin=b"a\nb\n")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["input"], line["stdout"], line["exit_code"], line["attempts"]) for line in lines] == [
        ("a", "got a\n", 0, 1), ("b", "got b\n", 1, 1)], lines
    assert done.returncode == 1, "one program failed, and was not tried again"


def tries_again_when_the_sandbox_is_lost(world):
    running = subprocess.Popen([ATOLL, "map", "--json", "sh", "-c", "echo begun; sleep {}"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=world.environment)
    running.stdin.write(b"3\n")
    running.stdin.close()
    wait_for(world.sandboxes, "its sandbox")
    world.ok("kill", world.sandboxes()[0])
    out = running.stdout.read()
    assert running.wait(60) == 0, (out, running.stderr.read())
    line = json.loads(out)
    assert line["attempts"] == 2 and line["stdout"] == "begun\n", line


def does_not_repeat_what_is_refused(world):
    done = world.run("map", "--json", "-w", "/no/such/folder", "true", stdin=b"a\n")
    line = json.loads(done.stdout)
    assert done.returncode == 1 and line["attempts"] == 1 and "lost" not in line["error"], (line, done.stderr)
    assert b"lost" not in done.stderr, done.stderr


def waits_where_there_is_no_room(world):
    variables = json.loads(world.ok("env", "--json"))

    def post(path, body):
        headers = {"X-API-Key": variables["E2B_API_KEY"], "Content-Type": "application/json"}
        request = urllib.request.Request(variables["E2B_API_URL"] + path, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    tenant = post("/v1/tenants", {"name": "small", "maxSandboxes": 1})["id"]
    key = post("/v1/keys", {"name": "map", "tenant": tenant})["key"]
    small = {**world.environment, "ATOLL_API_URL": variables["E2B_API_URL"], "ATOLL_API_KEY": key}
    done = subprocess.run([ATOLL, "map", "-j", "3", "echo", "{}"], input=b"1\n2\n3\n4\n", capture_output=True, env=small,
                          timeout=120)
    assert (done.returncode, done.stdout) == (0, b"1\n2\n3\n4\n"), done


def says_that_output_is_missing(world):
    done = world.run("map", "sh", "-c", "head -c 17000000 /dev/zero | tr '\\0' {}", stdin=b"a\n")
    assert done.returncode == 0 and len(done.stdout) == 16 << 20, (done.returncode, len(done.stdout))
    assert b"a: output behind the first 16 MiB is missing" in done.stderr, done.stderr


def leaves_nothing_behind_when_it_is_interrupted(world):
    running = subprocess.Popen([ATOLL, "map", "sh", "-c", "sleep 60 # {}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=world.environment)
    running.stdin.write(b"1\n2\n")
    running.stdin.close()
    wait_for(lambda: len(world.sandboxes()) == 2, "two sandboxes")
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130
    wait_for(lambda: world.sandboxes() == [], "no sandbox")


def run_says_when_it_cannot_keep_a_sandbox(world):
    done = world.run("run", "--keep", "--lifetime", "48h", "true")
    [sandbox] = world.sandboxes()
    world.ok("kill", sandbox)
    assert done.returncode == 125 and sandbox.encode() in done.stderr, done.stderr


TESTS = [gives_output_in_the_order_of_the_input, feeds_the_line_where_there_is_no_mark, tries_again_when_the_sandbox_is_lost,
         does_not_repeat_what_is_refused, waits_where_there_is_no_room, says_that_output_is_missing,
         leaves_nothing_behind_when_it_is_interrupted, run_says_when_it_cannot_keep_a_sandbox]
