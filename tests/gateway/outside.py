# SPDX-License-Identifier: Apache-2.0
"""What lies outside the gateway in its tests: a network namespace with name servers, web servers and other servers, which
write down everything that reaches them. Run as a program it is that namespace's servers; the class starts it.

  11.0.0.10   allowed.example.com, api.example.com, *.wild.example.com: HTTP 80, HTTPS 443, a greeter 2525 (speaks first)
  11.0.0.20   refused.example.org: the same
  10.9.9.9    private.example.com: an address that must never be reached
  11.0.0.53   the name server
"""
import http.server
import json
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import time

HOST_ADDRESS, GATE_ADDRESS = "11.0.0.1", "11.0.0.2"
NAMES = {
    "allowed.example.com": "11.0.0.10",
    "api.example.com": "11.0.0.10",
    "a.wild.example.com": "11.0.0.10",
    "refused.example.org": "11.0.0.20",
    "private.example.com": "10.9.9.9",
    "metadata.example.com": "169.254.169.254",
    "rebind.example.com": "10.9.9.9",
}
ADDRESSES = ["11.0.0.10", "11.0.0.20", "10.9.9.9", "169.254.169.254", "11.0.0.53"]
DNS_ADDRESS = "11.0.0.53"
GREETER_PORT = 2525


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def tell(**what):
    print(json.dumps(what), flush=True)


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
            "body": body.decode(errors="replace"),
        }
        tell(kind="http", **seen)
        text = json.dumps(seen).encode()
        if self.path == "/token":  # of OAuth 2
            text = json.dumps({"access_token": "minted-access-token-1", "token_type": "Bearer"}).encode()
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("location", "https://refused.example.org/stolen")
        else:
            self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("set-cookie", "session=1")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.path == "/held":  # half of an answer, until the other side goes
            self.wfile.write(text[: len(text) // 2])
            self.rfile.read(1)
        elif self.command != "HEAD":
            self.wfile.write(text)

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


def answer_names():
    """A name server for NAMES, which writes down each question."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((DNS_ADDRESS, 53))
    while True:
        data, peer = sock.recvfrom(1500)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += data[at] + 1
        name, (kind,) = ".".join(labels).lower(), struct.unpack(">H", data[at + 1 : at + 3])
        tell(kind="dns", name=name, type=kind)
        address = NAMES.get(name)
        flags = 0x8180 if address else 0x8183
        answer = struct.pack(">HHIH", 0xC00C, 1, 0, 0)[:0]
        count = 0
        if address and kind == 1:
            count = 1
            answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 30, 4) + socket.inet_aton(address)
        head = data[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0)
        sock.sendto(head + data[12 : at + 5] + answer, peer)


def serve(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    for address in ADDRESSES[:4]:
        plain = Server((address, 80), Web)
        secure = Server((address, 443), Web)
        secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
        greeter = Server((address, GREETER_PORT), Greeter)
        for server in (plain, secure, greeter):
            threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=answer_names, daemon=True).start()
    print("ready", flush=True)
    while True:
        time.sleep(3600)


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
    """The other side of this namespace's uplink. `seen` grows with everything that arrives there."""

    def __init__(self, folder):
        self.folder, self.seen, self.children = folder, [], []
        self.grown = threading.Condition()

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
        for address in ADDRESSES:
            run(*inside, "ip", "address", "add", address + "/32", "dev", "lo")
        server = subprocess.Popen(
            [*inside, sys.executable, os.path.abspath(__file__), self.folder], stdout=subprocess.PIPE, text=True
        )
        self.children.append(server)
        if server.stdout.readline().strip() != "ready":
            raise RuntimeError("the servers outside did not start")
        threading.Thread(target=self.listen, args=(server,), daemon=True).start()

    def listen(self, server):
        for line in server.stdout:
            with self.grown:
                self.seen.append(json.loads(line))
                self.grown.notify_all()

    def mark(self):
        return len(self.seen)

    def since(self, mark, kind=None):
        return [one for one in self.seen[mark:] if kind is None or one["kind"] == kind]

    def stop(self):
        for child in self.children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
