# SPDX-License-Identifier: Apache-2.0
"""What the checks of gateway.py stand on: one instance with a gateway, and the sandboxes that they share."""
import json
import os
import shutil
import tempfile
import time

import rules
from api import ApiError
from expecting import Skipped, expect
from instance import Instance
from outside import Outside

ALL = "0.0.0.0/0"


class Stage:
    """One instance, its world outside, and sandboxes by what they may reach."""

    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="atoll-gateway-")
        self.outside = Outside(self.folder)
        self.sandboxes = {}
        self.more_passed = 0  # parts of checks that count by themselves

    def start(self):
        self.outside.start()
        # In a folder of their own: the gateway's user must be able to read it.
        os.makedirs(self.folder + "/rules", 0o755)
        self.rules = self.folder + "/rules/rules.json"
        with open(self.rules, "w") as file:
            file.write(rules.NONE)
        os.chmod(self.folder, 0o755)
        flags = ["--dns", "11.0.0.53:53", "--ca-file", self.folder + "/ca.pem", "--rules-file", self.rules]
        self.instance = Instance(
            self.options.programs, self.folder, name="gw", slot_first=3700, slot_count=60, ready=2, gateway=flags
        )
        self.instance.prepare()
        self.api = self.instance.start_first()
        with open(self.folder + "/ca.pem", "rb") as file:
            self.ca = file.read()

    def sandbox(self, kind, **network):
        """The sandbox of this kind, made when it is first asked for."""
        if kind not in self.sandboxes:
            made = self.create(**({"network": network} if network else {}))
            made.write("/tmp/ca.pem", self.ca)
            self.sandboxes[kind] = made
        return self.sandboxes[kind]

    def create(self, **fields):
        """A sandbox of the tier that is tested."""
        if self.options.tier != "container":
            fields["isolation"] = self.options.tier
        return self.api.create(timeout_s=900, request_timeout=120, **fields)

    def interpreter(self, **network):
        """A sandbox of code-interpreter-v1, which has more languages than `base`. There is no instance that keeps one ready."""
        folder = os.environ.get("ATOLL_TEST_INTERPRETER")
        if not folder:
            raise Skipped("there is no template code-interpreter-v1: ./test builds it and says so in ATOLL_TEST_INTERPRETER")
        self.instance.give_template(folder)
        template = {"name": "code-interpreter-v1", "buildId": os.path.basename(folder), "memoryMB": 2048, "poolSize": 0}
        template.update(public=True, user="user", workdir="/home/user")
        self.api.expect((200, 201), "POST", "/v1/templates", template)
        return self.create(template="code-interpreter-v1", network=network)

    def missing(self):
        """Why there can be no sandbox of the tier on this host now; None when there is one."""
        try:
            self.open()
        except ApiError as error:
            if error.status == 503 and b"isolation_unavailable" in error.body:
                return json.loads(error.body)["message"]
            raise

    def open(self):
        return self.sandbox("open")

    def closed(self):
        return self.sandbox("closed", denyOut=[ALL])

    def named(self):
        return self.sandbox("named", denyOut=[ALL], allowOut=["allowed.example.com", "*.wild.example.com"])

    @staticmethod
    def until(condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            expect(time.monotonic() < deadline, f"{what} did not come")
            time.sleep(0.02)

    def curl(self, sandbox, url, *more):
        """(exit code of curl, HTTP status, body)"""
        words = " ".join(f"'{word}'" for word in more)
        outcome = sandbox.run(
            f"curl -sS -m 10 --cacert /tmp/ca.pem -o /tmp/body -w '%{{http_code}}' {words} '{url}'; echo \" $?\"; "
            "cat /tmp/body 2>/dev/null; rm -f /tmp/body"
        )
        first, _, body = outcome.stdout.decode(errors="replace").partition("\n")
        status, code = first.split()
        return int(code), int(status), body

    def stop(self):
        if not self.options.keep:
            for sandbox in self.sandboxes.values():
                sandbox.kill()
        self.instance.stop()
        self.outside.stop()
        if self.options.keep:
            print("kept", self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
