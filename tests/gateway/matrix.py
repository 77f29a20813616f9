# SPDX-License-Identifier: Apache-2.0
"""The matrix of attempts to get past the gateway (bypass.py), judged from outside.

Each attempt carries its token, and no token may arrive: not on the wire behind the host's uplink, not at the servers there,
not at the host itself, not at a neighbour. What the firewall lets through to the host or onwards is counted behind it, too.
Whatever the attempts say themselves counts against them only.

The same attempts are made three times: inside, as root; in the network of a sandbox with every right that the host's root has,
as if its tier had been broken; and in a network without rules, behind a gateway that believes everything. What does not
arrive in the last proves nothing in the others, and is said to be vacuous.
"""
import json
import os
import secrets
import socket
import subprocess
import sys
import threading

import bypass
from api import in_threads
from bypass_wire import dns_question, ip, udp
from outside import GATE_ADDRESS, HOST_ADDRESS, NEEDLE, TOKEN, run, watch

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = [
    "allowed.example.com", "*.wild.example.com", "rebind.example.com", "private.example.com", "metadata.example.com",
    "loop.example.com", "zero.example.com", "host.example.com", "slot.example.com", "sixth.example.com", "mapped.example.com",
]  # fmt: skip
INSIDE, GATEWAY = "169.254.0.21", "169.254.0.22"
# A host that is allowed sends the client on, with what it was asked for: that request itself may arrive there.
# The first answer of a name that is bound to another address later leads there as well.
MAY_ARRIVE = ("http.redirect", "http.redirect_by_address", "rebind.flips_to_private")
# What the counters behind the firewall would show, so that it need not arrive in the control.
COUNTED = (
    "tcp.gateway_port_unredirected", "udp.gateway_port_unredirected", "tcp.neighbour_alias", "udp.neighbour_alias",
    "tcp.neighbour_by_route", "tcp.own_alias",
)  # fmt: skip
# What root on the host may do of course.
ONLY_INSIDE = ("kernel.", "local.")
# Addresses outside that may get packets: the host that is allowed, and the name server.
FITTING = ("11.0.0.10", "11.0.0.53")
AGENT_PORT = 49983  # of the guest daemon
FLUSH = 999  # the number of no attempt


def slot_address(slot, second):
    n = slot + 1
    return f"100.{second}.{n >> 8}.{n & 255}"


# Sends raw packets and says of which ports something came back: packets in hex, then "--", then ports. It waits for the last
# of the ports, and a little for the others.
PIECES = """
import select, socket, sys
at = sys.argv.index("--")
heard, waiting = [], {}
for port in map(int, sys.argv[at + 1:]):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", port))
    waiting[sock] = port
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for packet in map(bytes.fromhex, sys.argv[1:at]):
    raw.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
print("sent", flush=True)
sys.stdin.readline()
for seconds in (10 if len(waiting) > 1 else 0.3, 0.3):
    for sock in select.select(list(waiting), [], [], seconds)[0]:
        heard.append(waiting.pop(sock))
print(*heard, flush=True)
"""


class Ears:
    """Listeners of the host itself, its own packets, and those to a neighbour. Remembers tokens."""

    def __init__(self):
        self.heard, self.lock = set(), threading.Lock()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for kind, port in ((socket.SOCK_STREAM, self.port), (socket.SOCK_DGRAM, self.port), (socket.SOCK_STREAM, AGENT_PORT)):
                sock = socket.socket(family, kind)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address, port))
                self.listen(sock, kind)
        self.watch_link("lo", False)

    def watch_link(self, link, outgoing):
        threading.Thread(target=watch, args=(link, self.packet, outgoing), daemon=True).start()

    def note(self, data):
        with self.lock:
            self.heard.update(token.decode() for token in TOKEN.findall(data))

    def packet(self, tokens, **_):
        with self.lock:
            self.heard.update(tokens)

    def listen(self, sock, kind):
        def datagrams():
            while True:
                data, peer = sock.recvfrom(65536)
                self.note(data)
                sock.sendto(NEEDLE.encode(), peer)

        def serve(client):
            try:
                self.note(client.recv(65536))
                client.sendall(NEEDLE.encode())
            except OSError:
                pass
            client.close()

        def streams():
            sock.listen(64)
            while True:
                client, _ = sock.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=streams if kind == socket.SOCK_STREAM else datagrams, daemon=True).start()


class Behind:
    """Counts, behind Atoll's own rules, what the firewall let through from slots: to the host other than by redirection, and
    onwards."""

    def __init__(self, gateway_port):
        self.table = "matrix_behind"
        rules = f"""
          table inet {self.table} {{
            counter to_host {{ }}
            counter through {{ }}
            chain in {{
              type filter hook input priority 500
              iifname != "atl*" return
              ct direction reply ct state established return
              ct status dnat meta l4proto {{ tcp, udp }} th dport {gateway_port} return
              counter name to_host
            }}
            chain on {{
              type filter hook forward priority 500
              iifname "atl*" counter name through
            }}
          }}"""
        run("nft", rules)

    def read(self):
        listed = json.loads(run("nft", "-j", "list", "counters", "table", "inet", self.table))["nftables"]
        return {one["counter"]["name"]: one["counter"]["packets"] for one in listed if "counter" in one}


class Free:
    """A network without rules: its packets are forwarded as they are, and its gateway is careless.py."""

    def __init__(self, folder):
        self.folder, self.children = folder, []

    def start(self):
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.children.append(holder)
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            pass
        self.pid, inside = holder.pid, ["nsenter", "-n", "-t", str(holder.pid)]
        run("ip", "link", "add", "free0", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "address", "add", GATEWAY + "/32", "dev", "free0")
        run("ip", "link", "set", "free0", "up")
        run("ip", "route", "add", INSIDE + "/32", "dev", "free0")
        run("ip", "-6", "address", "add", "2001:db8:2::22/64", "dev", "free0", "nodad")
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "link", "set", "eth0", "up")
        run(*inside, "ip", "address", "add", INSIDE + "/32", "dev", "eth0")
        run(*inside, "ip", "route", "add", GATEWAY + "/32", "dev", "eth0")
        run(*inside, "ip", "route", "add", "default", "via", GATEWAY)
        run(*inside, "ip", "-6", "address", "add", "2001:db8:2::21/64", "dev", "eth0", "nodad")
        run(*inside, "ip", "-6", "route", "add", "default", "via", "2001:db8:2::22")
        for key, value in (
            ("net.ipv4.ip_forward", 1), ("net.ipv6.conf.all.forwarding", 1), ("net.ipv4.conf.all.rp_filter", 0),
            ("net.ipv4.conf.free0.rp_filter", 0), ("net.ipv4.conf.all.accept_source_route", 1),
            ("net.ipv4.conf.free0.accept_source_route", 1),
        ):  # fmt: skip
            run("sysctl", "-qw", f"{key}={value}")
        run(*inside, "sysctl", "-qw", "net.ipv4.ping_group_range=0 2147483647")
        with open(self.folder + "/free.resolv", "w") as file:
            file.write("nameserver 11.0.0.53\noptions timeout:1 attempts:1\n")
        proxy = self.spawn([sys.executable, HERE + "/careless.py", GATEWAY, "3128", "3129", "1080"])
        if proxy.stdout.readline().strip() != "ready":
            raise RuntimeError("the careless gateway did not start")

    def spawn(self, command):
        """With this network's name server; in the network that we are in."""
        script = f'mount --bind {self.folder}/free.resolv /etc/resolv.conf; exec "$@"'
        child = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, "sh", *command], stdout=subprocess.PIPE, text=True
        )
        self.children.append(child)
        return child

    def stop(self):
        run("ip", "link", "delete", "free0")
        for child in self.children:
            child.kill()
            child.wait()


class Matrix:
    def __init__(self, stage):
        self.stage, self.failures, self.passed, self.skipped = stage, [], 0, []
        self.times = []

    def prepare(self):
        """Before the outside is used by others: routes back, and what counts."""
        self.ears, self.behind = Ears(), Behind(self.stage.instance.gateway_port)
        holder = self.stage.outside.children[0].pid
        inside = ["nsenter", "-n", "-t", str(holder)]
        run(*inside, "ip", "route", "add", "default", "via", HOST_ADDRESS)
        run(*inside, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.out0.rp_filter=0")
        run("ip", "-6", "address", "add", "2001:db8:1::1/64", "dev", "up0", "nodad")
        run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::2")
        run(*inside, "ip", "-6", "address", "add", "2001:db8:1::2/64", "dev", "out0", "nodad")
        run(*inside, "ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
        for address in ("11.0.0.20", "10.9.9.9", "169.254.169.254", "169.254.170.2", "100.100.100.200"):
            run("ip", "route", "replace", address + "/32", "via", GATE_ADDRESS)

    def facts(self, slot, neighbour, **more):
        instance = self.stage.instance
        return {
            "run": secrets.token_hex(3), "target": "11.0.0.20", "target_name": "refused.example.org", "real": "11.0.0.10",
            "allowed_name": "allowed.example.com", "dns": "11.0.0.53", "target_v6": "2001:db8:99::20", "host": HOST_ADDRESS,
            "host_port": self.ears.port, "control_port": instance.port, "gateway_port": instance.gateway_port,
            "gateway": GATEWAY, "inside": INSIDE, "link": "eth0", "agent_port": AGENT_PORT, "run_dir": instance.run_dir,
            "own_host_end": slot_address(slot, 64), "own_alias": slot_address(slot, 80),
            "neighbour": slot_address(neighbour, 64), "neighbour_alias": slot_address(neighbour, 80), "only": None, **more,
        }  # fmt: skip

    def flush(self, run_id):
        """Until all that was sent before has been written down outside."""
        token = bypass.token_of(run_id, FLUSH)
        with socket.create_connection(("11.0.0.10", 80), 10) as sock:
            sock.sendall(f"GET /{token} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            while sock.recv(4096):
                pass
        outside = self.stage.outside
        self.stage.until(lambda: any(token in one["tokens"] for one in outside.packets), "the last packet")
        outside.catch_up()

    def arrivals(self, run_id, first_packet, first_seen):
        """{token: where} of this run"""
        out = {}
        outside = self.stage.outside
        for one in outside.packets[first_packet:]:
            for token in one["tokens"]:
                out.setdefault(token, set()).add(f"packet to {one['to']}")
        for one in outside.seen[first_seen:]:
            for token in TOKEN.findall(json.dumps(one).encode()):
                out.setdefault(token.decode(), set()).add(f"server: {one['kind']} {one.get('at', '')}")
        with self.ears.lock:
            for token in self.ears.heard:
                out.setdefault(token, set()).add("the host")
        return {token: where for token, where in out.items() if token.startswith("tk" + run_id)}

    def attempt_all(self, runner, facts):
        """Runs them by `runner`; returns {name: (result, where its token arrived)}."""
        outside = self.stage.outside
        marks = len(outside.packets), len(outside.seen)
        text = runner(json.dumps(facts))
        self.flush(facts["run"])
        arrived = self.arrivals(facts["run"], *marks)
        results = {one["name"]: one for one in map(json.loads, text.splitlines())}
        out = {}
        for number, (name, _) in enumerate(bypass.TABLE):
            if facts["only"] is None or number < len(bypass.ANYWHERE):
                out[name] = results.get(name), arrived.get(bypass.token_of(facts["run"], number), set())
        return out

    # --- the three places

    def inside(self, sandbox):
        for name in ("bypass.py", "bypass_table.py", "bypass_tries.py", "bypass_wire.py"):
            with open(f"{HERE}/{name}", "rb") as file:
                sandbox.write(f"/tmp/bypass/{name}", file.read())

        def go(facts):
            outcome = sandbox.run(["/usr/bin/python3", "/tmp/bypass/bypass.py", facts], user="root", timeout=120)
            if not outcome.stdout:
                raise RuntimeError(f"the attempts said nothing: {outcome.status} {outcome.error} {outcome.stderr[-500:]}")
            return outcome.stdout.decode()

        return go

    def broken_out(self, sandbox):
        pid = self.stage.instance.guest_pid(sandbox.id)
        with open(self.stage.folder + "/sandbox.resolv", "wb") as file:
            file.write(sandbox.run("cat /etc/resolv.conf").stdout)
        mount = f"mount --bind {self.stage.folder}/sandbox.resolv /etc/resolv.conf"
        return self.process(["nsenter", f"--net=/proc/{pid}/ns/net"], mount)

    def free(self, free):
        return self.process(["nsenter", "-n", "-t", str(free.pid)], f"mount --bind {free.folder}/free.resolv /etc/resolv.conf")

    def process(self, enter, mount):
        def go(facts):
            script = f'{mount}; exec "$@"'
            command = [*enter, "unshare", "-m", "sh", "-c", script, "sh", sys.executable, HERE + "/bypass.py", facts]
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

        return go

    def mixed_fragments(self, one, other):
        """Pieces of one datagram, sent by two sandboxes, must not become one: the second would speak with the first's voice."""

        def pieces(port, ident):
            question = dns_question("allowed.example.com")
            whole = udp(port, 53, question)
            return (
                ip(INSIDE, "11.0.0.53", 17, whole[:24], ident=ident, more=True).hex(),
                ip(INSIDE, "11.0.0.53", 17, whole[24:], ident=ident, offset=24).hex(),
            )

        def start(sandbox, *words):
            pid = self.stage.instance.guest_pid(sandbox.id)
            command = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", PIECES, *words]
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            child.stdout.readline()
            return child

        mixed, own = pieces(40404, 500), pieces(40405, 501)
        first = start(one, mixed[0], *own, "--", "40404", "40405")
        second = start(other, mixed[1], "--", "40404")
        heard = [child.communicate("\n")[0].split() for child in (first, second)]
        self.whole("firewall", "fragments of one sandbox are not put together at all", [] if "40405" in heard[0] else [heard])
        self.whole("firewall", "fragments of two sandboxes became one", [heard] if "40404" in heard[0] + heard[1] else [])

    # --- judging

    def judge(self, where, place, made, control):
        for name, (result, arrived) in made.items():
            if place == "broken_out" and name.startswith(ONLY_INSIDE):
                continue
            fitting = name in MAY_ARRIVE
            if fitting:
                arrived = {one for one in arrived if "11.0.0.10" not in one}
            if arrived or (result and result["reached"] and not fitting):
                self.failures.append(f"{where}: {name}: got out: {sorted(arrived)} {result}")
            elif not result:
                self.skipped.append(f"{where}: {name}: had not ended when the others had")
            elif control is not None and name not in control and name not in COUNTED:
                self.skipped.append(f"{where}: {name}: vacuous: it does not arrive without rules either")
            else:
                self.passed += 1
                self.times.append((result["ms"], f"{name}, {where}"))

    def judge_outside(self, packets, seen):
        """What no token says: packets to anywhere else, or from an address that is not the host's, and names asked for."""
        wrong = [one for one in packets if one["to"] and one["to"] not in FITTING and one["source"] == HOST_ADDRESS]
        wrong += [one for one in packets if one["source"] not in ("", HOST_ADDRESS) and ":" not in one["source"]]
        self.whole("outside", "packets went elsewhere", wrong)
        asked = [one["name"] for one in seen if one["kind"] == "dns" and not self.may_ask(one["name"])]
        self.whole("outside", "names were asked for", asked)

    def may_ask(self, name):
        return name in NAMES or name.endswith(".wild.example.com")

    def whole(self, where, what, found):
        if found:
            self.failures.append(f"{where}: {what}: {found[:5]}")
        else:
            self.passed += 1

    def control(self, slot, neighbour):
        """Names of the attempts that arrive where nothing is in their way."""
        free = Free(self.stage.folder)
        free.start()
        try:
            results = self.attempt_all(self.free(free), self.facts(slot, neighbour))
        finally:
            free.stop()
        self.show("control", results)
        return {name for name, (result, arrived) in results.items() if arrived or (result and result["reached"])}

    def places(self, sandboxes, slots, everything):
        """(where, place, what makes the attempts there)"""
        out = []
        for kind in ("named", "open") if everything else ("named",):
            facts = self.facts(slots[kind], slots["neighbour"], only=None if kind == "named" else "open")
            for place in ("inside", "broken_out") if everything else ("inside",):
                runner = getattr(self, place)(sandboxes[kind])
                out.append((f"{kind}, {place}", place, lambda runner=runner, facts=facts: self.attempt_all(runner, facts)))
        return out

    def run(self, everything):
        """(passed, failed, skipped). `everything`: also with the host's rights, and where nothing is in the way."""
        self.prepare()
        before = self.behind.read()
        stage, outside = self.stage, self.stage.outside
        named = stage.sandbox("matrix", denyOut=["0.0.0.0/0"], allowOut=NAMES)
        sandboxes = {"named": named, "open": stage.open(), "neighbour": stage.sandbox("neighbour")}
        slots = {kind: stage.instance.slot(stage.instance.guest_pid(one.id)) for kind, one in sandboxes.items()}
        self.ears.watch_link(f"atl{slots['neighbour']}", True)
        marks = len(outside.packets), len(outside.seen)
        places = self.places(sandboxes, slots, everything)
        all_made = in_threads([go for _, _, go in places])
        self.judge_outside(outside.packets[marks[0] :], outside.seen[marks[1] :])
        if everything:
            self.mixed_fragments(sandboxes["open"], sandboxes["neighbour"])
        for name, packets in self.behind.read().items():
            self.whole("firewall", f"packets of sandboxes passed it ({name})", [packets] if packets != before[name] else [])
        # Last, since what it opened goes on to end outside for a while.
        control = self.control(slots["named"], slots["neighbour"]) if everything else None
        for (where, place, _), made in zip(places, all_made):
            if isinstance(made, Exception):
                raise made
            self.show(where, made)
            self.judge(where, place, made, control)
        return self.report()

    @staticmethod
    def show(where, made):
        if os.environ.get("ATOLL_MATRIX_SHOW"):
            for name, (result, arrived) in made.items():
                print(f"{where}: {name}: {sorted(arrived)} {result}")

    def report(self):
        told = sorted((ms, name) for ms, name in self.times if ms is not None)
        for failure in self.failures:
            print(f"FAIL  matrix {failure}", flush=True)
        for line in self.skipped:
            print(f"SKIPPED matrix {line}", flush=True)
        if told:
            slow = sum(1 for ms, _ in told if ms > 50)
            print(
                f"matrix: {len(bypass.TABLE)} attempts, {self.passed} times judged; told at once {len(told)}, "
                f"p50 {told[len(told) // 2][0]} ms, "
                f"above 50 ms {slow}, slowest {told[-1][0]} ms ({told[-1][1]}); not told at all {len(self.times) - len(told)}",
                flush=True,
            )
        return self.passed, len(self.failures), len(self.skipped)
