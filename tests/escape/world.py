# SPDX-License-Identifier: Apache-2.0
"""The ground on which the escape tests stand: a host of their own, inside namespaces, with canaries everywhere.

The harness enters a new network and mount namespace first. In it, that namespace *is* the host: it has a link to a second
namespace, the world, in which fake metadata services, private addresses and one public server listen. Nothing can reach
the real network. Every listener writes down who came, so that a probe's success is seen where it arrives.
"""
import ctypes
import hashlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

CLONE_NEWNS, CLONE_NEWNET, MS_REC, MS_PRIVATE = 0x20000, 0x40000000, 0x4000, 0x40000
NEEDLE = "ATOLLCANARY"  # every secret begins with it; only the harness knows the rest
HOST_ADDRESS, WORLD_ADDRESS = "93.184.216.1", "93.184.216.34"
# Addresses of the world that no policy may ever open.
FORBIDDEN = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "10.99.0.2",
    "172.16.99.2",
    "192.168.99.2",
    "100.64.99.2",
    "198.18.99.2",
]
FORBIDDEN_V6 = ["fd00:ec2::254", "2001:db8:99::2"]

libc = ctypes.CDLL(None, use_errno=True)


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def enter_private_host():
    """A new network and mount namespace for this process, and everything it starts."""
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare (the escape tests need root)")
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)


class Listeners:
    """Accepts on any number of sockets and remembers each line that a probe sent."""

    def __init__(self):
        self.hits = {}  # probe id -> number of arrivals
        self.lock = threading.Lock()

    def seen(self, text):
        for match in re.finditer(r"PROBE (\S+) (\S+)", text):
            with self.lock:
                self.hits[(match.group(1), match.group(2))] = (
                    self.hits.get((match.group(1), match.group(2)), 0) + 1
                )

    def stream(self, listener, answer):
        listener.listen(64)

        def serve(client):
            client.settimeout(3)
            try:
                self.seen(client.recv(512).decode(errors="replace"))
                client.sendall(answer)
            except OSError:
                pass
            client.close()

        def loop():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()

    def datagrams(self, sock, answer):
        def loop():
            while True:
                try:
                    data, peer = sock.recvfrom(2048)
                    self.seen(data.decode(errors="replace"))
                    sock.sendto(answer, peer)
                except OSError:
                    return

        threading.Thread(target=loop, daemon=True).start()

    def everywhere(self, port, answer):
        """TCP and UDP, both families, all addresses of this namespace."""
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                sock = socket.socket(family, kind)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address, port))
                (self.stream if kind == socket.SOCK_STREAM else self.datagrams)(sock, answer)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_world(port_text, secret):
    """Runs in the world's namespace: prints one line for each probe that arrives."""
    listeners = Listeners()
    seen = listeners.seen

    def report(text):
        seen(text)
        for line in re.findall(r"PROBE \S+ \S+", text):
            print(line, flush=True)

    listeners.seen = report
    for port in port_text.split(","):
        listeners.everywhere(int(port), f"world {secret}\n".encode())
    print("ready", flush=True)
    signal.pause()


class World:
    def __init__(self, folder):
        self.folder = folder
        self.nonce = secrets.token_hex(8)
        self.secrets = {}
        self.listeners = Listeners()
        self.children = []
        self.metadata_port, self.world_port, self.host_port, self.vsock_port = 80, 8080, free_port(), 7777
        os.makedirs(folder, exist_ok=True)

    def secret(self, name):
        return self.secrets.setdefault(name, f"{NEEDLE}-{name}-{secrets.token_hex(16)}")

    def start(self):
        run("ip", "link", "set", "lo", "up")
        self.make_world()
        self.make_host_listeners()
        self.make_canaries()
        self.make_victim()

    def make_world(self):
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.children.append(holder)
        deadline = time.monotonic() + 5
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if time.monotonic() > deadline:
                raise TimeoutError("the world's namespace did not come up")
            time.sleep(0.005)
        run("ip", "link", "add", "world0", "type", "veth", "peer", "name", "out0", "netns", str(holder.pid))
        run("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
        inside = ["nsenter", "-n", "-t", str(holder.pid)]
        run("ip", "address", "add", HOST_ADDRESS + "/24", "dev", "world0")
        run("ip", "link", "set", "world0", "up")
        run("ip", "link", "set", "probe0", "up")
        run("ip", "route", "add", "default", "via", WORLD_ADDRESS)
        run("ip", "-6", "address", "add", "2001:db8:1::1/64", "dev", "world0", "nodad")
        run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::2")
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "link", "set", "out0", "up")
        run(*inside, "ip", "address", "add", WORLD_ADDRESS + "/24", "dev", "out0")
        run(*inside, "ip", "-6", "address", "add", "2001:db8:1::2/64", "dev", "out0", "nodad")
        for address in FORBIDDEN:
            run(*inside, "ip", "address", "add", address + "/32", "dev", "out0")
        for address in FORBIDDEN_V6:
            run(*inside, "ip", "-6", "address", "add", address + "/128", "dev", "out0", "nodad")
        run(*inside, "ip", "route", "add", "default", "via", HOST_ADDRESS)
        # The most careless host: it forwards, checks no source, and routes loopback addresses.
        for key, value in (
            ("net.ipv4.ip_forward", 1),
            ("net.ipv6.conf.all.forwarding", 1),
            ("net.ipv4.conf.all.rp_filter", 0),
            ("net.ipv4.conf.world0.rp_filter", 0),
            ("net.ipv4.conf.all.route_localnet", 1),
            ("net.ipv4.ping_group_range", "0 2147483647"),
        ):
            run("sysctl", "-qw", f"{key}={value}")
        run(
            *inside,
            "sysctl",
            "-qw",
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.conf.out0.rp_filter=0",
            "net.ipv4.ping_group_range=0 2147483647",
        )
        sink = subprocess.Popen(
            [
                *inside,
                sys.executable,
                os.path.abspath(__file__),
                "world",
                f"{self.metadata_port},{self.world_port}",
                self.secret("world"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.children.append(sink)
        if sink.stdout.readline().strip() != "ready":
            raise RuntimeError("the world's server did not start")
        threading.Thread(
            target=lambda: [self.listeners.seen(line) for line in sink.stdout], daemon=True
        ).start()

    def make_host_listeners(self):
        answer = f"host {self.secret('host-listener')}\n".encode()
        self.listeners.everywhere(self.host_port, answer)
        self.host_abstract = f"escape-host-{self.nonce}"
        self.host_socket = f"{self.folder}/host.sock"
        for name in ("\0" + self.host_abstract, self.host_socket):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.bind(name)
            self.listeners.stream(sock, answer)
        os.chmod(self.host_socket, 0o777)
        try:
            sock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            sock.bind((socket.VMADDR_CID_ANY, self.vsock_port))
            self.listeners.stream(sock, answer)
        except OSError:
            pass  # then the probe is vacuous, and is reported as such

    def make_canaries(self):
        self.canary = f"{self.folder}/canary.txt"
        with open(self.canary, "w") as file:
            file.write(self.secret("file") + "\n")
        os.chmod(self.canary, 0o644)
        self.agent_program = f"{self.folder}/agent-program"
        with open(self.agent_program, "wb") as file:
            file.write(secrets.token_bytes(4096))
        os.chmod(self.agent_program, 0o755)
        self.shared_file = f"{self.folder}/shared-layer"
        with open(self.shared_file, "w") as file:
            file.write("shared\n")
        image = f"{self.folder}/loop.img"
        with open(image, "wb") as file:
            file.write((self.secret("loop") + "\n").encode().ljust(1 << 20, b"\0"))
        self.loop = run("losetup", "--find", "--show", image).strip()
        # A mount that names the work folder, so that a list of mounts has something to give away.
        self.mount = f"{self.folder}/mounted"
        os.makedirs(self.mount, exist_ok=True)
        run("mount", "-t", "tmpfs", f"{self.folder}-source", self.mount)
        # A key in the session keyring that everything started from here inherits (keyctl(2): 1 = join, add_key = 248).
        libc.syscall(250, 1, None)
        self.key_name = f"escape-{self.nonce}"
        text = self.secret("key").encode()
        libc.syscall(248, b"user", self.key_name.encode(), text, len(text), -3)

    def make_victim(self):
        self.victim = subprocess.Popen(["sleep", "infinity"])
        self.children.append(self.victim)

    def gateway_address(self, present):
        """The address that a sandbox calls its gateway, on the host itself: only while the controls run."""
        run("ip", "address", "add" if present else "del", "169.254.0.22/32", "dev", "lo")

    def hit(self, probe):
        return self.listeners.hits.get((probe, self.nonce), 0)

    def forget_hits(self):
        with self.listeners.lock:
            self.listeners.hits.clear()

    def facts(self):
        """What the host looks like; an attack that changed any of it shows in the difference."""
        facts = {}
        for path in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sys/vm/swappiness",
            "/proc/sys/vm/overcommit_memory",
            "/proc/sys/kernel/randomize_va_space",
            "/proc/sys/kernel/pid_max",
            "/proc/sys/kernel/keys/maxkeys",
            "/sys/kernel/mm/ksm/run",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/swaps",
            "/proc/sysvipc/shm",
            "/proc/sysvipc/sem",
            "/proc/sysvipc/msg",
        ):
            facts[path] = open(path).read() if os.path.exists(path) else None
        for path in (self.canary, self.agent_program, self.shared_file, "/etc/passwd", "/etc/shadow"):
            facts["hash of " + path] = hashlib.sha256(open(path, "rb").read()).hexdigest()
        facts["files in work folder"] = sorted(os.listdir(self.folder))
        facts["mounts"] = len(open("/proc/self/mountinfo").readlines())
        facts["victim"] = self.victim.poll()
        facts["links"] = sorted(name for _, name in socket.if_nameindex() if not re.match(r"atl\d", name))
        facts["binfmt"] = (
            sorted(os.listdir("/proc/sys/fs/binfmt_misc"))
            if os.path.isdir("/proc/sys/fs/binfmt_misc")
            else []
        )
        return facts

    def restore(self, facts):
        """Undoes what a positive control did to the host."""
        for link in set(name for _, name in socket.if_nameindex()) - set(facts["links"]):
            if not re.match(r"atl\d", link):
                run("ip", "link", "delete", link, check=False)
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"):
            if open(path).read() != facts[path]:
                with open(path, "w") as file:
                    file.write(facts[path])

    def stop(self):
        run("losetup", "-d", self.loop, check=False)
        run("umount", self.mount, check=False)
        for child in self.children:
            child.kill()
            child.wait()


if __name__ == "__main__" and len(sys.argv) == 4 and sys.argv[1] == "world":
    serve_world(sys.argv[2], sys.argv[3])
