# SPDX-License-Identifier: Apache-2.0
"""Checks of gateway.py: rules of operator, tenants and templates, rates, and commands without network."""
import json
import os

from expecting import expect
from outside import GREETER_PORT

CHECKS = []
NONE = json.dumps({"version": 1})


def check(function):
    CHECKS.append(function)
    return function


def set_rules(stage, author, name, *rules, **more):
    """The rules of a tenant or a template; the answer to it."""
    return stage.api.call("PUT", f"/v1/policies/{author}/{name}", {"version": 1, "rules": list(rules), **more})


@check
def rules_of_tenant_and_template_bind_sandboxes_at_once(stage):
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    sandbox = stage.open()
    url = "http://allowed.example.com/"
    try:
        expect(stage.curl(sandbox, url)[:2] == (0, 200), "it was reachable")
        sandbox.background(
            "python3 -c \"import socket; s=socket.create_connection(('allowed.example.com', %d)); s.recv(9); "
            "open('/tmp/in','w'); s.recv(99); open('/tmp/over','w')\" 2>/dev/null; touch /tmp/over" % GREETER_PORT
        )
        stage.until(lambda: sandbox.read("/tmp/in").status == 200, "the connection")
        answer = set_rules(stage, "tenant", tenant, {"id": "no", "action": "deny", "hosts": ["allowed.example.com"]})
        expect(answer.status == 200, answer.body)
        code, status, body = stage.curl(sandbox, url)
        expect(code != 0 or (status == 403 and "tenant/no" in body), f"curl {code}, HTTP {status}: {body}")
        stage.until(lambda: sandbox.read("/tmp/over").status == 200, "the end of the connection")
        # A mistake changes nothing, and a sandbox opens nothing that its tenant leaves closed.
        expect(set_rules(stage, "tenant", tenant, {"action": "deny"}).status == 400, "a broken set was taken")
        expect(stage.curl(sandbox, url)[1] != 200, "a broken set opened it")
        answer = set_rules(stage, "tenant", tenant, {"action": "allow", "hosts": ["api.example.com"]}, default="deny")
        expect(answer.status == 200, answer.body)
        expect(stage.curl(stage.named(), url)[1] != 200, "the sandbox's own allowOut went before the tenant's default")
        expect(stage.curl(sandbox, "http://api.example.com/")[:2] == (0, 200), "what all allow")
        told = stage.api.call("POST", f"/v1/sandboxes/{sandbox.id}/policy", {"url": url}).json()
        expect(told["verdict"] == "deny" and "tenant" in told["hint"], told)
        # Kept over a restart.
        stage.instance.gateway.kill()
        stage.instance.gateway.start()
        stage.until(lambda: stage.curl(sandbox, "http://api.example.com/")[:2] == (0, 200), "the gateway's return")
        expect(stage.curl(sandbox, url)[1] != 200, "the rules were lost")
        stage.api.expect((204,), "DELETE", f"/v1/policies/tenant/{tenant}")
        expect(stage.curl(sandbox, url)[:2] == (0, 200), "it is reachable again")
        answer = set_rules(stage, "template", "base", {"id": "no", "action": "deny", "hosts": ["allowed.example.com"]})
        expect(answer.status == 200 and stage.curl(sandbox, url)[1] != 200, "the template's rules")
    finally:
        stage.api.call("DELETE", f"/v1/policies/tenant/{tenant}")
        stage.api.call("DELETE", "/v1/policies/template/base")
    expect(stage.curl(sandbox, url)[:2] == (0, 200), "it is reachable again")


@check
def a_request_under_way_is_judged_by_changed_rules(stage):
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    sandbox = stage.open()
    sandbox.background("curl -sSN http://allowed.example.com/held >/tmp/held; touch /tmp/held-over")

    def began():
        held = sandbox.read("/tmp/held")
        return held.status == 200 and held.body

    try:
        stage.until(began, "the first half of the answer")
        rule = {"id": "other", "action": "deny", "hosts": ["allowed.example.com"], "paths": ["/another"]}
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "a rule that is not about it")
        expect(sandbox.read("/tmp/held-over").status == 404, "it was cut for no reason")
        rule["paths"].append("/held")
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "a rule that is about it")
        stage.until(lambda: sandbox.read("/tmp/held-over").status == 200, "its end")
    finally:
        stage.api.call("DELETE", f"/v1/policies/tenant/{tenant}")


@check
def rules_of_the_operator_follow_their_file(stage):
    sandbox, url = stage.open(), "http://allowed.example.com/"

    def write(text):
        with open(stage.rules + ".new", "w") as file:
            file.write(text)
        os.rename(stage.rules + ".new", stage.rules)

    def problem():
        listed = stage.api.call("GET", "/v1/policies").json()["policies"]
        return [one.get("problem") for one in listed if one["author"] == "operator"][0]

    deny = {"version": 1, "rules": [{"id": "no", "action": "deny", "hosts": ["allowed.example.com"]}]}
    try:
        write(json.dumps(deny))
        stage.until(lambda: stage.curl(sandbox, url)[1] != 200, "the change")
        write("{")
        stage.until(problem, "the complaint")
        expect(stage.curl(sandbox, url)[1] != 200, "a broken file opened it")
    finally:
        write(NONE)
    stage.until(lambda: stage.curl(sandbox, url)[:2] == (0, 200), "the next change")
    expect(problem() is None, problem())


@check
def rates_are_counted(stage):
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    sandbox = stage.open()
    rule = {"id": "slow", "action": "adjust", "hosts": ["allowed.example.com"], "rate": "3/h"}
    try:
        expect(set_rules(stage, "tenant", tenant, rule).status == 200, "the rule")
        url, mark = "http://allowed.example.com/", stage.outside.mark()
        seen = [stage.curl(sandbox, url)[1] for _ in range(5)]
        expect(seen == [200, 200, 200, 429, 429], seen)
        expect(len(stage.outside.since(mark, "http")) == 3, "refused requests arrived outside")
        outcome = sandbox.run(f"curl -sS -m 10 -D - -o /dev/null {url}")
        expect(b"retry-after: 1" in outcome.stdout.lower() and b"tenant/slow" in outcome.stdout, outcome.stdout)
        # Also by another gateway.
        stage.instance.gateway.kill()
        stage.instance.gateway.start()
        seen = []
        stage.until(lambda: seen.append(stage.curl(sandbox, url)[1]) or seen[-1] != 0, "its knowledge of the sandbox")
        expect(seen[-1] == 429, seen)
    finally:
        stage.api.call("DELETE", f"/v1/policies/tenant/{tenant}")


@check
def a_command_without_network_sends_nothing(stage):
    sandbox, mark = stage.open(), stage.outside.mark()
    command = (
        "curl -sS -m 5 http://11.0.0.10/; python3 -c \"import socket; socket.create_connection(('11.0.0.10', 80))\"; "
        "sudo -n curl -sS -m 5 http://11.0.0.10/; (curl -sS -m 5 http://11.0.0.10/ &) ; true"
    )
    for user in ("user", "root"):
        outcome = sandbox.run(command, user=user, envs={"ATOLL_NETWORK": "none"})
        expect(b"Permission denied" in outcome.stderr, outcome.stderr)
    expect(not stage.outside.since(mark), f"arrived outside: {stage.outside.since(mark)}")
    expect(stage.curl(sandbox, "http://11.0.0.10/")[:2] == (0, 200), "other commands have it")
