# SPDX-License-Identifier: Apache-2.0
"""Another tenant's objects, other tiers, and hostile keys (A01, A02, A03, V11, N07, G08).

The routes come from the sources of the API, so that a new one is covered when it is written.
"""
import json
import os
import re

from api import Api

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/api")
UNKNOWN = "i" + "z" * 20


def routes():
    found = []
    for name in sorted(os.listdir(SOURCES)):
        if name.endswith(".cc") and not name.endswith("_test.cc"):
            with open(os.path.join(SOURCES, name)) as file:
                found += re.findall(r'\{"([A-Z]+)", "(/[^"]*)", Auth::(k\w+)', file.read())
    return found


class Tenants:
    def __init__(self, world, instance, api, sandbox, report):
        self.world, self.instance, self.api, self.sandbox, self.report = world, instance, api, sandbox, report

    def make_other(self):
        tenant = self.api.expect((201,), "POST", "/v1/tenants", {"name": "other"}).json()
        name = tenant.get("id") or tenant.get("tenant") or "other"
        made = self.api.expect((201,), "POST", "/v1/keys", {"name": "other", "tenant": name}).json()
        self.other = Api(self.instance.port, made["key"])
        self.other_tenant = name

    def same_as_unknown(self, method, pattern):
        """The other tenant gets, for an object that exists, exactly what it gets for one that does not."""
        body = {"timeout": 60, "duration": 60} if method in ("POST", "PUT", "PATCH") else None
        answers = []
        for name in (self.sandbox.id, UNKNOWN):
            path = pattern.replace("{sandboxID}", name)
            answer = self.other.call(method, re.sub(r"\{\w+\}", "x", path), body)
            answers.append((answer.status, answer.body.decode().replace(name, "<id>")))
        same = answers[0] == answers[1]
        allowed = answers[0][0] in ((404, 501, 403) if "{sandboxID}" in pattern else range(600))
        self.report.check(f"A01.{method} {pattern}", same and allowed, f"{answers}")

    def objects(self):
        listed = routes()
        self.report.check("A01.routes", len(listed) > 30, f"{len(listed)} routes found in the sources")
        key_id = self.api.call("GET", "/v1/keys").json()["keys"][0]["id"]
        for method, pattern, auth in listed:
            if "{sandboxID}" in pattern:
                self.same_as_unknown(method, pattern)
            if auth == "kAdmin":
                answer = self.other.call(
                    method, re.sub(r"\{\w+\}", "x", pattern), {} if method == "POST" else None
                )
                self.report.check(
                    f"A03.{method} {pattern}",
                    answer.status in (403, 404),
                    f"a member's key gets HTTP {answer.status}",
                )
        self.report.check(
            "A01.alive", self.api.get(self.sandbox.id).status == 200, "the other tenant has ended it"
        )
        for path in (
            "/v2/sandboxes",
            "/sandboxes",
            "/v1/sandboxes",
            "/v1/events",
            f"/sandboxes/metrics?sandbox_ids={self.sandbox.id}",
        ):
            body = self.other.call("GET", path).body.decode()
            self.report.check(f"A01.list {path}", self.sandbox.id not in body, body[:200])
        status = self.other.call("DELETE", f"/v1/keys/{key_id}").status
        still = self.api.call("GET", "/v1/keys").status
        self.report.check(
            "A01.revoke_key", status == 404 and still == 200, f"HTTP {status}, the key then answers {still}"
        )

    def escalation(self):
        cases = {
            "admin key": {"name": "x", "role": "admin"},
            "key of another tenant": {"name": "x", "tenant": "default"},
        }
        for name, body in cases.items():
            answer = self.other.call("POST", "/v1/keys", body)
            self.report.check(
                f"A03.{name}",
                answer.status in (403, 404)
                or (
                    answer.status == 201
                    and answer.json().get("tenant") == self.other_tenant
                    and answer.json().get("role") != "admin"
                ),
                f"HTTP {answer.status} {answer.body[:200]!r}",
            )
        extra = {
            "tenant": "default",
            "owner": "default",
            "id": self.sandbox.id,
            "sandboxID": self.sandbox.id,
            "state": "paused",
            "hostPath": "/",
            "volumes": ["/:/host"],
            "privileged": True,
            "uid": 0,
            "slot": 0,
        }
        answer = self.other.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 30, **extra})
        made = answer.json() if answer.status == 201 else {}
        self.report.check(
            "A02.mass_assignment",
            answer.status in (400, 404) or made.get("sandboxID") not in (None, self.sandbox.id),
            f"HTTP {answer.status} {answer.body[:200]!r}",
        )
        if made:
            listed = self.api.call("GET", "/v2/sandboxes").body.decode()
            self.report.check(
                "A02.owner", made["sandboxID"] not in listed, "an owner named in the body was taken"
            )
            self.other.kill(made["sandboxID"])

    def tiers(self):
        """A tier that is not there is refused; never something weaker instead."""
        offered = self.api.call("GET", "/v1/host").json()["isolation"]
        for tier in ("gvisor", "microvm"):
            for name, body, headers in (
                (f"{tier}.body", {"isolation": tier}, {}),
                (f"{tier}.header", {}, {"X-Atoll-Isolation": tier}),
                (f"{tier}.nul", {"isolation": tier + "\0"}, {}),
                (f"{tier}.case", {"isolation": tier.upper()}, {}),
            ):
                answer = self.api.call(
                    "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 30, **body}, headers=headers
                )
                if tier in offered and answer.status == 201:
                    self.report.check(
                        f"V11.{name}", answer.json().get("isolation") == tier, f"{answer.body[:200]!r}"
                    )
                else:
                    self.report.check(
                        f"V11.{name}",
                        answer.status in (400, 501, 503),
                        f"HTTP {answer.status} {answer.body[:200]!r}",
                    )
        detail = self.api.get(self.sandbox.id).json()
        self.report.check(
            "V11.told", detail.get("isolation") == "container", f"get says {detail.get('isolation')!r}"
        )

    def allow_lists(self):
        """Nothing that is not an address may be taken for one; an empty list opens nothing (N07)."""
        bad = [
            "1.2.3.4\0.5",
            "01.2.3.4",
            "1.2.3",
            "1.2.3.4/33",
            "1.2.3.4/-1",
            "1.2.3.4/8",
            "0x1.2.3.4",
            "16909060",
            "::ffff:1.2.3.4",
            "fe80::1%eth0",
            "1.2.3.4@5.6.7.8",
            "1.2.3.4:80",
            " 1.2.3.4",
            "1.2.3.4 ",
            "",
            "１.2.3.4",
        ]
        for text in bad:
            for key in ("denyOut", "allowOut"):
                answer = self.api.call(
                    "PUT",
                    f"/sandboxes/{self.sandbox.id}/network",
                    {key: [text], **({"denyOut": ["0.0.0.0/0"]} if key == "allowOut" else {})},
                )
                self.report.check(
                    f"N07.{key}.{text!r}",
                    answer.status in (400, 501),
                    f"HTTP {answer.status} {answer.body[:120]!r}",
                )
        self.api.call("PUT", f"/sandboxes/{self.sandbox.id}/network", {})

    def opened_ranges(self):
        """Naming a forbidden range in allowOut opens nothing (checked by connecting to it)."""
        import world as ground

        probes = {
            "169.254.169.254": "N01.metadata",
            "100.100.100.200": "N01.metadata_alibaba",
            "10.99.0.2": "N01.private_10",
            "172.16.99.2": "N01.private_172",
            "192.168.99.2": "N01.private_192",
        }
        for allowed in (
            [*probes],
            ["0.0.0.0/0"],
            ["0.0.0.0/1", "128.0.0.0/1"],
            ["169.254.0.0/16", "10.0.0.0/8", "100.64.0.0/10"],
        ):
            answer = self.api.call("PUT", f"/sandboxes/{self.sandbox.id}/network", {"allowOut": allowed})
            self.world.forget_hits()
            for probe in probes.values():
                self.sandbox.run(
                    [
                        "/usr/local/bin/escape_probe",
                        "run",
                        probe,
                        f"nonce={self.world.nonce}",
                        f"metadata_port={self.world.metadata_port}",
                    ],
                    user="root",
                    timeout=15,
                )
            hits = [probe for probe in probes.values() if self.world.hit(probe)]
            self.report.check(f"N01.allowed {allowed[0]}", not hits, f"HTTP {answer.status}, reached: {hits}")
        closed = self.api.call("PUT", f"/sandboxes/{self.sandbox.id}/network", {"denyOut": ["0.0.0.0/0"]})
        out = json.loads(
            self.sandbox.run(
                [
                    "/usr/local/bin/escape_probe",
                    "run",
                    "N00.world",
                    f"world={ground.WORLD_ADDRESS}",
                    f"world_port={self.world.world_port}",
                    f"nonce={self.world.nonce}",
                ],
                user="root",
                timeout=15,
            ).stdout
        )
        self.report.check(
            "N01.closed",
            closed.status == 204 and out["result"] == "BLOCKED",
            f"HTTP {closed.status}, the way out: {out['result']} {out['errno']}",
        )
        self.api.call("PUT", f"/sandboxes/{self.sandbox.id}/network", {})

    def keys(self):
        good = self.api.key
        for name, key in (
            ("sql", "' OR '1'='1"),
            ("sql_union", "e2b_' UNION SELECT 1 --"),
            ("empty", ""),
            ("prefix", good[:-1]),
            ("longer", good + "0"),
            ("upper", good.upper()),
            ("nul", good + "%00"),
            ("million", "e2b_" + "a" * 60000),
            ("spaces", f"{good} {good}"),
            ("zeros", "e2b_" + "0" * 40),
        ):
            try:
                answer = Api(self.instance.port, key).call("GET", "/v2/sandboxes")
                self.report.check(
                    f"G08.{name}",
                    answer.status in (400, 401, 431),
                    f"HTTP {answer.status} {answer.body[:120]!r}",
                )
                self.report.check(
                    f"A12.{name}",
                    good not in answer.body.decode() and "sandboxID" not in answer.body.decode(),
                    "the answer tells a secret",
                )
            except (OSError, ValueError) as error:
                self.report.check(f"G08.{name}", self.instance.answers(), f"{error}")
        for sent in (
            {"X-API-KEY": "", "Authorization": f"Bearer {self.sandbox.token}"},
            {"X-API-KEY": self.sandbox.token},
        ):
            answer = self.api.call("GET", "/v2/sandboxes", headers=sent)
            self.report.check("A03.sandbox_token_on_api", answer.status == 401, f"HTTP {answer.status}")
        answer = self.sandbox.call(
            "POST",
            "/process.Process/List",
            "{}",
            headers={"X-Access-Token": good, "Content-Type": "application/json"},
        )
        self.report.check("A03.api_key_on_sandbox", answer.status == 401, f"HTTP {answer.status}")
        log = open(self.instance.control.log).read() + open(self.instance.runner.log).read()
        self.report.check(
            "A12.logs", good not in log and self.sandbox.token not in log, "a secret stands in a log"
        )

    def run(self):
        self.report.check(
            "A01.control", self.api.get(self.sandbox.id).status == 200, "the owner sees its sandbox"
        )
        for step in (
            self.make_other,
            self.objects,
            self.escalation,
            self.tiers,
            self.allow_lists,
            self.opened_ranges,
            self.keys,
        ):
            try:
                step()
            except Exception as error:
                self.report.fail(f"tenants.{step.__name__}", f"{type(error).__name__}: {error}")
