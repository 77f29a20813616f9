# SPDX-License-Identifier: Apache-2.0
"""How the attempts of bypass.py are made: sockets of all kinds, the proxy, names, raw packets, requests to the kernel."""
import fcntl
import os
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request

from bypass_wire import (
    H2_PREFACE, arp, attribute, dns_framed, ethernet, h2_headers, icmp_echo, ip, netlink, udp,
)  # fmt: skip

SILENCE_S = 1.5  # then nothing comes any more
NEEDLE = b"ATOLLCANARY"  # every server outside says it
MORE = 4096


class Try:
    """One attempt under way. Its methods return what came back, and remember when the first of it came."""

    def __init__(self, facts, token):
        self.at, self.token, self.told, self.answer = facts, token, None, b""
        self.text = token.encode()
        self.name = f"{token}.{facts.target_name}"
        self.get = b"GET /" + self.text + b" HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
        self.hello = self.get % facts.target_name.encode()

    def note(self, data=b""):
        self.told = self.told or time.monotonic()
        self.answer += data
        return data

    def stream(self, address, port, family=socket.AF_INET, source=None, options=()):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(SILENCE_S)
        for option in options:
            sock.setsockopt(*option)
        if source:
            sock.bind(source)
        sock.connect((address, port))
        return sock

    def hear(self, sock):
        """Until the end, or what one answer may be."""
        sock.settimeout(SILENCE_S)
        got = b""
        while len(got) < 65536:
            part = sock.recv(MORE)
            self.note(part)
            got += part
            head, end, body = got.partition(b"\r\n\r\n")
            if not part or (end and b"content-length: %d\r\n" % len(body) in head.lower() + b"\r\n"):
                break
        return got

    def tcp(self, address, port, payload, **more):
        with self.stream(address, port, **more) as sock:
            for part in payload if isinstance(payload, (list, tuple)) else [payload]:
                sock.sendall(part)
            return self.hear(sock)

    def udp(self, address, port, payload=None, family=socket.AF_INET, options=(), source=None, protocol=0):
        with socket.socket(family, socket.SOCK_DGRAM, protocol) as sock:
            sock.settimeout(SILENCE_S)
            for option in options:
                sock.setsockopt(*option)
            if source:
                sock.bind(source)
            sock.connect((address, port))
            sock.send(self.text if payload is None else payload)
            return self.note(sock.recv(MORE))

    def ask(self, question, address=None, stream=False):
        address = address or self.at.dns
        if stream:
            with self.stream(address, 53) as sock:
                sock.sendall(dns_framed(question))
                return self.note(sock.recv(MORE))
        return self.udp(address, 53, question)

    def lookup(self, name):
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        return found[0][4][0]

    def allowed(self):
        """The address that stands for the name which this sandbox may reach."""
        return self.lookup(self.at.allowed_name)

    def to_allowed(self, payload, port=80):
        return self.tcp(self.allowed(), port, payload)

    def proxy(self, payload, port=3128):
        return self.tcp(self.at.gateway, port, payload)

    def connect(self, authority, then=None):
        """CONNECT at the explicit proxy, and then what the tunnel is for."""
        authority = authority if isinstance(authority, bytes) else authority.encode()
        with self.stream(self.at.gateway, 3128) as sock:
            sock.sendall(b"CONNECT " + authority + b" HTTP/1.1\r\nHost: " + authority + b"\r\n\r\n")
            head = self.note(sock.recv(MORE))
            if b" 200" in head[:13]:
                sock.sendall(self.hello if then is None else then)
                return self.hear(sock)
            return head

    def tls(self, address, port, name, host=None, path=None, alpn=None, sock=None):
        """A whole handshake for `name`, and a request for `host` in it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        with context.wrap_socket(sock or self.stream(address, port), server_hostname=name) as secure:
            request = self.get % (host or name or address).encode()
            secure.sendall(path or request)
            return self.hear(secure)

    def fetch(self, url):
        """As a program does it, redirects and proxy variables and all."""
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
        try:
            return self.note(opener.open(url, timeout=SILENCE_S).read(MORE))
        except urllib.error.HTTPError as error:
            return self.note(error.read(MORE))

    def raw(self, packet):
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
            for one in packet if isinstance(packet, list) else [packet]:
                sock.sendto(one, (socket.inet_ntoa(one[16:20]), 0))

    def protocol(self, number, payload=None):
        self.raw(ip(self.at.inside, self.at.target, number, self.text if payload is None else payload))

    def frames(self, *frames):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
            sock.bind((self.at.link, 0))
            for frame in frames:
                sock.send(frame)

    def macs(self):
        """(ours, the gateway's)"""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            ours = fcntl.ioctl(sock, 0x8927, struct.pack("256s", self.at.link.encode()))[18:24]  # SIOCGIFHWADDR
        theirs = b"\xff" * 6
        with open("/proc/net/arp") as file:
            for words in (line.split() for line in file):
                if words[0] == self.at.gateway and words[3] != "00:00:00:00:00:00":
                    theirs = bytes.fromhex(words[3].replace(":", ""))
        return ours, theirs

    def framed(self, packet, kind=0x0800):
        ours, theirs = self.macs()
        self.frames(ethernet(theirs, ours, kind, packet))

    def route(self, kind, body, flags=0x605):
        """One request to the kernel's routing; raises what it answers."""
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
            sock.settimeout(SILENCE_S)
            sock.send(netlink(kind, flags, body))
            code = -struct.unpack("=i", sock.recv(MORE)[16:20])[0]
            if code:
                raise OSError(code, os.strerror(code))

    def index(self):
        return socket.if_nametoindex(self.at.link)


def bound_to_link(t):
    return socket.SOL_SOCKET, 25, t.at.link.encode() + b"\0"


def other_source(t):
    """Another address on our link, and a datagram from it."""
    body = struct.pack("=BBBBi", 2, 32, 0, 0, t.index()) + attribute(2, socket.inet_aton("169.254.0.99"))
    try:
        t.route(20, body)  # RTM_NEWADDR
    finally:
        try:
            t.udp(t.at.target, 9001, source=("169.254.0.99", 0))
        finally:
            t.route(21, body, 5)


def other_route(t):
    body = struct.pack("=BBBBBBBBi", 2, 32, 0, 0, 254, 3, 253, 1, 0) + attribute(1, socket.inet_aton(t.at.neighbour))
    t.route(24, body + attribute(4, struct.pack("=i", t.index())))
    t.tcp(t.at.neighbour, t.at.agent_port, t.hello)


def new_link(t):
    info = attribute(18, attribute(1, b"veth\0"))
    t.route(16, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + info)
    t.note(NEEDLE)


def new_namespace(t):
    made = subprocess.run(["unshare", "-n", "true"], capture_output=True, text=True)
    if made.returncode != 0:
        raise OSError(1, made.stderr.strip())
    t.note(NEEDLE)


def tunnel_device(t):
    with open("/dev/net/tun", "rb+", buffering=0) as file:
        fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", b"tun9", 1))
        t.note(NEEDLE)


def multipath(t):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as sock:
        sock.settimeout(SILENCE_S)
        sock.connect((t.at.target, 80))
        sock.sendall(t.hello)
        return t.hear(sock)


def arp_question(t, address):
    """Asks who has one of the host's other addresses: an answer tells that it is the host's."""
    ours, _ = t.macs()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as sock:
        sock.bind((t.at.link, 0x0806))
        sock.settimeout(SILENCE_S)
        sock.send(ethernet(b"\xff" * 6, ours, 0x0806, arp(1, ours, t.at.inside, b"\0" * 6, address)))
        while True:
            frame = sock.recv(MORE)
            if frame[20:22] == b"\0\2" and frame[28:32] == socket.inet_aton(address):
                return t.note(NEEDLE)


def unix_socket(t, name, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.settimeout(SILENCE_S)
        sock.connect(name)
        return t.note(NEEDLE)


def ping(t, kind):
    with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sock:
        sock.settimeout(SILENCE_S)
        sock.sendto(icmp_echo(t.text), (t.at.target, 0))
        return t.note(sock.recv(MORE))


def second_request(t, second, first=None):
    """A request that is allowed, and on the same connection another; only the second carries the token."""
    host = t.at.allowed_name.encode()
    with t.stream(t.allowed(), 80) as sock:
        sock.sendall((first or b"GET /first HTTP/1.1\r\nHost: %s\r\n\r\n") % host)
        t.hear(sock)
        t.answer, t.told = b"", None
        sock.sendall(second)
        return t.hear(sock)


def switched(t, upgrade, then):
    """A request to switch to another protocol, and that protocol, whatever was answered."""
    host = t.at.allowed_name.encode()
    with t.stream(t.allowed(), 80) as sock:
        sock.sendall(b"GET /switch HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade, HTTP2-Settings\r\n%s\r\n" % (host, upgrade))
        t.hear(sock)
        t.answer, t.told = b"", None
        sock.sendall(then)
        return t.hear(sock)


def h2_request(t, authority, path=None, method=b"GET"):
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", path or b"/" + t.text), (b":authority", authority)]
    return H2_PREFACE + h2_headers(*(fields if method != b"CONNECT" else [fields[0], fields[3]]))


def rebound(t, name):
    """The name's answers change between the connections, or were never fit to be reached."""
    got = b""
    for _ in range(2):
        with t.stream(t.lookup(name), 80) as sock:
            sock.sendall(t.get % name.encode())
            got += t.hear(sock)
    return got


def fragments(t, overlap):
    """A datagram in two pieces, which may overlap."""
    whole = udp(9002, 9002, b"A" * 32 + t.text)
    first, second = whole[:32], whole[24 if overlap else 32 :]
    at, ident = t.at, int.from_bytes(os.urandom(2), "big")
    t.raw([
        ip(at.inside, at.target, 17, first, ident=ident, more=True),
        ip(at.inside, at.target, 17, second, ident=ident, offset=24 if overlap else 32),
    ])  # fmt: skip


def source_route(t, kind):
    """Loose or strict source routing, by way of the address that is allowed."""
    return bytes([kind, 7, 4]) + socket.inet_aton(t.at.target) + b"\0"


def socks5(t, port):
    with t.stream(t.at.gateway, port) as sock:
        sock.sendall(b"\5\1\0")
        t.note(sock.recv(2))
        sock.sendall(b"\5\1\0\3" + bytes([len(t.at.target_name)]) + t.at.target_name.encode() + b"\0\x50" + t.hello)
        return t.hear(sock)
