# SPDX-License-Identifier: Apache-2.0
"""Checks of gateway.py: the egress proxy of E2B's network object."""
import json
import subprocess

from approvals import Held, asking, decide, waiting
from expecting import expect
from outside import GREETER_PORT, SOCKS_LOGIN, SOCKS_PORT
from rules import set_rules

CHECKS = []
USER, PASSWORD = SOCKS_LOGIN
PROXY = {"address": f"11.0.0.20:{SOCKS_PORT}", "username": USER, "password": PASSWORD}
URL = "http://allowed.example.com/"


def check(function):
    CHECKS.append(function)
    return function


def proxied(stage):
    return stage.sandbox("proxied", egressProxy=PROXY)


def speak_through(sandbox):
    return sandbox.run(
        "python3 -c \"import socket; s=socket.create_connection(('allowed.example.com', %d), 10); print(s.recv(99))\""
        % GREETER_PORT
    )


@check
def everything_takes_the_egress_proxy_and_names_go_as_names(stage):
    sandbox, mark = proxied(stage), stage.outside.mark()
    for url in (URL, "https://allowed.example.com/", "http://11.0.0.10/"):
        expect(stage.curl(sandbox, url)[:2] == (0, 200), url)
    expect(b"220 greeter" in speak_through(sandbox).stdout, "a stream that is neither HTTP nor TLS")
    asked = {(one["host"], one["port"]) for one in stage.outside.since(mark, "socks")}
    host = "allowed.example.com"
    expect(asked == {(host, 80), (host, 443), ("11.0.0.10", 80), (host, GREETER_PORT)}, asked)
    expect(not stage.outside.since(mark, "dns"), "the name was looked up here")


@check
def rules_hold_behind_the_egress_proxy(stage):
    network = {"egressProxy": PROXY, "allowOut": ["allowed.example.com"], "denyOut": ["0.0.0.0/0"]}
    sandbox, mark = stage.sandbox("proxied and named", **network), stage.outside.mark()
    expect(stage.curl(sandbox, URL)[:2] == (0, 200), "what it may reach")
    for url in ("http://refused.example.org/", "https://refused.example.org/", "http://11.0.0.20/", "http://10.9.9.9/"):
        expect(stage.curl(sandbox, url)[1] != 200, url)
    hosts = {one["host"] for one in stage.outside.since(mark, "socks")}
    expect(hosts == {"allowed.example.com"}, hosts)


@check
def who_may_not_reach_the_proxy_reaches_nothing(stage):
    tenant = stage.api.call("GET", "/v1/tenants").json()["tenants"][0]["name"]
    sandbox = proxied(stage)
    try:
        set_rules(stage, "tenant", tenant, {"id": "no", "action": "deny", "hosts": ["11.0.0.20"]})
        mark = stage.outside.mark()
        code, status, body = stage.curl(sandbox, URL)
        expect(status != 200 and "tenant/no" in body, f"curl {code}, HTTP {status}: {body}")
        expect(not stage.outside.since(mark, "socks"), "the proxy was reached")
    finally:
        stage.api.call("DELETE", f"/v1/policies/tenant/{tenant}")
    for address in ("10.9.9.9", "169.254.169.254", "127.0.0.1", "private.example.com"):
        other = stage.create(network={"egressProxy": {"address": f"{address}:{SOCKS_PORT}"}})
        mark = stage.outside.mark()
        expect(stage.curl(other, URL)[1] != 200, address)
        expect(not stage.outside.since(mark, "socks"), f"{address} was reached")
        other.kill()


@check
def a_proxy_that_refuses_the_login_says_so(stage):
    sandbox = stage.create(network={"egressProxy": {**PROXY, "password": "wrong"}})
    code, status, body = stage.curl(sandbox, URL)
    expect(status == 502 and "egress proxy" in body and "wrong" not in body, f"curl {code}, HTTP {status}: {body}")
    sandbox.kill()


@check
def the_password_of_a_proxy_is_answered_and_stored_nowhere(stage):
    sandbox = proxied(stage)
    detail = stage.api.call("GET", f"/sandboxes/{sandbox.id}")
    shown = detail.json()["network"]["egressProxy"]
    expect(shown == {"address": PROXY["address"], "username": USER}, shown)
    places = [f"{stage.instance.data_dir}/{name}" for name in ("control", "gateway", "log")]
    found = subprocess.run(["grep", "-rlaF", PASSWORD, *places], capture_output=True, text=True).stdout
    expect(not found, found)


@check
def a_proxy_survives_the_gateway_and_is_replaced_and_taken_away(stage):
    sandbox = proxied(stage)
    stage.instance.gateway.kill()
    stage.instance.gateway.start()
    mark = stage.outside.mark()
    stage.until(lambda: stage.curl(sandbox, URL)[:2] == (0, 200), "the gateway's return")
    expect(stage.outside.since(mark, "socks"), "it left without its proxy")
    body = {"egressProxy": {**PROXY, "address": f"11.0.0.10:{SOCKS_PORT}"}}
    stage.api.expect((204,), "PUT", f"/sandboxes/{sandbox.id}/network", body)
    mark = stage.outside.mark()
    expect(stage.curl(sandbox, URL)[:2] == (0, 200) and stage.outside.since(mark, "socks"), "the other proxy")
    stage.api.expect((204,), "PUT", f"/sandboxes/{sandbox.id}/network", {})
    mark = stage.outside.mark()
    expect(stage.curl(sandbox, URL)[:2] == (0, 200), "without a proxy")
    expect(not stage.outside.since(mark, "socks"), "it still takes the proxy")
    for wrong in ({"address": ""}, {"address": "a"}, {"address": "a:1", "username": "u"}, {"address": "a:1", "password": "p"}):
        answer = stage.api.call("PUT", f"/sandboxes/{sandbox.id}/network", {"egressProxy": wrong})
        expect(answer.status == 400 and "egressProxy" in json.loads(answer.body)["message"], (wrong, answer.body))


@check
def what_waits_for_a_person_leaves_by_the_proxy_of_the_moment(stage):
    with asking(stage) as sandbox:
        held = Held(stage, sandbox, "proxy")
        one = waiting(stage, sandbox)
        stage.api.expect((204,), "PUT", f"/sandboxes/{sandbox.id}/network", {"egressProxy": PROXY})
        mark = stage.outside.mark()
        expect(decide(stage, one, "approve").status == 200, "the approval")
        status, body = held.answer()
        expect(status == 200 and stage.outside.since(mark, "socks"), f"HTTP {status}, without the proxy: {body}")
