# SPDX-License-Identifier: Apache-2.0
"""A gateway that believes everything, for the control of the matrix: what gets out through it is an attempt that can succeed.

    python3 careless.py ADDRESS PORT...
"""
import re
import socket
import socketserver
import sys
import threading
import urllib.parse


def number(text):
    """A port as careless programs read it."""
    try:
        return int(text, 0) & 0xFFFF
    except ValueError:
        return int(text or "80") & 0xFFFF


def place(authority):
    """(host, port) of anything that looks a little like one."""
    text = re.split(r"[\0#/\\ \t,]", urllib.parse.unquote(authority.decode(errors="replace")).rpartition("@")[2])
    port = text[-1].rpartition(":")[2] if ":" in text[-1].rpartition("]")[2] else "80"
    bracket = re.match(r"\[([^\]%]*)", text[0])
    host = bracket[1] if bracket else text[0].partition(":")[0]
    if bracket and host.startswith("::") and "." in socket.inet_ntop(10, socket.inet_pton(10, host)):
        host = socket.inet_ntoa(socket.inet_pton(10, host)[12:])
    return host.rstrip("."), number(port.strip())


class Careless(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(5)
        try:
            self.serve(self.request.recv(65536))
        except (OSError, ValueError, UnicodeError):
            pass

    def serve(self, data):
        greeting, target, first = b"", ("refused.example.org", 80), data
        words = data.split(b"\r\n", 1)[0].split(b" ")
        if data[:1] == b"\5":  # SOCKS 5, then 4
            self.request.sendall(b"\5\0")
            data = self.request.recv(65536)
            first = data[7 + data[4] :]
        elif data[:1] == b"\4":
            target, first = (socket.inet_ntoa(data[4:8]), 80), data[9:]
        elif words[0] == b"CONNECT":
            greeting = b"HTTP/1.1 200 yes\r\n\r\n"
            target, first = place(b" ".join(words[1:-1])), data.partition(b"\r\n\r\n")[2]
        elif len(words) > 1 and b"://" in words[1]:
            target = place(words[1].split(b"://", 1)[1].partition(b"/")[0])
        elif host := re.search(rb"(?i)\nhost: *([^\r\n]*)", data):
            target = place(host[1])
        with socket.create_connection(target, 3) as server:
            self.request.sendall(greeting)
            server.sendall(first)
            threading.Thread(target=self.pump, args=(self.request, server), daemon=True).start()
            self.pump(server, self.request)

    @staticmethod
    def pump(source, target):
        try:
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def handle_error(self, *_):
        pass


if __name__ == "__main__":
    for port in sys.argv[2:]:
        threading.Thread(target=Server((sys.argv[1], int(port)), Careless).serve_forever).start()
    print("ready", flush=True)
