# SPDX-License-Identifier: Apache-2.0
# A service inside the sandbox for the ingress tests: service.py ADDRESS PORT
import base64
import hashlib
import json
import os
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_body(self, body, status=200, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def start_chunks(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def do_GET(self):
        url = urlparse(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path == "/headers":
            pairs = [[name.lower(), value] for name, value in self.headers.items()]
            self.send_body(json.dumps({"target": self.path, "method": self.command, "headers": pairs}).encode())
        elif url.path == "/bytes":
            self.send_body(b"x" * int(query["n"]))
        elif url.path == "/stream":  # one event, then the next when the file `gate` exists, then the end
            self.start_chunks()
            self.chunk(b"data: one\n\n")
            while not os.path.exists(query["gate"]):
                time.sleep(0.02)
            self.chunk(b"data: two\n\n")
            self.wfile.write(b"0\r\n\r\n")
        elif url.path == "/endless":  # until the reader goes; then writes the file `left`
            self.start_chunks()
            try:
                while True:
                    self.chunk(b"tick\n")
                    time.sleep(0.05)
            except OSError:
                open(query["left"], "w").write("left")
        elif url.path == "/break":  # half an answer
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
        elif url.path == "/cookie":
            self.send_body(b"ok", Set_Cookie="a=1; Domain=.atoll.localhost; Path=/")
        elif url.path == "/status":
            self.send_body(b"", status=int(query["code"]))
        elif url.path == "/ws":
            self.websocket()
        else:
            self.send_body(b"hello from the sandbox\n")

    do_HEAD = do_GET
    do_DELETE = do_GET
    do_OPTIONS = do_GET

    def do_POST(self):
        self.start_chunks()
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.chunk(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", "0"))
            while left > 0:
                part = self.rfile.read1(min(left, 65536))
                left -= len(part)
                self.chunk(part)
        self.wfile.write(b"0\r\n\r\n")

    do_PUT = do_POST

    def websocket(self):  # RFC 6455: answers each text frame with its text in upper case
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            kind, size = head[0] & 15, head[1] & 127
            if size == 126:
                size = int.from_bytes(self.rfile.read(2), "big")
            elif size == 127:
                size = int.from_bytes(self.rfile.read(8), "big")
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))
            if kind == 8:
                self.frame(8, data)
                return
            self.frame(kind if kind != 9 else 10, data.upper() if kind == 1 else data)

    def frame(self, kind, data):
        head = bytes([0x80 | kind])
        if len(data) < 126:
            head += bytes([len(data)])
        elif len(data) < 65536:
            head += bytes([126]) + len(data).to_bytes(2, "big")
        else:
            head += bytes([127]) + len(data).to_bytes(8, "big")
        self.wfile.write(head + data)


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def server_bind(self):  # without the name lookup of the base class
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
