# SPDX-License-Identifier: Apache-2.0
"""A small client of Atoll's API and of the guest daemon, for the tests that must see raw answers.

It speaks the wire itself (http.client only) on purpose: the suites that use it judge the server, so they must not stand
on a client that retries, hides status codes or repairs requests.
"""
import base64
import http.client
import json
import struct
import threading
import time
import urllib.parse

GUEST_PORT = 49983
LOST_CONNECTION = (ConnectionError, http.client.HTTPException, TimeoutError, OSError)


class ApiError(Exception):
    def __init__(self, status, body, what):
        super().__init__(f"{what}: HTTP {status}: {body[:300]!r}")
        self.status = status
        self.body = body


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Api:
    """One API endpoint and key. Each call opens a connection of its own, so that calls may come from any thread."""

    def __init__(self, port, key, host="127.0.0.1", timeout=60.0):
        self.port, self.key, self.host, self.timeout = port, key, host, timeout

    def call(self, method, path, body=None, headers=None, timeout=None, keep=None):
        connection = keep or http.client.HTTPConnection(self.host, self.port, timeout=timeout or self.timeout)
        sent = {"X-API-KEY": self.key}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            if keep is None:
                connection.close()

    def expect(self, statuses, method, path, body=None, **more):
        answer = self.call(method, path, body, **more)
        if answer.status not in statuses:
            raise ApiError(answer.status, answer.body, f"{method} {path}")
        return answer

    def create(self, timeout_s=300, template="base", request_timeout=None, **fields):
        body = {"templateID": template, "timeout": timeout_s, **fields}
        answer = self.expect((201,), "POST", "/v2/sandboxes", body, timeout=request_timeout)
        return Sandbox(self, answer.json())

    def get(self, sandbox_id):
        return self.call("GET", f"/sandboxes/{sandbox_id}")

    def kill(self, sandbox_id, **more):
        return self.call("DELETE", f"/sandboxes/{sandbox_id}", **more).status

    def list(self, **query):
        """All running and paused sandboxes, over all pages."""
        rows, token = [], None
        while True:
            fields = dict(query, limit="100")
            if token:
                fields["nextToken"] = token
            answer = self.expect((200,), "GET", "/v2/sandboxes?" + urllib.parse.urlencode(fields))
            rows += answer.json()
            token = answer.headers.get("x-next-token")
            if not token:
                return rows


class Outcome:
    """How a command ended. exit_code is -1 for a signal, None when the stream broke before the end came."""

    def __init__(self):
        self.pid, self.exit_code, self.status, self.error = None, None, "", None
        self.stdout, self.stderr, self.pty = b"", b"", b""


class Stream:
    """One server stream of the guest daemon's Connect RPC: iterate over its events."""

    def __init__(self, sandbox, method, message, user=None, timeout_ms=None, socket_timeout=60.0):
        body = json.dumps(message).encode()
        headers = sandbox.headers(user)
        headers.update({"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
        if timeout_ms:
            headers["Connect-Timeout-Ms"] = str(timeout_ms)
        self.connection = http.client.HTTPConnection(
            sandbox.api.host, sandbox.api.port, timeout=socket_timeout
        )
        self.connection.request(
            "POST", method, body=b"\0" + struct.pack(">I", len(body)) + body, headers=headers
        )
        self.response = self.connection.getresponse()
        if self.response.status != 200:
            raise ApiError(self.response.status, self.response.read(), method)
        self.end_error = None

    def __iter__(self):
        while True:
            head = self.response.read(5)
            if len(head) < 5:
                raise ConnectionError("stream ended without its last frame")
            flags, length = head[0], struct.unpack(">I", head[1:])[0]
            data = self.response.read(length)
            if len(data) < length:
                raise ConnectionError("stream ended inside a frame")
            message = json.loads(data)
            if flags & 2:
                self.end_error = message.get("error")
                return
            yield message.get("event", message)

    def close(self):
        self.connection.close()


class Sandbox:
    def __init__(self, api, created):
        self.api = api
        self.created = created
        self.id = created["sandboxID"]
        self.token = created.get("envdAccessToken")

    def headers(self, user=None, port=GUEST_PORT):
        sent = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port)}
        if self.token:
            sent["X-Access-Token"] = self.token
        if user:
            sent["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        return sent

    def call(self, method, path, body=None, headers=None, user=None, port=GUEST_PORT, timeout=None):
        sent = self.headers(user, port)
        sent.update(headers or {})
        return self.api.call(method, path, body, headers=sent, timeout=timeout)

    def rpc(self, method, message, user=None):
        return self.call(
            "POST",
            method,
            json.dumps(message),
            user=user,
            headers={"Content-Type": "application/json", "Connect-Protocol-Version": "1"},
        )

    def start(
        self,
        command,
        user=None,
        stdin=False,
        envs=None,
        pty=None,
        timeout_ms=None,
        socket_timeout=60.0,
        tag=None,
    ):
        """`command` is a list (exec) or a string (bash -l -c)."""
        argv = command if isinstance(command, list) else ["/bin/bash", "-l", "-c", command]
        message = {"process": {"cmd": argv[0], "args": argv[1:]}, "stdin": stdin}
        if envs:
            message["process"]["envs"] = envs
        if pty:
            message["pty"] = {"size": {"cols": pty[0], "rows": pty[1]}}
        if tag:
            message["tag"] = tag
        return Stream(self, "/process.Process/Start", message, user, timeout_ms, socket_timeout)

    def connect(self, pid, socket_timeout=60.0):
        return Stream(
            self, "/process.Process/Connect", {"process": {"pid": pid}}, socket_timeout=socket_timeout
        )

    def run(self, command, user=None, timeout=60.0, **more):
        stream = self.start(
            command, user, timeout_ms=int(timeout * 1000), socket_timeout=timeout + 10, **more
        )
        try:
            return collect(stream)
        finally:
            stream.close()

    def background(self, command, user=None, **more):
        """Starts a command and leaves it running; returns its pid inside."""
        stream = self.start(command, user, timeout_ms=0, **more)
        for event in stream:
            if "start" in event:
                return event["start"]["pid"], stream
        raise ConnectionError("no start event")

    def write(self, path, data, user="root"):
        query = urllib.parse.urlencode({"path": path, "username": user})
        answer = self.call(
            "POST", "/files?" + query, data, headers={"Content-Type": "application/octet-stream"}
        )
        if answer.status != 200:
            raise ApiError(answer.status, answer.body, f"write {path}")

    def read(self, path, user="root"):
        query = urllib.parse.urlencode({"path": path, "username": user})
        return self.call("GET", "/files?" + query, headers={"Accept-Encoding": "identity"})

    def kill(self):
        return self.api.kill(self.id)

    def signal(self, pid, name="SIGNAL_SIGKILL"):
        return self.rpc("/process.Process/SendSignal", {"process": {"pid": pid}, "signal": name})


def collect(stream):
    outcome = Outcome()
    for event in stream:
        if "start" in event:
            outcome.pid = event["start"]["pid"]
        elif "data" in event:
            for kind in ("stdout", "stderr", "pty"):
                if kind in event["data"]:
                    setattr(outcome, kind, getattr(outcome, kind) + base64.b64decode(event["data"][kind]))
        elif "end" in event:
            outcome.exit_code = event["end"].get("exitCode", 0)
            outcome.status = event["end"].get("status", "")
            outcome.error = event["end"].get("error")
    if stream.end_error:
        outcome.error = outcome.error or f"{stream.end_error.get('code')}: {stream.end_error.get('message')}"
    return outcome


def wait_until(check, seconds, what, step=0.02):
    """Polls `check` until it returns something true. Raises with the last value when the time is over."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s (last: {value!r})")
        time.sleep(step)


def in_threads(functions):
    """Runs all at once and returns their results in order; an exception is a result, too."""
    results = [None] * len(functions)

    def run(i):
        try:
            results[i] = functions[i]()
        except Exception as error:  # the caller judges
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
