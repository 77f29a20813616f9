# SPDX-License-Identifier: Apache-2.0
"""What lies outside the gateway in its tests: a network namespace with name servers, web servers and other servers, which
write down everything that reaches them. Run as a program it is that namespace's servers; the class starts it.

  11.0.0.10   allowed.example.com, api.example.com, *.wild.example.com: HTTP 80, HTTPS 443, a greeter 2525 (speaks first)
  11.0.0.20   refused.example.org: the same
  10.9.9.9    private.example.com: an address that must never be reached
  11.0.0.53   the name server
  all of the above: a SOCKS5 proxy 1080
  all of them, on every other port: a server that takes what it is sent

What arrives is written down twice: by the servers, and frame by frame as it comes over the wire.
"""
import base64
import hashlib
import http.server
import json
import os
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time

import scripted
from packages import everything

HOST_ADDRESS, GATE_ADDRESS = "11.0.0.1", "11.0.0.2"
NAMES = {
    "allowed.example.com": "11.0.0.10",
    "api.example.com": "11.0.0.10",
    "a.wild.example.com": "11.0.0.10",
    "refused.example.org": "11.0.0.20",
    "private.example.com": "10.9.9.9",
    "metadata.example.com": "169.254.169.254",
    "rebind.example.com": ["11.0.0.10", "10.9.9.9"],  # in turns
    "dns.example.net": "11.0.0.20",
    "metadata.google.internal": "169.254.169.254",
    # Names that only look like those that are allowed.
    "allowed.example.com.refused.example.org": "11.0.0.20",
    "xallowed.example.com": "11.0.0.20",
    "example.com": "11.0.0.20",
    "wild.example.com": "11.0.0.20",
    "loop.example.com": "127.0.0.1",
    "zero.example.com": "0.0.0.0",
    "host.example.com": HOST_ADDRESS,
    "slot.example.com": "100.64.0.1",
    "sixth.example.com": "fd00:ec2::254",
    "mapped.example.com": "::ffff:10.9.9.9",
    "service.example.com": "11.0.0.10",
    "tool.example.com": "11.0.0.10",
    "api.anthropic.com": "11.0.0.10",
    "api.openai.com": "11.0.0.10",
    "anthropic.example.com": "11.0.0.10",
    "openai.example.com": "11.0.0.10",
}
ADDRESSES = ["11.0.0.10", "11.0.0.20", "10.9.9.9", "169.254.169.254", "11.0.0.53"]
# Where a server on every port takes what it is sent.
MORE_ADDRESSES = ["169.254.170.2", "100.100.100.200", "198.18.77.77", "198.18.255.254"]
ADDRESSES_V6 = [
    "2001:db8:99::20", "fd00:ec2::254", "fd00::1", "64:ff9b::b00:14", "64:ff9b::a9fe:a9fe", "2002:b00:14::1",
    "2001:0:b00:14::f4ff:ffeb",
]  # fmt: skip
DNS_ADDRESS = "11.0.0.53"
GREETER_PORT, SINK_PORT, SOCKS_PORT = 2525, 9, 1080
SOCKS_LOGIN = ("proxy-user", "sk-proxy-4242424242")
NEEDLE = "ATOLLCANARY"  # what is heard from any server here
TOKEN = re.compile(rb"tk[0-9a-f]{6}[0-9]{3}x")  # of an attempt (bypass.py)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


TELLING = threading.Lock()


def tell(**what):
    with TELLING:
        print(json.dumps(what), flush=True)


REDIRECTS = {
    "/redirect": "https://refused.example.org/stolen",
    "/redirect-to": "http://refused.example.org/stolen",
    "/redirect-to-address": "http://11.0.0.20/stolen",
}


GO = threading.Event()  # somebody has heard the first half of a model's answer


class Web(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked, as JSON, and writes it down."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("transfer-encoding") == "chunked":
            body = self.chunks()
        seen = {
            "at": self.server.server_address[0],
            "tls": isinstance(self.connection, ssl.SSLSocket),
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "fields": [[name, value] for name, value in self.headers.items()],
            "needle": NEEDLE,
            "body": body.decode(errors="replace"),
        }
        tell(kind="http", **seen)
        if self.path == "/go":
            GO.set()
        script = scripted.answer(self.path.partition("?")[0], seen["body"])
        if script:
            self.stream_model(*script)
            return
        text = json.dumps(seen).encode()
        if self.path == "/websocket":
            return self.switch(text)
        if self.path == "/token":  # of OAuth 2
            text = json.dumps({"access_token": "minted-access-token-1", "token_type": "Bearer"}).encode()
        kind, place = "application/json", self.path.partition("?")[0]
        if place in self.server.packages:
            kind, text = self.server.packages[place]
        if place in REDIRECTS:
            self.send_response(302)
            self.send_header("location", REDIRECTS[place] + self.path[len(place) :])
        elif self.path == "/base/within":
            self.send_response(302)
            self.send_header("location", "/base/moved")
        elif place.startswith("/apt/") and place not in self.server.packages:
            self.send_response(404)
        else:
            self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("set-cookie", "session=1")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.path == "/held":  # half of an answer, until the other side goes
            self.wfile.write(text[: len(text) // 2])
            self.rfile.read(1)
        elif self.command != "HEAD":
            self.wfile.write(text)

    def switch(self, text):
        """Accepts a WebSocket and says `text` in it, in two frames that a ping parts."""
        accept = hashlib.sha1((self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        self.send_header("sec-websocket-accept", base64.b64encode(accept).decode())
        self.end_headers()
        half = text.find(b"sk-live-") + 12
        for first, payload in ((0x01, text[:half]), (0x89, b"beat"), (0x80, text[half:]), (0x88, struct.pack(">H", 1000))):
            size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack(">H", len(payload))
            self.wfile.write(bytes([first]) + size + payload)
        self.close_connection = True

    def stream_model(self, first, second, waits):
        """An answer of a model, in two halves."""
        if waits:
            GO.clear()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.write_chunk(first)
        if not waits or GO.wait(20):
            self.write_chunk(second)
            self.write_chunk("")
        else:
            self.close_connection = True

    def write_chunk(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))
        self.wfile.flush()

    def chunks(self):
        body = b""
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return body

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_TRACE = do_PATCH = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class Greeter(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"220 greeter\r\n")
        line = self.request.recv(200)
        tell(kind="greeter", at=self.server.server_address[0], line=line.decode(errors="replace"))
        self.request.sendall(b"250 heard " + line)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def handle_error(self, *_):
        pass


class ServerV6(Server):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


class Sink(socketserver.BaseRequestHandler):
    """Takes anything, also bytes that are not finished, and says the needle."""

    def handle(self):
        self.request.settimeout(5)
        try:
            data = self.request.recv(65536)
            tell(kind="sink", at=self.client_address[0], text=data.decode(errors="replace"))
            self.request.sendall(NEEDLE.encode())
        except OSError:
            pass


class Socks(socketserver.BaseRequestHandler):
    """A SOCKS5 proxy (RFC 1928) for who logs in as SOCKS_LOGIN; knows the names by itself."""

    def take(self, count):
        data = b""
        while len(data) < count:
            data += self.request.recv(count - len(data)) or exit_thread()
        return data

    def target(self):
        kind = self.take(4)[3]
        if kind == 1:
            host = socket.inet_ntoa(self.take(4))
        else:
            host = self.take(self.take(1)[0]).decode()
        return host, struct.unpack(">H", self.take(2))[0]

    def handle(self):
        methods = self.take(self.take(2)[1])
        if 2 not in methods:
            self.request.sendall(b"\5\xff")
            return
        self.request.sendall(b"\5\2")
        self.take(1)
        login = tuple(self.take(self.take(1)[0]).decode() for _ in range(2))
        self.request.sendall(b"\1" + (b"\0" if login == SOCKS_LOGIN else b"\1"))
        host, port = self.target()
        tell(kind="socks", login=list(login), host=host, port=port)
        with socket.create_connection((NAMES.get(host, host), port), 5) as server:
            self.request.sendall(b"\5\0\0\1" + bytes(6))
            back = threading.Thread(target=pump, args=(server, self.request))
            back.start()
            pump(self.request, server)
            back.join()


def exit_thread():
    raise ConnectionError("the client has gone")


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def address_of(name, kind, turns):
    """What the name server says of a name of NAMES, for a question of type A (1) or AAAA (28)."""
    found = NAMES.get(name)
    if isinstance(found, list):
        turns[name] = turns.get(name, -1) + (kind == 1)
        found = found[max(turns[name], 0) % len(found)]
    sixth = bool(found) and ":" in found
    if not found or kind != (28 if sixth else 1):
        return b""
    return socket.inet_pton(socket.AF_INET6 if sixth else socket.AF_INET, found)


def answer_question(data, turns):
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode(errors="replace"))
        at += data[at] + 1
    name, (kind,) = ".".join(labels).lower(), struct.unpack(">H", data[at + 1 : at + 3])
    tell(kind="dns", name=name, type=kind)
    address = address_of(name, kind, turns)
    flags = 0x8180 if name in NAMES else 0x8183
    head = data[:2] + struct.pack(">HHHHH", flags, 1, 1 if address else 0, 0, 0)
    answer = struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(address)) + address if address else b""
    return head + data[12 : at + 5] + answer


def answer_names():
    """A name server for NAMES, which writes down each question."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((DNS_ADDRESS, 53))
    turns = {}
    while True:
        data, peer = sock.recvfrom(1500)
        try:
            sock.sendto(answer_question(data, turns), peer)
        except (IndexError, struct.error):
            tell(kind="dns", name="", type=0)


def describe(frame):
    """(from, to, protocol, port) of a frame: addresses as text, for IPv4 and IPv6; else its type alone."""
    (kind,) = struct.unpack(">H", frame[12:14])
    if kind == 0x0800 and len(frame) >= 34:
        start = 14 + (frame[14] & 15) * 4
        port = struct.unpack(">H", frame[start + 2 : start + 4])[0] if frame[23] in (6, 17) and len(frame) >= start + 4 else 0
        return socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34]), frame[23], port
    if kind == 0x86DD and len(frame) >= 54:
        return socket.inet_ntop(10, frame[22:38]), socket.inet_ntop(10, frame[38:54]), frame[20], 0
    return "", "", f"type {kind:04x}", 0


def watch(link, say, outgoing=False):
    """Says each new kind of frame that comes in over the link, or goes out, and each that carries a token. Ends with the
    link."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    sock.bind((link, 0))
    known = set()
    while True:
        try:
            frame, where = sock.recvfrom(70000)
        except OSError:
            return
        if (where[2] == socket.PACKET_OUTGOING) != outgoing or len(frame) < 14:
            continue
        flow, tokens = describe(frame), sorted({token.decode() for token in TOKEN.findall(frame)})
        if tokens or flow not in known:
            known.add(flow)
            say(kind="packet", link=link, source=flow[0], to=flow[1], protocol=flow[2], port=flow[3], tokens=tokens)


def serve(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _, name, __: tell(kind="tls", name=name or "")
    context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    packages = everything("api.example.com")
    for address in ADDRESSES[:4]:
        plain = Server((address, 80), Web)
        secure = Server((address, 443), Web)
        secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
        plain.packages = secure.packages = packages
        greeter = Server((address, GREETER_PORT), Greeter)
        for server in (plain, secure, greeter, Server((address, SOCKS_PORT), Socks)):
            threading.Thread(target=server.serve_forever, daemon=True).start()
    for kind, address in ((Server, "0.0.0.0"), (ServerV6, "::")):
        threading.Thread(target=kind((address, SINK_PORT), Sink).serve_forever, daemon=True).start()
    threading.Thread(target=answer_names, daemon=True).start()
    threading.Thread(target=watch, args=("out0", tell), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        tell(kind="so far", number=int(line))


def make_certificates(folder):
    """An authority of our own, ca.pem, and one certificate of it for all names."""
    names = ",".join("DNS:" + name for name in [*NAMES, "*.wild.example.com"]) + ",IP:11.0.0.10"
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=outside", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem",
    )  # fmt: skip
    run(
        "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=server",
        "-keyout", f"{folder}/server.key", "-out", f"{folder}/server.csr",
    )  # fmt: skip
    with open(f"{folder}/ext", "w") as ext:
        ext.write(f"subjectAltName={names}\n")
    run(
        "openssl", "x509", "-req", "-in", f"{folder}/server.csr", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key",
        "-days", "2", "-extfile", f"{folder}/ext", "-out", f"{folder}/server.pem",
    )  # fmt: skip


class Outside:
    """The other side of this namespace's uplink. `seen` grows with everything that its servers get, `packets` with what the
    wire brings: one of each kind, and each that carries a token."""

    def __init__(self, folder):
        self.folder, self.seen, self.packets, self.children = folder, [], [], []
        self.grown = threading.Condition()
        self.asked = self.heard = 0

    def start(self):
        make_certificates(self.folder)
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.children.append(holder)
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.005)
        inside = ["nsenter", "-n", "-t", str(holder.pid)]
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "out0", "netns", str(holder.pid))
        run("ip", "address", "add", HOST_ADDRESS + "/30", "dev", "up0")
        run("ip", "link", "set", "up0", "up")
        run("ip", "route", "add", "default", "via", GATE_ADDRESS)
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "link", "set", "out0", "up")
        run(*inside, "ip", "address", "add", GATE_ADDRESS + "/30", "dev", "out0")
        for address in ADDRESSES + MORE_ADDRESSES:
            run(*inside, "ip", "address", "add", address + "/32", "dev", "lo")
        for address in ADDRESSES_V6:
            run(*inside, "ip", "-6", "address", "add", address + "/128", "dev", "lo")
        served = f"ip daddr {{ {', '.join(ADDRESSES[:4])} }} tcp dport {{ 80, 443, {GREETER_PORT}, {SOCKS_PORT} }} return"
        chain = f"type nat hook prerouting priority dstnat; {served}; meta l4proto tcp redirect to :{SINK_PORT};"
        run(*inside, "nft", f"table inet sink {{ chain in {{ {chain} }}; }}")
        server = subprocess.Popen(
            [*inside, sys.executable, os.path.abspath(__file__), self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.children.append(server)
        self.server = server
        if server.stdout.readline().strip() != "ready":
            raise RuntimeError("the servers outside did not start")
        threading.Thread(target=self.listen, args=(server,), daemon=True).start()

    def listen(self, server):
        for line in server.stdout:
            one = json.loads(line)
            with self.grown:
                if one["kind"] == "so far":
                    self.heard = one["number"]
                else:
                    (self.packets if one["kind"] == "packet" else self.seen).append(one)
                self.grown.notify_all()

    def catch_up(self):
        """Waits for everything that was written down until now."""
        with self.grown:
            self.asked += 1
            number = self.asked
            self.server.stdin.write(f"{number}\n")
            self.server.stdin.flush()
            if not self.grown.wait_for(lambda: self.heard >= number, timeout=60):
                raise TimeoutError("the servers outside do not say what they have seen")

    def mark(self):
        self.catch_up()
        return len(self.seen)

    def since(self, mark, kind=None):
        self.catch_up()
        return [one for one in self.seen[mark:] if kind is None or one["kind"] == kind]

    def stop(self):
        for child in self.children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
