# SPDX-License-Identifier: Apache-2.0
"""Checks of gateway.py: labels of commands, by which rules tell apart what one sandbox sends; also what would be needed to
take another's. These checks are about tier `container`; that others refuse is checked in `others_refuse_labels`.
"""
import json
import os
import subprocess

from api import Sandbox, Stream, collect
from expecting import expect

CHECKS = []
URL = "http://allowed.example.com/"
GIT = {"id": "git", "action": "allow", "hosts": ["allowed.example.com", "11.0.0.10"], "labels": ["git"]}


def check(function):
    CHECKS.append(function)
    return function


class Rules:
    """Of the tenant, for as long as it lasts: by default, what `git` may reach and nothing else."""

    def __init__(self, stage, *rules):
        self.stage, self.rules = stage, rules or (GIT,)
        self.path = "/v1/policies/tenant/" + stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]

    def __enter__(self):
        answer = self.stage.api.call("PUT", self.path, {"version": 1, "default": "deny", "rules": list(self.rules)})
        expect(answer.status == 200, answer.body)

    def __exit__(self, *_):
        self.stage.api.call("DELETE", self.path)


def labelled(stage, *labels, **more):
    sandbox = stage.create(labels=list(labels or ("git", "npm")), **more)
    sandbox.write("/tmp/ca.pem", stage.ca)
    return sandbox


def curl(sandbox, url, label=None, words="", user=None):
    """(exit code of curl, HTTP status, body)"""
    outcome = sandbox.run(
        f"curl -sS -m 10 --cacert /tmp/ca.pem -w '\\n%{{http_code}} %{{exitcode}}' {words} '{url}'",
        envs={"ATOLL_LABEL": label} if label else None, user=user,
    )
    expect(outcome.stdout, f"{outcome.error} {outcome.stderr}")
    body, _, last = outcome.stdout.decode().rpartition("\n")
    status, code = last.split()
    return int(code), int(status), body


def reaches(sandbox, label=None, url=URL, **more):
    code, status, _ = curl(sandbox, url, label, **more)
    return (code, status) == (0, 200)


def events(stage, sandbox):
    return stage.api.call("GET", f"/v1/events?sandbox={sandbox.id}&limit=1000").json()["events"]


def groups(stage, sandbox):
    return [root for root, names, _ in os.walk("/sys/fs/cgroup") if sandbox.id in root and "label-" in root]


@check
def a_rule_lets_a_label_through_and_nothing_else(stage):
    sandbox = labelled(stage)
    with Rules(stage):
        for url in (URL, "https://allowed.example.com/", "http://11.0.0.10/"):
            expect(reaches(sandbox, "git", url), f"git does not reach {url}")
            mark = stage.outside.mark()
            for other in (None, "npm"):
                expect(not reaches(sandbox, other, url), f"{other} reaches {url}")
            expect(not stage.outside.since(mark), "something arrived outside")
        expect(not reaches(sandbox, "git", "http://api.example.com/"), "git reaches what is not allowed")
        # A server with a label answers those who come from outside.
        sandbox.background("exec python3 -m http.server 8000", envs={"ATOLL_LABEL": "git"})
        stage.until(lambda: sandbox.call("GET", "/", port=8000).status == 200, "the server with a label")
        # Names, too: to others the host does not exist.
        for label, found in (("git", 0), (None, 2), ("npm", 2)):
            outcome = sandbox.run("getent ahostsv4 allowed.example.com", envs={"ATOLL_LABEL": label} if label else None)
            expect(outcome.exit_code == found, f"{label}: getent {outcome.exit_code}")
        # What a labelled command starts has its label, also when it goes on as root, or alone.
        for command in (f"sudo -n curl -sSf -m 10 {URL}", f"sh -c 'curl -sSf -m 10 {URL}'",
                        f"mkfifo /tmp/alone; setsid -f curl -sSf -m 10 -o /tmp/alone {URL}; grep -q path /tmp/alone"):
            outcome = sandbox.run(command, envs={"ATOLL_LABEL": "git"})
            expect(outcome.exit_code == 0, f"{command}: {outcome.stderr}")
        stage.until(lambda: any(e["data"].get("label") == "npm" for e in events(stage, sandbox)), "an event with the label")
    # Where no rule names the label, none lets it through: the sandbox's own default is not about it.
    expect(reaches(sandbox), "without rules of the tenant")
    sandbox.kill()


@check
def the_explicit_ways_see_the_label(stage):
    sandbox = labelled(stage)
    with Rules(stage):
        words = "-x http://169.254.0.22:3128"
        for url in (URL, "https://allowed.example.com/"):
            expect(reaches(sandbox, "git", url, words=words), f"git does not reach {url} through the proxy")
            expect(not reaches(sandbox, None, url, words=words), f"{url} is reached through the proxy without a label")
        stage.api.expect((201,), "POST", "/v1/services", {"name": "labels", "url": "http://allowed.example.com"})
        token = '-H "x-api-key: $ATOLL_TOKEN"'
        svc = "http://atoll.internal/svc/labels/"
        expect(reaches(sandbox, "git", svc, words=token), "git does not reach the service")
        expect(not reaches(sandbox, "npm", svc, words=token), "npm reaches the service")
        stage.api.call("DELETE", "/v1/services/labels")
    sandbox.kill()


@check
def a_label_is_asked_for_in_three_ways_and_never_ignored(stage):
    sandbox = labelled(stage, "git")
    with Rules(stage):
        argv = ["curl", "-sSf", "-m", "10", URL]
        message = {"process": {"cmd": argv[0], "args": argv[1:]}, "stdin": False, "label": "git"}
        outcome = collect(Stream(sandbox, "/process.Process/Start", message))
        expect(b"path" in outcome.stdout, outcome.error or outcome.stderr)
        steps = [{"id": "a", "command": f"curl -sSf -m 10 {URL} >/dev/null", "label": "git"},
                 {"id": "b", "command": f"curl -sSf -m 10 {URL} >/dev/null", "ignoreError": True}]
        answer = sandbox.call("POST", "/batch", json.dumps({"steps": steps}), headers={"Content-Type": "application/json"})
        done = {e["step"]: e["done"] for e in map(json.loads, answer.body.splitlines()) if "done" in e}
        expect(done["a"]["ok"] and not done["b"]["ok"], answer.body)
    refused = sandbox.run("true", envs={"ATOLL_LABEL": "none"})
    expect("label_unknown" in (refused.error or ""), refused.error)
    refused = sandbox.run("true", envs={"ATOLL_LABEL": ""})
    expect("label_unknown" in (refused.error or ""), refused.error)
    sandbox.kill()


@check
def labels_are_added_while_it_runs_and_bounded(stage):
    sandbox = labelled(stage, "npm")
    path = f"/v1/sandboxes/{sandbox.id}/labels"
    with Rules(stage):
        expect("label_unknown" in sandbox.run("true", envs={"ATOLL_LABEL": "git"}).error, "git is known")
        answer = stage.api.call("PUT", path, {"labels": ["git", "npm"]})
        expect(answer.status == 200 and answer.json()["labels"] == ["npm", "git"], answer.body)
        expect(reaches(sandbox, "git") and not reaches(sandbox, "npm"), "after the addition")
        answer = stage.api.call("PUT", path, {"labels": [f"more-{i}" for i in range(13)]})
        expect(answer.status == 200 and len(answer.json()["labels"]) == 15, answer.body)
        expect(reaches(sandbox, "git") and not reaches(sandbox, "more-12"), "with all of them")
        answer = stage.api.call("PUT", path, {"labels": ["one-too-many"]})
        expect(answer.status == 429 and b"quota" in answer.body, answer.body)
        expect(reaches(sandbox, "git"), "after the refusal")
        expect(command(stage, sandbox, "git") == 0 and command(stage, sandbox, "npm") != 0, "atoll exec")
    for wrong in (["a b"], [""], ["x" * 65], ["a", "a"], "a", [f"n{i}" for i in range(16)]):
        expect(stage.api.call("PUT", path, {"labels": wrong}).status == 400, f"{wrong} was taken")
    expect(len(groups(stage, sandbox)) >= 15, groups(stage, sandbox))
    sandbox.kill()
    expect(not groups(stage, sandbox), f"left behind: {groups(stage, sandbox)}")
    elements = kernel_rules(stage)
    expect("169.254.1." not in elements, f"left behind: {elements}")


def command(stage, sandbox, label):
    """The exit status of curl under `atoll exec --label`."""
    instance = stage.instance
    environment = {"PATH": os.environ["PATH"], "HOME": stage.folder, "ATOLL_API_KEY": instance.key(),
                   "ATOLL_API_URL": f"http://127.0.0.1:{instance.port}"}
    words = [instance.programs + "/atoll", "exec", "--label", label, sandbox.id, "curl", "-sSf", "-m", "10", URL]
    return subprocess.run(words, capture_output=True, env=environment, timeout=60).returncode


def kernel_rules(stage):
    words = ["nft", "list", "map", "inet", stage.instance.name, "labels"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


# Runs inside without a label, as root: everything that might make a connection look like git's. The words it prints are
# what it achieved; each is a failure.
THIEF = r"""
import ctypes, os, re, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
victim, target, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def gets_through(s):
    try:
        s.settimeout(3)
        s.connect((target, port))
        s.sendall(b"GET / HTTP/1.1\r\nHost: allowed.example.com\r\nConnection: close\r\n\r\n")
        return s.recv(99).startswith(b"HTTP/1.1 200")
    except OSError:
        return False

def attempt(name, act):
    try:
        if act(): print(name)
    except OSError: pass

# Its source address, by every way in which one can be asked for.
for last in range(1, 16):
    for option, value in ((None, 0), (15, 1), (19, 1)):  # IP_FREEBIND, IP_TRANSPARENT
        def bound():
            s = socket.socket()
            if option: s.setsockopt(socket.IPPROTO_IP, option, value)
            s.bind((f"169.254.1.{last}", 0))
            return gets_through(s)
        attempt(f"bind-{last}-{option}", bound)
        def with_source():
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            if option: s.setsockopt(socket.IPPROTO_IP, option, value)
            s.settimeout(1)
            info = struct.pack("=I", 0) + socket.inet_aton(f"169.254.1.{last}") + socket.inet_aton("0.0.0.0")
            name = b"".join(bytes([len(p)]) + p for p in b"allowed.example.com".split(b".")) + b"\0"
            s.sendmsg([b"\0\1\1\0\0\1\0\0\0\0\0\0" + name + b"\0\1\0\1"], [(socket.IPPROTO_IP, 8, info)], 0, ("169.254.0.22", 53))
            answer = s.recv(512)
            return answer[3] & 15 == 0 and answer[7] > 0
        if option is None or last < 3: attempt(f"pktinfo-{last}-{option}", with_source)
attempt("address", lambda: os.system("ip addr add 169.254.1.1/32 dev eth0 2>/dev/null") == 0)
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
attempt("mark", lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1) or True)
# Its group.
attempt("mount", lambda: libc.mount(b"none", b"/mnt", b"cgroup2", 0, None) == 0)
attempt("cgroup files", lambda: os.listdir("/sys/fs/cgroup"))
for pid in (1, victim):
    for fd in range(3, 32):
        attempt(f"fd {pid}/{fd}", lambda: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY) and True)
        attempt(f"group {pid}/{fd}", lambda: os.open(f"/proc/{pid}/fd/{fd}/label-1/cgroup.procs", os.O_WRONLY) and True)
    for kind in ("net", "cgroup", "mnt", "pid", "user"):
        def enter():
            fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            return libc.setns(fd, 0) == 0
        attempt(f"setns {pid} {kind}", enter)
# CLONE_INTO_CGROUP, and namespaces of its own.
attempt("clone3", lambda: libc.syscall(435, ctypes.create_string_buffer(88), 88) > 0)
attempt("unshare", lambda: libc.unshare(0x40000000) == 0 or libc.unshare(0x10000000) == 0)
# The process itself.
attempt("ptrace", lambda: libc.ptrace(0x4206, victim, 0, 0) == 0)
attempt("mem", lambda: os.open(f"/proc/{victim}/mem", os.O_RDWR) and True)
attempt("maps", lambda: bool(open(f"/proc/{victim}/maps").read()))
class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
mine = Vec(ctypes.addressof(buffer), 8)
attempt("vm_writev", lambda: libc.process_vm_writev(victim, ctypes.byref(mine), 1, ctypes.byref(mine), 1, 0) >= 0
        or ctypes.get_errno() == 14)
attempt("pidfd_getfd", lambda: libc.syscall(438, libc.syscall(434, victim, 0), 0, 0) >= 0)
# Its capabilities, with which it could be traced.
attempt("ambient", lambda: libc.prctl(47, 2, 36, 0, 0) == 0)
print("tried")
"""


@check
def nobody_inside_takes_a_label(stage):
    sandbox = labelled(stage, "git", "npm")
    sandbox.write("/tmp/thief.py", THIEF.encode())
    with Rules(stage, GIT, {**GIT, "id": "npm", "labels": ["npm"], "hosts": ["api.example.com"]}):
        for victim_user in ("user", "root"):
            victim, _ = sandbox.background("exec sleep 600", envs={"ATOLL_LABEL": "git"}, user=victim_user)
            for label in (None, "npm"):
                for user in ("root", "user"):
                    mark = stage.outside.mark()
                    outcome = sandbox.run(
                        ["python3", "/tmp/thief.py", str(victim), "11.0.0.10", "80"], user=user, timeout=120,
                        envs={"ATOLL_LABEL": label} if label else None,
                    )
                    expect(outcome.stdout == b"tried\n", f"{label} {user}: {outcome.stdout} {outcome.stderr} {outcome.error}")
                    expect(not stage.outside.since(mark, "http"), f"arrived outside: {stage.outside.since(mark)}")
        expect(reaches(sandbox, "git"), "git itself")
        # Who has the same label may look.
        outcome = sandbox.run(f"cat /proc/{victim}/maps | head -c 20", envs={"ATOLL_LABEL": "git"}, user="root")
        expect(outcome.stdout, outcome.stderr)
        # The attempts are real ones: one without a label is traced.
        victim, _ = sandbox.background("exec sleep 600", user="user")
        outcome = sandbox.run(["python3", "/tmp/thief.py", str(victim), "11.0.0.10", "80"], user="user", timeout=120)
        expect(outcome.stdout.split() == [b"ptrace", b"mem", b"maps", b"vm_writev", b"tried"], outcome.stdout)
    sandbox.kill()


# Asks the guest daemon from inside for a command with a label.
INSIDER = r"""
import http.client, json, struct, sys
for host in ("127.0.0.1", "169.254.0.21"):
    c = http.client.HTTPConnection(host, 49983, timeout=10)
    body = json.dumps({"process": {"cmd": "id", "args": []}, "stdin": False, "label": "git"}).encode()
    framed = b"\0" + struct.pack(">I", len(body)) + body
    c.request("POST", "/process.Process/Start", framed, {"Content-Type": "application/connect+json"})
    print(c.getresponse().read())
    c = http.client.HTTPConnection(host, 49983, timeout=10)
    c.request("POST", "/batch", json.dumps({"steps": [{"command": "id", "label": "git"}]}), {"Content-Type": "application/json"})
    print(c.getresponse().read())
    c = http.client.HTTPConnection(host, 49983, timeout=10)
    message = {"process": {"pid": int(sys.argv[1])}, "input": {"stdin": "aWQK"}}
    c.request("POST", "/process.Process/SendInput", json.dumps(message), {"Content-Type": "application/json"})
    print(c.getresponse().read())
"""


@check
def the_guest_daemon_gives_no_label_to_who_asks_from_inside(stage):
    # Without an access token anybody may start commands, so there are no labels at all.
    fields = {"templateID": "base", "timeout": 300, "secure": False}
    answer = stage.api.call("POST", "/sandboxes", {**fields, "labels": ["git"]})
    expect(answer.status == 501 and b"label_unsupported" in answer.body, answer.body)
    open_one = Sandbox(stage.api, stage.api.expect((201,), "POST", "/sandboxes", fields).json())
    answer = stage.api.call("PUT", f"/v1/sandboxes/{open_one.id}/labels", {"labels": ["git"]})
    expect(answer.status == 501 and b"label_unsupported" in answer.body, answer.body)
    secured = labelled(stage, "git")
    for sandbox, word in ((open_one, b"label_refused"), (secured, b"unauthorized access")):
        sandbox.write("/tmp/insider.py", INSIDER.encode())
        victim, _ = sandbox.background("cat", envs={"ATOLL_LABEL": "git"} if sandbox is secured else None, stdin=True)
        lines = sandbox.run(["python3", "/tmp/insider.py", str(victim)]).stdout.splitlines()
        starts = [line for i, line in enumerate(lines) if i % 3 < 2]  # the third is input, to a process without a label here
        expect(len(lines) == 6 and all(word in line for line in starts), lines)
        expect(not any(b"uid=" in line for line in lines), lines)
        sandbox.kill()


@check
def nothing_of_the_host_is_reached_through_a_descriptor(stage):
    """Of the guest daemon: by the directory, the command, the PATH and the home of what it starts."""
    sandbox = labelled(stage, "git")
    for number in range(3, 64):
        where = f"/proc/self/fd/{number}"
        message = {"process": {"cmd": "/bin/ls", "args": ["-a", "../../../.."], "cwd": where}, "stdin": False}
        outcome = collect(Stream(sandbox, "/process.Process/Start", message, "root"))
        expect(outcome.exit_code is None, f"cwd {where} was entered: {outcome.stdout[:99]}")
        for message in ({"cmd": f"/proc/self/fd/{number}/../../../../bin/ls", "args": []},
                        {"cmd": "ls", "args": [], "envs": {"PATH": f"/proc/self/fd/{number}/../../../../bin"}}):
            outcome = collect(Stream(sandbox, "/process.Process/Start", {"process": message, "stdin": False}, "root"))
            expect(outcome.exit_code is None, f"{message}: it ran")
    # Root inside says where a home is.
    sandbox.run("sed -i 's#:/home/user:#:/proc/self/fd/9:#' /etc/passwd", user="root")
    outcome = collect(Stream(sandbox, "/process.Process/Start", {"process": {"cmd": "/bin/ls", "args": []}, "stdin": False}))
    expect(b"cgroup" not in outcome.stdout, outcome.stdout)
    sandbox.kill()


@check
def what_root_writes_to_the_disk_labels_nothing(stage):
    sandbox = labelled(stage, "git")
    with Rules(stage):
        kept = json.dumps({"envs": {"ATOLL_LABEL": "git"}})
        sandbox.write("/etc/.atoll-environment", kept.encode())
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause", {"memory": False})
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/connect", {"timeout": 600})
        expect(reaches(sandbox, "git") and not reaches(sandbox), "the kept environment gave a label")
    sandbox.kill()


@check
def labels_outlive_rests_copies_and_daemons(stage):
    sandbox = labelled(stage, "npm", "git")

    def holds(one, when):
        stage.until(lambda: reaches(one, "git"), f"git {when}")
        expect(not reaches(one, "npm") and not reaches(one), f"others {when}")

    with Rules(stage):
        holds(sandbox, "at first")
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause", {})
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/connect", {"timeout": 600})
        holds(sandbox, "after a rest in memory")
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause", {"memory": False})
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/connect", {"timeout": 600})
        holds(sandbox, "after a rest on the disk")
        for daemon in (stage.instance.runner, stage.instance.gateway, stage.instance.control):
            daemon.kill()
            daemon.start()
            stage.instance.wait_ready()
            stage.instance.wait_whole(stage.api, 30)
            holds(sandbox, f"after a new start of {daemon.name}")
        answer = stage.api.call("PUT", f"/v1/sandboxes/{sandbox.id}/labels", {"labels": ["later"]})
        expect(answer.status == 200, answer.body)
        holds(sandbox, "after one more label")
        forked = stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/fork", {"count": 1, "timeout": 300}).json()
        child = Sandbox(stage.api, (forked if isinstance(forked, list) else forked["sandboxes"])[0]["sandbox"])
        holds(child, "in a fork")
        child.kill()
        snapshot = stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/snapshots", {}).json()
        copy = stage.api.create(template=snapshot["snapshotID"], labels=["git"])
        expect(reaches(copy, "git"), "git in what a snapshot began")
        expect("label_unknown" in copy.run("true", envs={"ATOLL_LABEL": "npm"}).error, "labels are of the create")
        copy.kill()
    sandbox.kill()


@check
def others_refuse_labels(stage):
    for tier in ("gvisor", "microvm"):
        answer = stage.api.call("POST", "/v2/sandboxes", {"templateID": "base", "isolation": tier, "labels": ["git"]})
        unusable = answer.status == 503 and b"isolation_unavailable" in answer.body
        expect(unusable or (answer.status == 501 and b"label_unsupported" in answer.body), f"{tier}: {answer.body}")
