#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command, as a person and a script use it, on an instance of its own: `atoll up` to `atoll down`.

Goal: each subcommand does what its --help says, exit codes can be trusted, and killing any daemon loses nothing.
Method: the real command and daemons; own folders, a free port, slots 3400 to 3499, instances `cli`, `cli2` and `cli3`.
"""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import cli_first_use
import cli_isolation
import cli_map
import cli_templates
from cli_sleep import sleeps_without_work
from cli_world import ATOLL, Terminal, World, wait_for

TESTS = [*cli_isolation.TESTS, *cli_map.TESTS, *cli_templates.TESTS, sleeps_without_work, *cli_first_use.TESTS]


def test(function):
    TESTS.append(function)
    return function


# ---- up, status, env ----

@test
def a_second_up_says_that_atoll_runs(world):
    before = world.daemons()
    done = world.run("up", *world.start)
    assert done.returncode == 0 and b"runs already" in done.stderr, done.stderr
    assert world.daemons() == before


@test
def up_tells_which_settings_are_not_in_force(world):
    before = world.ok("env", "--tls")
    done = world.run("up", *world.start, "--domain", "other.example", "--plain", "anywhere")
    assert done.returncode == 0, done.stderr
    assert b"other settings than asked for: --plain loopback --domain atoll.localhost" in done.stderr, done.stderr
    assert world.ok("env", "--tls") == before, "what is noted for the user is what runs"
    assert b"other settings" not in world.run("up", *world.start).stderr
    taken = world.run("up", "--instance", "cli2", *world.start[2:])
    assert taken.returncode == 125 and b"run directory of instance 'cli'" in taken.stderr, taken.stderr


@test
def up_stores_the_key_for_its_user_only(world):
    path = world.folder + "/home/.config/atoll/credentials.json"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", json.load(open(path))["instances"]["cli"]["api_key"])


@test
def env_can_be_evaluated_by_a_shell(world):
    script = f'eval "$({ATOLL} env)"; echo "$E2B_API_URL $E2B_SANDBOX_URL $E2B_API_KEY"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, env=world.environment, check=True).stdout.decode().split()
    assert shown[0].startswith("http://127.0.0.1:") and shown[1] == shown[0] and shown[2].startswith("e2b_"), shown


@test
def env_tls_names_a_domain_and_a_certificate(world):
    lines = json.loads(world.ok("env", "--tls", "--json"))
    assert lines["E2B_DOMAIN"].startswith("atoll.localhost:") and "E2B_API_URL" not in lines
    assert "BEGIN CERTIFICATE" in open(lines["NODE_EXTRA_CA_CERTS"]).read()
    assert world.ok("ca", "--pem") == open(lines["NODE_EXTRA_CA_CERTS"]).read()


@test
def the_command_works_over_tls(world):
    lines = json.loads(world.ok("env", "--tls", "--json"))
    url = "https://" + lines["E2B_DOMAIN"]
    environment = {**world.environment, "ATOLL_API_URL": url, "ATOLL_API_KEY": lines["E2B_API_KEY"],
                   "ATOLL_CA_FILE": lines["NODE_EXTRA_CA_CERTS"]}
    shown = subprocess.run([ATOLL, "run", "echo", "hi"], capture_output=True, env=environment, stdin=subprocess.DEVNULL)
    assert shown.stdout == b"hi\n", shown.stderr
    environment["ATOLL_CA_FILE"] = ""
    refused = subprocess.run([ATOLL, "ps"], capture_output=True, env=environment)
    assert refused.returncode == 125, "a certificate that nobody vouches for must be refused"
    assert b"ATOLL_CA_FILE" in refused.stderr, refused.stderr


@test
def a_key_of_another_service_is_not_used(world):
    environment = {**world.environment, "E2B_API_KEY": "e2b_" + "0" * 40}
    assert subprocess.run([ATOLL, "ps"], capture_output=True, env=environment).returncode == 0


# ---- run ----

@test
def run_streams_and_destroys(world):
    done = world.run("run", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n"), done
    assert world.sandboxes() == []


@test
def run_passes_input_and_environment(world):
    done = world.run("run", "-e", "WHO=world", "sh", "-c", 'echo "$(cat) $WHO"', stdin=b"hello")
    assert done.stdout == b"hello world\n", done


@test
def run_tells_how_the_command_could_not_be_run(world):
    assert world.run("run", "no-such-command").returncode == 127
    assert world.run("run", "/etc/passwd").returncode == 126
    assert world.run("run", "--template", "no-such-template", "true").returncode == 125


@test
def run_ends_a_command_that_takes_too_long(world):
    done = world.run("run", "--timeout", "1s", "sleep", "60")
    assert done.returncode == 124 and b"time limit" in done.stderr, done


@test
def run_tells_of_a_signal(world):
    assert world.run("run", "sh", "-c", "kill -SEGV $$").returncode == 139


@test
def run_gives_events_as_json(world):
    lines = [json.loads(line) for line in world.ok("run", "--json", "sh", "-c", "echo a; printf '\\377'").splitlines()]
    assert lines[-1] == {"event": "end", "outcome": "exited", "exit_code": 0}
    assert any(line.get("text", "").startswith("a\n") or "base64" in line for line in lines)


@test
def run_passes_signals_on_and_tidies_up(world):
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        process = world.spawn("run", "sh", "-c", "echo ready; sleep 600")
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        process.communicate(timeout=20)
        assert process.returncode == status, (number, process.returncode)
    assert world.sandboxes() == []


@test
def a_second_signal_kills_what_ignores_the_first(world):
    process = world.spawn("run", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 1; done")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # two of one kind could merge into one
    process.communicate(timeout=20)
    assert process.returncode in (130, 143) and world.sandboxes() == []


@test
def run_ends_when_nobody_reads(world):
    process = world.spawn("run", "yes")
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(20) == 141 and world.sandboxes() == []


@test
def run_keep_leaves_the_sandbox(world):
    done = world.run("run", "--keep", "--lifetime", "10m", "sh", "-c", "echo kept > mark")
    [sandbox] = world.sandboxes()
    assert sandbox.encode() in done.stderr
    assert world.ok("exec", sandbox, "cat", "mark") == "kept\n"
    world.ok("kill", sandbox)


# ---- sandboxes ----

@test
def create_ps_exec_kill(world):
    sandbox = world.create("-m", "task=42", "-e", "MODE=test")
    assert world.ok("ps", "-q", "-m", "task=42").split() == [sandbox]
    assert world.ok("ps", "-q", "-m", "task=43") == ""
    assert world.ok("exec", sandbox, "sh", "-c", "echo $MODE").strip() == "test"
    assert world.ok("exec", "-u", "root", "-w", "/tmp", sandbox, "sh", "-c", "id -u; pwd").split() == ["0", "/tmp"]
    [row] = json.loads(world.ok("ps", "--json"))
    assert row["sandboxID"] == sandbox and row["metadata"] == {"task": "42"}
    world.ok("kill", sandbox)
    again = world.run("kill", sandbox)
    assert again.returncode == 125 and b"there is no sandbox" in again.stderr
    assert world.run("exec", sandbox, "true").returncode == 125


@test
def pause_and_resume(world):
    sandbox = world.create("-e", "MODE=test")
    boot = world.ok("exec", sandbox, "sh", "-c", "echo kept > note; cat /proc/sys/kernel/random/boot_id")
    assert world.ok("pause", sandbox).strip() == sandbox
    again = world.run("pause", sandbox)
    assert again.returncode == 125 and b"is paused" in again.stderr
    world.ok("resume", sandbox)
    script = "cat note; echo $MODE; cat /proc/sys/kernel/random/boot_id"
    assert world.ok("exec", sandbox, "sh", "-c", script) == "kept\ntest\n" + boot
    world.ok("pause", "--disk-only", sandbox)
    world.ok("resume", "--lifetime", "10m", sandbox)
    assert world.ok("exec", sandbox, "sh", "-c", script).startswith("kept\ntest\n")
    world.ok("kill", sandbox)


@test
def ps_of_a_sandbox_lists_its_processes(world):
    sandbox = world.create()
    process = world.spawn("exec", sandbox, "sh", "-c", "echo ready; sleep 600")
    process.stdout.readline()
    shown = world.ok("ps", sandbox)
    assert "sleep 600" in shown, shown
    world.ok("kill", sandbox)
    process.communicate(timeout=30)
    assert process.returncode != 0


@test
def snapshots_start_sandboxes_and_show_what_they_take(world):
    sandbox = world.create()
    world.ok("exec", sandbox, "sh", "-c", "echo kept >kept")
    unnamed = world.ok("snapshot", "create", sandbox).strip()
    named = world.ok("snapshot", "create", sandbox, "--name", "installed").strip()
    assert named == "installed:default" and unnamed.endswith(":default"), (named, unnamed)
    world.ok("kill", sandbox)
    assert set(world.ok("snapshot", "list", "-q").split()) == {named, unnamed}
    rows = json.loads(world.ok("snapshot", "list", "--json"))
    assert all(row["sizeBytes"] > 0 and row["sandboxID"] == sandbox for row in rows), rows
    assert world.ok("run", "-T", "installed", "cat", "kept").strip() == "kept"
    assert "removed 0 copies" in world.ok("snapshot", "gc")
    assert world.ok("snapshot", "rm", "installed", unnamed).split() == ["installed", unnamed]
    assert world.ok("snapshot", "list", "-q") == "" and world.run("snapshot", "rm", unnamed).returncode == 125


@test
def logs_tell_of_the_life(world):
    sandbox = world.create()
    assert "sandbox" in world.ok("logs", sandbox)
    world.ok("top", "--once")
    world.ok("kill", "--all")
    assert world.sandboxes() == []


@test
def logs_that_are_followed_end_with_the_end(world):
    sandbox = world.create()
    process = world.spawn("logs", "-f", sandbox)
    assert b"sandbox created" in process.stdout.readline()
    world.ok("kill", sandbox)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and b"event=sandbox.ended" in rest, rest
    absent = world.run("logs", "izzzzzzzzzzzzzzzzzzzz")
    assert absent.returncode == 125 and b"there is no sandbox izzzz" in absent.stderr, absent.stderr


@test
def shell_is_a_real_terminal(world):
    sandbox = world.create()
    terminal = Terminal(world, ATOLL, "shell", sandbox)
    terminal.expect(b"$")
    terminal.type(b"tty && echo done-$((1+1))\r")
    assert b"/dev/pts/" in terminal.expect(b"done-2")
    terminal.resize(40, 123)
    wait_for(lambda: world.ok("exec", sandbox, "sh", "-c", "stty size < /dev/pts/0 || true").strip() == "40 123", "the new size")
    terminal.type(b"echo sleeping-$((1+2)); sleep 600\r")
    terminal.expect(b"sleeping-3")
    # A signal that meets the shell's child before it has become another program is lost on it.
    wait_for(lambda: world.run("exec", sandbox, "sh", "-c", "grep -qx sleep /proc/[0-9]*/comm").returncode == 0, "sleep to run")
    terminal.type(b"\x03")
    terminal.expect(b"^C")
    terminal.expect(b"$ ")
    terminal.type(b"echo interrupted-$?\r")
    terminal.expect(b"interrupted-130")
    terminal.type(b"exit 3\r")
    assert terminal.end() == 3
    world.ok("kill", sandbox)


@test
def shell_can_be_left_and_survives_control(world):
    sandbox = world.create()
    terminal = Terminal(world, ATOLL, "shell", sandbox)
    terminal.expect(b"$")
    terminal.type(b"mark=still-here; echo ready-$((1+1))\r")
    terminal.expect(b"ready-2")
    os.kill(world.daemons()["control"], signal.SIGKILL)
    wait_for(lambda: world.run("status").returncode == 0, "control to come back")
    wait_for(lambda: not terminal_is_lost(terminal), "the terminal to answer again")
    terminal.type(b"echo $mark-$((2+2))\r")
    terminal.expect(b"still-here-4")
    terminal.type(b"\r~.")
    assert terminal.end() == 125
    assert "bash" in world.ok("ps", sandbox), "the shell in the sandbox goes on"
    world.ok("kill", sandbox)


@test
def shell_gives_the_terminal_back_whatever_happens(world):
    sandbox = world.create()
    script = f'old=$(stty -g); {ATOLL} shell {sandbox}; [ "$(stty -g)" = "$old" ] && echo restored-$((1+1))'
    for how in (b"exit\r", b"\r~.", signal.SIGABRT, signal.SIGSEGV):
        terminal = Terminal(world, "sh", "-c", script)
        terminal.expect(b"$")
        if isinstance(how, bytes):
            terminal.type(how)
        else:
            [child] = subprocess.run(["pgrep", "-P", str(terminal.pid)], capture_output=True).stdout.split()
            os.kill(int(child), how)
        terminal.expect(b"restored-2")
        terminal.end()
    world.ok("kill", sandbox)


def terminal_is_lost(terminal):
    """Types a command until its answer comes: input that falls into the gap is told of, not repeated."""
    terminal.type(b"echo again-$((3+3))\r")
    try:
        terminal.expect(b"again-6", 2)
        return False
    except AssertionError:
        return True


# ---- files ----

@test
def cp_keeps_modes_links_and_names(world):
    sandbox = world.create()
    tree = world.folder + "/tree"
    os.makedirs(tree + "/sub dir")
    open(tree + "/sub dir/ä 'file'", "w").write("content")
    open(tree + "/tool", "w").write("#!/bin/sh\necho works\n")
    os.chmod(tree + "/tool", 0o755)
    os.symlink("tool", tree + "/link")
    world.ok("cp", tree, sandbox + ":")
    assert world.ok("exec", sandbox, "tree/link") == "works\n"
    assert world.ok("exec", sandbox, "readlink", "tree/link") == "tool\n"
    world.ok("cp", sandbox + ":tree", world.folder + "/back")
    assert open(world.folder + "/back/sub dir/ä 'file'").read() == "content"
    assert os.access(world.folder + "/back/tool", os.X_OK)
    world.ok("kill", sandbox)


@test
def cp_goes_through_pipes(world):
    sandbox = world.create()
    data = os.urandom(3_000_000)
    world.ok("cp", "-", sandbox + ":blob", stdin=data)
    assert world.run("cp", sandbox + ":blob", "-").stdout == data
    assert world.run("cp", sandbox + ":absent", "-").returncode == 125
    world.ok("kill", sandbox)


@test
def cp_never_leaves_its_target(world):
    sandbox = world.create()
    traps = "mkdir evil && ln -s /etc evil/etc && ln -s /etc/hostname evil/name && mkfifo evil/fifo"
    world.ok("exec", sandbox, "sh", "-c", traps)
    done = world.run("cp", sandbox + ":evil", world.folder + "/evil")
    assert done.returncode == 1 and b"skipped" in done.stderr, done
    for root, folders, files in os.walk(world.folder + "/evil"):
        for name in folders + files:
            assert not os.path.islink(os.path.join(root, name)), name
    world.ok("kill", sandbox)


@test
def ls_shows_what_is_there(world):
    sandbox = world.create()
    world.ok("exec", sandbox, "sh", "-c", "mkdir -p d/e && echo x > d/e/f && printf '' > \"$(printf 'bad\\033name')\"")
    assert world.ok("ls", sandbox + ":d") == "e/\n"
    assert "e/f" in world.ok("ls", "--depth", "2", sandbox + ":d")
    assert "\x1b" not in world.ok("ls", sandbox + ":"), "a name must not reach the terminal as a control sequence"
    world.ok("kill", sandbox)


# ---- keys ----

@test
def keys_are_made_and_revoked(world):
    made = json.loads(world.ok("key", "create", "--json", "ci"))
    environment = {**world.environment, "ATOLL_API_URL": json.loads(world.ok("env", "--json"))["E2B_API_URL"],
                   "ATOLL_API_KEY": made["key"]}
    assert subprocess.run([ATOLL, "ps"], capture_output=True, env=environment).returncode == 0
    assert "ci" in world.ok("key", "list") and made["key"] not in world.ok("key", "list")
    world.ok("key", "revoke", made["id"])
    refused = subprocess.run([ATOLL, "ps"], capture_output=True, env=environment)
    assert refused.returncode == 125 and b"ATOLL_API_KEY" in refused.stderr, refused.stderr


# ---- failures ----

@test
def output_survives_the_death_of_the_daemons(world):
    process = world.spawn("run", "sh", "-c", "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 5")
    process.stdout.readline()
    daemons = world.daemons()
    os.kill(daemons["control"], signal.SIGKILL)
    wait_for(lambda: world.run("status").returncode == 0, "control to come back")
    os.kill(daemons["runner"], signal.SIGKILL)
    rest, errors = process.communicate(timeout=60)
    assert rest.decode().splitlines() == [f"line {i}" for i in range(1, 200)], errors
    assert process.returncode == 5
    wait_for(lambda: world.run("status").returncode == 0, "the runner to come back")


@test
def a_killed_supervisor_is_replaced_and_takes_over(world):
    sandbox = world.create()
    world.ok("exec", sandbox, "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > pid")
    before = world.daemons()
    os.kill(before["supervisor"], signal.SIGKILL)
    assert world.sandboxes() == [sandbox]
    assert b"took over" in world.run("up", *world.start).stderr
    after = world.daemons()
    assert after["runner"] == before["runner"] and after["control"] == before["control"]
    world.ok("exec", sandbox, "sh", "-c", "kill -0 $(cat pid)")
    world.ok("kill", sandbox)


@test
def a_sandbox_that_ends_is_told(world):
    sandbox = world.create()
    process = world.spawn("exec", sandbox, "sh", "-c", "echo ready; sleep 600")
    process.stdout.readline()
    world.ok("kill", sandbox)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 125 and errors, (process.returncode, errors)


@test
def wrong_use_is_refused_with_a_hint(world):
    for words, hint in ((["statsu"], b"did you mean 'status'"), (["run", "--tempalte", "x", "ls"], b"did you mean '--template'"),
                        (["exec", "nonsense", "ls"], b"not a sandbox id"), (["cp", "a", "b"], b"no operand is in a sandbox"),
                        (["create", "--lifetime", "soon"], b"not a duration"), (["up", "--listen", "nowhere"], b"--listen"),
                        (["create", "--lifetime", "0"], b"the lifetime in seconds must be from 1 to 86400"),
                        (["logs", "--level", "loud", "x"], b"{debug,info,warn,error}"),
                        (["shell", "izzzzzzzzzzzzzzzzzzzz"], b"atoll exec"), (["--json", "ps"], b"behind the command")):
        done = world.run(*words)
        assert done.returncode == 125 and hint in done.stderr, (words, done.stderr)
    config = world.folder + "/bad.toml"
    open(config, "w").write('instance = "x"\nlisen = "y"\n')
    done = world.run("up", "--config", config)
    assert done.returncode == 125 and b"bad.toml:2: unknown key 'lisen'" in done.stderr, done.stderr


@test
def up_refuses_a_directory_of_a_stranger(world):
    os.makedirs(world.folder + "/strange")
    os.chown(world.folder + "/strange", 1234, 1234)
    done = world.run("up", "--data-dir", world.folder + "/strange", "--run-dir", world.folder + "/run4", "--no-base")
    assert done.returncode == 125 and b"belongs to uid 1234" in done.stderr, done.stderr
    assert os.stat(world.folder + "/strange").st_uid == 1234 and os.listdir(world.folder + "/strange") == []


@test
def up_says_that_it_needs_root(world):
    program = shutil.copy(ATOLL, world.folder)  # this tree may lie in a folder that is closed to others, like /root
    done = subprocess.run([program, "up", *world.start], capture_output=True, env=world.environment, timeout=120,
                          user="nobody", group="nogroup", extra_groups=[])
    assert done.returncode == 125 and b"needs root" in done.stderr and b"sudo atoll up" in done.stderr, done.stderr


@test
def a_start_that_fails_names_the_daemon_and_leaves_nothing(world):
    taken = json.loads(world.ok("env", "--json"))["E2B_API_URL"].split("//")[1]
    other = ["--instance", "cli2", "--data-dir", world.folder + "/data2", "--run-dir", world.folder + "/run2"]
    done = world.run("up", *other, "--listen", taken, "--slot-first", "3490", "--slot-count", "9", "--no-base")
    assert done.returncode == 125 and b"control does not stay up" in done.stderr, done.stderr
    assert not os.path.exists(world.folder + "/run2/supervisor.json")
    left = subprocess.run(["pgrep", "-f", world.folder + "/data2"], capture_output=True).stdout
    assert left == b"", left


@test
def down_keep_leaves_sandboxes_for_the_next_up(world):
    sandbox = world.create()
    world.ok("exec", sandbox, "sh", "-c", "echo before > mark")
    assert "left running" in world.ok("down", "--keep", *world.machine)
    assert world.run("ps").returncode == 125
    world.ok("up", *world.start)
    assert world.sandboxes() == [sandbox]
    assert world.ok("exec", sandbox, "cat", "mark") == "before\n"


@test
def foreground_stays_and_tidies_up_at_a_signal(world):
    other = ["--instance", "cli2", "--data-dir", world.folder + "/data3", "--run-dir", world.folder + "/run3"]
    process = world.spawn("up", *other, "--listen", "127.0.0.1:0", "--slot-first", "3490", "--slot-count", "9", "--no-base",
                          "--no-gateway", "--foreground", "--json")
    told = json.loads(process.stdout.readline())
    assert world.run("ps", "--instance", "cli2").returncode == 0
    told_missing = [re.search(r"missing: .*\bgateway\b", world.ok("status", "--instance", name)) for name in ("cli", "cli2")]
    assert not told_missing[0] and told_missing[1], "who goes without the gateway is told, and nobody else"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0 and not os.path.exists(told["run_dir"] + "/supervisor.json")
    assert world.run("ps", "--instance", "cli2").returncode == 125
    world.ok("up", *world.start)  # makes the first instance the current one again


@test
def up_keeps_no_descriptor_of_its_caller(world):
    world.ok("down", *world.machine)
    reader, writer = os.pipe()
    world.ok("up", *world.start, pass_fds=[writer])
    os.close(writer)
    assert select.select([reader], [], [], 30)[0] and os.read(reader, 1) == b"", "a daemon holds the caller's pipe"
    os.close(reader)


@test
def down_and_doctor_know_an_instance_by_its_name(world):
    world.ok("down", "--instance", "cli")  # no folders
    assert not os.path.exists(world.folder + "/run/supervisor.json")
    findings = {item["name"]: item["detail"] for item in json.loads(world.ok("doctor", "--json", "--instance", "cli"))}
    assert findings["data directory"] == world.folder + "/data"
    world.ok("up", *world.start)


@test
def down_tells_the_store_why_sandboxes_ended(world):
    sandbox = world.create()
    assert "nothing is left" in world.ok("down", *world.machine)
    world.ok("up", *world.start)
    variables = json.loads(world.ok("env", "--json"))
    request = urllib.request.Request(f"{variables['E2B_API_URL']}/v1/sandboxes/{sandbox}",
                                     headers={"X-API-Key": variables["E2B_API_KEY"]})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["outcome"] == "shut_down"


@test
def down_leaves_nothing_even_when_all_daemons_were_killed(world):
    world.create()
    for pid in world.daemons().values():
        os.kill(pid, signal.SIGKILL)
    shown = world.ok("down", *world.machine)
    assert "nothing is left" in shown, shown
    assert world.run("down", *world.machine).returncode == 0


def main():
    if os.geteuid() != 0:
        print("SKIPPED everything: needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    folder = tempfile.mkdtemp(prefix="atoll-cli-")
    world = World(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed = failed = skipped = 0
    try:
        world.ok("up", *world.start)
        if not world.register_base():
            print("SKIPPED everything: no base template on this machine; 'atoll up' builds it")
            print(f"0 passed, 0 failed, {len(TESTS)} skipped")
            return 0
        for function in TESTS:
            name = function.__name__
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            began = time.monotonic()
            try:
                function(world)
                passed += 1
                print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as error:  # the next test begins with what this one left
                failed += 1
                print(f"FAIL {name}: {error}", flush=True)
    finally:
        done = world.run("down", *world.machine)
        if done.returncode != 0:
            failed += 1
            print(f"FAIL down: {done.stdout.decode()}{done.stderr.decode()}")
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
