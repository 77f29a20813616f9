# SPDX-License-Identifier: Apache-2.0
"""Checks of gateway.py: requests that a person must approve."""
import contextlib
import json
import os

from api import Api
from expecting import expect
from outside import GREETER_PORT, HOST_ADDRESS
from rules import set_rules
from stand_ins import token_of

CHECKS = []
URL = "http://allowed.example.com/pay/bob"
SECRET = "sk-live-0d6cfa1b5f8e4c63a1f2"


def check(function):
    CHECKS.append(function)
    return function


@contextlib.contextmanager
def asking(stage, **terms):
    """A sandbox whose tenant asks about what is below /pay. Its rule holds for the time of the block."""
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    rule = {"id": "pay", "action": "ask", "hosts": ["allowed.example.com"], "paths": ["/pay/**"], **terms}
    answer = set_rules(stage, "tenant", tenant, rule)
    expect(answer.status == 200, answer.body)
    sandbox = stage.create()
    try:
        yield sandbox
    finally:
        sandbox.kill()  # first: what still waits would go out when nobody asks any more
        stage.api.call("DELETE", f"/v1/policies/tenant/{tenant}")


class Held:
    """A request from inside that may take its time."""

    def __init__(self, stage, sandbox, name, body="five", url=URL):
        self.stage, self.sandbox, self.file = stage, sandbox, f"/tmp/held-{name}"
        sandbox.write("/tmp/asked-" + name, body.encode())
        sandbox.background(
            f"curl -sS -m 120 -o {self.file}.body --data-binary @/tmp/asked-{name} -w '%{{http_code}}' {url} >{self.file} & "
            f"echo $! >{self.file}.pid; wait; touch {self.file}.over"
        )

    def leave(self):
        self.sandbox.run(f"kill -9 $(cat {self.file}.pid)")

    def over(self):
        return self.sandbox.read(self.file + ".over").status == 200

    def answer(self):
        """(HTTP status, body)"""
        self.stage.until(self.over, "the answer", 90)
        return int(self.sandbox.read(self.file).body), self.sandbox.read(self.file + ".body").body.decode()


def listed(stage, sandbox, state="pending"):
    answer = stage.api.expect((200,), "GET", f"/v1/approvals?sandbox={sandbox.id}&state={state}")
    return answer.json()["approvals"]


def waiting(stage, sandbox):
    """The one that waits for a person, once it does."""
    stage.until(lambda: listed(stage, sandbox), "the question")
    (one,) = listed(stage, sandbox)
    return one


def decide(stage, one, decision, api=None, **more):
    return (api or stage.api).call("POST", f"/v1/approvals/{one['approvalID']}", {"decision": decision, **more})


def paid(stage, mark):
    return [one for one in stage.outside.since(mark, "http") if one["path"].startswith("/pay")]


def post(stage, sandbox, body="five", url=URL, *more):
    code, status, text = stage.curl(sandbox, url, "--data-binary", body, *more)
    expect(code == 0, f"curl {code}: {text}")
    return status, json.loads(text)


def told(stage, sandbox, approval):
    """The types of its events, and who decided."""
    events = stage.api.call("GET", f"/v1/events?sandbox={sandbox.id}&limit=1000").json()["events"]
    mine = [one for one in events if (one.get("data") or {}).get("approval") == approval]
    return {one["type"] for one in mine}, {one["data"]["decidedBy"] for one in mine if "decidedBy" in one["data"]}


@check
def a_person_approves_and_the_request_goes_once(stage):
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        held = Held(stage, sandbox, "yes", body=json.dumps({"amount": 5, "api_key": SECRET}))
        one = waiting(stage, sandbox)
        expect((one["rule"], one["method"], one["url"]) == ("tenant/pay", "POST", URL), one)
        shown = stage.api.call("GET", f"/v1/approvals/{one['approvalID']}").json()
        expect('"amount": 5' in shown["summary"] and SECRET not in json.dumps(shown), shown)
        expect(not held.over() and not paid(stage, mark), "it did not wait")
        # What is in the rows, too.
        with open(stage.instance.data_dir + "/gateway/approvals.db-wal", "rb") as rows:
            data = rows.read()
        expect(b"/pay/bob" in data and SECRET.encode() not in data, "a secret is in the rows")
        answer = decide(stage, one, "approve", reason="invoice 17")
        expect(answer.status == 200 and answer.json()["state"] == "approved", answer.body)
        status, body = held.answer()
        expect(status == 200, f"HTTP {status}: {body}")
        expect([json.loads(seen["body"])["amount"] for seen in paid(stage, mark)] == [5], "not once")
        expect(decide(stage, one, "approve").status == 409, "it was decided twice")
        (used,) = listed(stage, sandbox, "used")
        expect(used["reason"] == "invoice 17" and used["decidedBy"], used)
        wanted = {"approval.asked", "approval.approved", "approval.used"}
        stage.until(lambda: told(stage, sandbox, one["approvalID"])[0] >= wanted, "the events")
        expect(told(stage, sandbox, one["approvalID"])[1] == {used["decidedBy"]}, "who decided")
        # The next one is asked about anew.
        Held(stage, sandbox, "again", body=json.dumps({"amount": 5, "api_key": SECRET}))
        expect(waiting(stage, sandbox)["approvalID"] != one["approvalID"], "a grant was used twice")
        expect(len(paid(stage, mark)) == 1, "a grant was used twice")


@check
def a_person_denies_and_nothing_goes_out(stage):
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        held = Held(stage, sandbox, "no")
        one = waiting(stage, sandbox)
        expect(decide(stage, one, "deny", reason="not Bob").status == 200, "the denial")
        status, body = held.answer()
        said = json.loads(body)
        expect((status, said["error_code"], said["approval"]["id"]) == (403, "approval_denied", one["approvalID"]), body)
        expect("not Bob" in said["message"], body)
        # It holds: nobody is asked again about the same.
        status, said = post(stage, sandbox)
        expect((status, said["error_code"]) == (403, "approval_denied") and not listed(stage, sandbox), said)
        Held(stage, sandbox, "other", body="six")
        waiting(stage, sandbox)
        expect(not paid(stage, mark), "it went out")


@check
def a_retry_joins_and_the_same_requests_share_one_use(stage):
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        both = [Held(stage, sandbox, "first"), Held(stage, sandbox, "second")]
        one = waiting(stage, sandbox)
        tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
        rule = {"id": "pay", "action": "ask", "hosts": ["allowed.example.com"], "paths": ["/pay/**"], "holdSeconds": 0}
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "the rule that does not wait")
        # As a third: it does not wait, and is told which one it joined.
        status, said = post(stage, sandbox)
        expect((status, said["error_code"], said["approval"]["id"]) == (403, "approval_pending", one["approvalID"]), said)
        expect(decide(stage, one, "approve").status == 200, "the approval")
        answers = sorted((status, json.loads(body).get("error_code")) for status, body in (held.answer() for held in both))
        expect([status for status, _ in answers] == [200, 403], answers)
        # On a busy machine one of the two may come only when the rule no longer lets it wait.
        expect(answers[1][1] in ("approval_used", "approval_pending") and len(paid(stage, mark)) == 1, answers)


@check
def a_grant_waits_for_the_retry_on_every_way_out(stage):
    make = {"name": "allowed", "url": "https://allowed.example.com"}
    stage.api.expect((201,), "POST", "/v1/services", make)
    try:
        with asking(stage, holdSeconds=0) as sandbox:
            proxy, token = ("-x", "http://169.254.0.22:3128"), token_of(sandbox)
            secure = ("--cacert", "/etc/ssl/certs/ca-certificates.crt")  # what the sandbox trusts
            for number, (url, more) in enumerate(
                (
                    (URL, ()),
                    (URL.replace("http:", "https:"), secure),
                    (URL, proxy),
                    (URL.replace("http:", "https:"), (*secure, *proxy)),
                    ("http://atoll.internal/svc/allowed/pay/bob", ("-H", f"Authorization: Bearer {token}")),
                )
            ):
                mark, body = stage.outside.mark(), f"number {number}"
                status, said = post(stage, sandbox, body, url, *more)
                expect((status, said["error_code"]) == (403, "approval_pending"), f"{url} {more}: {said}")
                one = waiting(stage, sandbox)
                expect(said["approval"]["id"] == one["approvalID"] and said["rule"] == "tenant/pay", said)
                # Another body is another question.
                status, said = post(stage, sandbox, body + ".", url, *more)
                expect(said["approval"]["id"] != one["approvalID"], said)
                expect(decide(stage, said["approval"] | {"approvalID": said["approval"]["id"]}, "deny").status == 200, "the denial")
                expect(decide(stage, one, "approve").status == 200, "the approval")
                status, said = post(stage, sandbox, body, url, *more)
                expect(status == 200 and [seen["body"] for seen in paid(stage, mark)] == [body], f"{url} {more}: {said}")
            # What is neither HTTP nor TLS cannot be asked about.
            outcome = sandbox.run(
                "python3 -c \"import socket; s=socket.create_connection(('allowed.example.com', %d), 10); "
                "s.sendall(bytes(9)); print(s.recv(99))\""
                % GREETER_PORT
            )
            expect(b"220 greeter" not in outcome.stdout, outcome.stdout)
            sandbox.run("head -c 1048577 /dev/zero >/tmp/large")
            status, said = post(stage, sandbox, "@/tmp/large")
            expect(status == 413 and "larger than 1048576 bytes" in said["message"], said)
    finally:
        stage.api.call("DELETE", "/v1/services/allowed")


@check
def a_rule_that_changes_lets_go_of_what_waits(stage):
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    with asking(stage) as sandbox:
        mark, held = stage.outside.mark(), Held(stage, sandbox, "refused")
        waiting(stage, sandbox)
        rule = {"id": "no", "action": "deny", "hosts": ["allowed.example.com"], "paths": ["/pay/**"]}
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "the rule that denies")
        status, body = held.answer()
        expect((status, json.loads(body)["rule"]) == (403, "tenant/no") and not paid(stage, mark), body)
        stage.until(lambda: not listed(stage, sandbox), "the end of the question")
        rule = {"id": "pay", "action": "ask", "hosts": ["allowed.example.com"], "paths": ["/pay/**"]}
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "the rule that asks")
        held = Held(stage, sandbox, "let-go")
        waiting(stage, sandbox)
        stage.api.expect((204,), "DELETE", f"/v1/policies/tenant/{tenant}")
        status, body = held.answer()
        expect(status == 200 and len(paid(stage, mark)) == 1, body)


@check
def a_question_that_nobody_answers_expires_and_that_is_no_denial(stage):
    with asking(stage, expireSeconds=1) as sandbox:
        mark = stage.outside.mark()
        status, body = Held(stage, sandbox, "late").answer()
        expect((status, json.loads(body)["error_code"]) == (403, "approval_expired"), body)
        (one,) = listed(stage, sandbox, "expired")
        stage.until(lambda: "approval.expired" in told(stage, sandbox, one["approvalID"])[0], "the event")
        expect("approval.denied" not in told(stage, sandbox, one["approvalID"])[0] and "decidedBy" not in one, one)
        answer = decide(stage, one, "approve")
        expect(answer.status == 409 and b"expired" in answer.body, answer.body)
        expect(not paid(stage, mark), "it went out")


@check
def who_goes_away_and_who_pauses_takes_the_question_back(stage):
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        gone = Held(stage, sandbox, "gone")
        one = waiting(stage, sandbox)
        gone.leave()
        stage.until(lambda: listed(stage, sandbox, "cancelled"), "the end of the question")
        expect("no request" in listed(stage, sandbox, "cancelled")[0]["endedBecause"], listed(stage, sandbox, "cancelled"))
        expect(decide(stage, one, "approve").status == 409, "it was approved")
        Held(stage, sandbox, "paused", body="six")
        one = waiting(stage, sandbox)
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause")
        stage.until(lambda: len(listed(stage, sandbox, "cancelled")) == 2, "the end of the question")
        answer = stage.api.call("GET", f"/v1/approvals/{one['approvalID']}").json()
        expect(answer["state"] == "cancelled" and "paused" in answer["endedBecause"], answer)
        expect(decide(stage, one, "approve").status == 409, "it was approved")
        expect(not paid(stage, mark), "it went out")


@check
def a_grant_outlives_the_gateway_and_is_used_once(stage):
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        held = Held(stage, sandbox, "dies")
        one = waiting(stage, sandbox)
        stage.instance.gateway.kill()
        status, _ = held.answer()
        expect(status == 0, f"it got an answer from nobody: {status}")
        stage.instance.gateway.start()
        stage.until(lambda: decide(stage, one, "approve").status == 200, "the approval")
        stage.instance.gateway.kill()
        stage.instance.gateway.start()
        stage.until(lambda: stage.api.call("GET", "/v1/approvals").status == 200, "the gateway's return")
        expect([row["approvalID"] for row in listed(stage, sandbox, "approved")] == [one["approvalID"]], "the grant was lost")
        stage.until(lambda: stage.curl(sandbox, "http://allowed.example.com/")[:2] == (0, 200), "its knowledge of the sandbox")
        status, body = Held(stage, sandbox, "retry", body="five").answer()
        expect(status == 200 and len(paid(stage, mark)) == 1, f"HTTP {status}: {body}")
        stage.instance.gateway.kill()
        stage.instance.gateway.start()
        stage.until(lambda: stage.curl(sandbox, "http://allowed.example.com/")[:2] == (0, 200), "its knowledge of the sandbox")
        Held(stage, sandbox, "once-more")
        expect(waiting(stage, sandbox)["approvalID"] != one["approvalID"], "the grant was used twice")
        expect(len(paid(stage, mark)) == 1, "the grant was used twice")


@check
def only_a_key_of_the_tenant_decides(stage):
    other = stage.api.expect((201,), "POST", "/v1/tenants", {"name": f"other-{os.getpid()}"}).json()
    made = stage.api.expect((201,), "POST", "/v1/keys", {"name": "other", "tenant": other["id"]}).json()
    with asking(stage) as sandbox:
        mark = stage.outside.mark()
        held = Held(stage, sandbox, "whose")
        one = waiting(stage, sandbox)
        stranger = Api(stage.api.port, made["key"])
        expect(stranger.call("GET", "/v1/approvals").json()["approvals"] == [], "another tenant sees it")
        expect(stranger.call("GET", f"/v1/approvals/{one['approvalID']}").status == 404, "another tenant sees it")
        expect(decide(stage, one, "approve", stranger).status == 404, "another tenant decided")
        inside = Api(stage.api.port, token_of(sandbox))
        expect(decide(stage, one, "approve", inside).status == 401, "the sandbox's token decided")
        # From inside nobody speaks to the API, and the gateway's own names know no such thing.
        port = stage.api.port
        for url in (f"http://{HOST_ADDRESS}:{port}", f"http://169.254.0.22:{port}", "http://atoll.internal"):
            words = ("-d", '{"decision":"approve"}', "-H", f"X-API-Key: {inside.key}")
            code, status, body = stage.curl(sandbox, f"{url}/v1/approvals/{one['approvalID']}?by=me", *words)
            expect(code != 0 or status in (403, 404), f"{url}: curl {code}, HTTP {status}: {body}")
        expect(listed(stage, sandbox) and not held.over() and not paid(stage, mark), "somebody decided")
