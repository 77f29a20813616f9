# SPDX-License-Identifier: Apache-2.0
"""The gateway, tried from inside real sandboxes against a world of its own.

    python3 tests/gateway/gateway.py [--programs DIR] [--tier TIER] [--only WORD] [--keep]

In other tiers than `container` it makes a part of the checks. The word "matrix" stands for the attempts of matrix.py.

Needs root. Everything happens in network and mount namespaces of its own. The last line is "N passed, N failed, N skipped".
"""
import argparse
import datetime
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "escape")]

import agents  # noqa: E402
import egress_proxy  # noqa: E402
import approvals  # noqa: E402
import hostile  # noqa: E402
import labels  # noqa: E402
import tools  # noqa: E402
import world as ground  # noqa: E402
import rules  # noqa: E402
import stand_ins  # noqa: E402
from expecting import Failed, Skipped, expect  # noqa: E402
from matrix import Matrix  # noqa: E402
from outside import GREETER_PORT  # noqa: E402
from stage import ALL, Stage  # noqa: E402

CHECKS, EVERYWHERE = [], set()


def check(function):
    CHECKS.append(function)
    return function


def check_in_each_tier(function):
    """Also with --tier: that the redirection, the refusals and the credentials are the same there."""
    EVERYWHERE.add(function)
    return check(function)


@check_in_each_tier
def open_reaches_http_by_name(stage):
    code, status, body = stage.curl(stage.open(), "http://allowed.example.com/hello?x=1")
    expect((code, status) == (0, 200), f"curl {code}, HTTP {status}: {body}")
    seen = json.loads(body)
    expect(seen["path"] == "/hello?x=1" and seen["headers"]["host"] == "allowed.example.com", body)


@check_in_each_tier
def open_reaches_https_end_to_end(stage):
    code, status, body = stage.curl(stage.open(), "https://allowed.example.com/secure")
    expect((code, status) == (0, 200), f"curl {code}, HTTP {status}: {body}")
    expect(json.loads(body)["tls"], body)


@check
def open_reaches_addresses(stage):
    code, status, _ = stage.curl(stage.open(), "http://11.0.0.10/")
    expect((code, status) == (0, 200), f"curl {code}, HTTP {status}")


@check_in_each_tier
def servers_that_speak_first_are_heard(stage):
    outcome = stage.open().run(
        "python3 -c \"import socket; s=socket.create_connection(('allowed.example.com', %d), 10); "
        "print(s.recv(99)); s.sendall(b'EHLO x'); print(s.recv(99))\"" % GREETER_PORT
    )
    expect(b"220 greeter" in outcome.stdout and b"250 heard EHLO x" in outcome.stdout, outcome)


@check
def private_and_metadata_addresses_are_never_reached(stage):
    mark = stage.outside.mark()
    for url in (
        "http://private.example.com/",
        "http://metadata.example.com/latest/meta-data/",
        "http://10.9.9.9/",
        "http://169.254.169.254/",
        "http://127.0.0.1:7400/",
        "https://private.example.com/",
    ):
        code, status, body = stage.curl(stage.open(), url)
        expect(code != 0 or status in (403, 502), f"{url}: curl {code}, HTTP {status}: {body}")
    expect(not stage.outside.since(mark, "http"), "something arrived outside")


@check
def closed_resolves_and_reaches_nothing(stage):
    mark = stage.outside.mark()
    for url in ("http://allowed.example.com/", "https://allowed.example.com/", "http://11.0.0.10/"):
        code, status, _ = stage.curl(stage.closed(), url)
        expect(code != 0 or status == 403, f"{url}: curl {code}, HTTP {status}")
    expect(not stage.outside.since(mark), f"arrived outside: {stage.outside.since(mark)}")


@check_in_each_tier
def named_reaches_its_names_and_no_other(stage):
    for url in ("http://allowed.example.com/", "https://allowed.example.com/", "https://a.wild.example.com/"):
        code, status, body = stage.curl(stage.named(), url)
        expect((code, status) == (0, 200), f"{url}: curl {code}, HTTP {status}: {body}")
    mark = stage.outside.mark()
    for url in ("http://refused.example.org/", "https://refused.example.org/", "https://api.example.com/"):
        code, status, _ = stage.curl(stage.named(), url)
        expect(code != 0, f"{url}: curl {code}, HTTP {status}")
    expect(not stage.outside.since(mark), f"arrived outside: {stage.outside.since(mark)}")


@check
def refusals_come_at_once(stage):
    # Judged by curl's own clock and generously: a refusal that is silence would take ten seconds.
    started = time.monotonic()
    stage.curl(stage.named(), "http://refused.example.org/")
    stage.curl(stage.named(), "https://11.0.0.20/")
    expect(time.monotonic() - started < 8, "refusals were slow")


@check_in_each_tier
def another_name_in_sni_or_host_is_refused(stage):
    mark = stage.outside.mark()
    sandbox = stage.named()
    code, status, body = stage.curl(sandbox, "http://allowed.example.com/", "-H", "Host: refused.example.org")
    expect((code, status) == (0, 421), f"Host: curl {code}, HTTP {status}: {body}")
    address = sandbox.run("getent ahostsv4 allowed.example.com | head -1 | cut -d' ' -f1").stdout.decode().strip()
    code, status, _ = stage.curl(
        sandbox, "https://refused.example.org/", "--resolve", f"refused.example.org:443:{address}"
    )
    expect(code != 0, f"SNI: curl {code}, HTTP {status}")
    expect(not stage.outside.since(mark, "http"), f"arrived outside: {stage.outside.since(mark, 'http')}")


@check_in_each_tier
def explicit_proxy_is_the_same_pipeline(stage):
    proxy = ("-x", "http://169.254.0.22:3128")
    for url in ("http://allowed.example.com/", "https://allowed.example.com/"):
        code, status, body = stage.curl(stage.named(), url, *proxy)
        expect((code, status) == (0, 200), f"{url}: curl {code}, HTTP {status}: {body}")
    # Some clients ask their proxy for "https://" itself (axios): it goes on inside TLS, or not at all.
    mark = stage.outside.mark()
    plain = "http://169.254.0.22:3128/"
    for host, wanted in (("allowed.example.com", 200), ("refused.example.org", 403)):
        target = ("--request-target", f"https://{host}/left-to-the-proxy", "-H", f"Host: {host}")
        code, status, body = stage.curl(stage.named(), plain, *target)
        expect((code, status) == (0, wanted), f"https in absolute form: curl {code}, HTTP {status}: {body}")
    (seen,) = stage.outside.since(mark, "http")
    expect(seen["tls"] and seen["path"] == "/left-to-the-proxy", seen)
    target = ("--request-target", "https://allowed.example.com/")
    code, status, body = stage.curl(stage.named(), "http://allowed.example.com/", *target)
    expect((code, status) == (0, 421), f"https:// on a plain connection: curl {code}, HTTP {status}: {body}")
    mark = stage.outside.mark()
    code, status, body = stage.curl(stage.named(), "http://refused.example.org/", *proxy)
    expect((code, status) == (0, 403), f"curl {code}, HTTP {status}: {body}")
    code, status, _ = stage.curl(stage.named(), "https://refused.example.org/", *proxy)
    expect(code != 0, f"curl {code}, HTTP {status}")
    expect(not stage.outside.since(mark), f"arrived outside: {stage.outside.since(mark)}")


SECRET = "sk-live-4242424242424242-atoll-hunt"


def hunt(stage, sandbox, text):
    """Where `text` is found, though it must not be: files of the instance, what its daemons logged, the sandbox."""
    found = []
    for folder, _, names in os.walk(stage.folder):
        for name in names:
            path = os.path.join(folder, name)
            # Templates and disks are left out for their size; what is on a disk is looked for from inside.
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 64 << 20:
                with open(path, "rb") as file:
                    if text.encode() in file.read():
                        found.append(path)
    # Half of the text at a time, so that the search does not find itself.
    half = len(text) // 2
    inside = sandbox.run(
        f"a={text[:half]}; b={text[half:]}; env | grep -c \"$a$b\"; "
        'grep -rls "$a$b" /tmp /home /root /etc /run 2>/dev/null; cat /proc/[0-9]*/environ 2>/dev/null | grep -c "$a$b"; true'
    ).stdout.decode()
    return found + [line for line in inside.split() if line != "0"]


@check
def a_credential_goes_out_and_never_comes_in(stage):
    made = stage.api.expect(
        (201,),
        "POST",
        "/secrets",
        {"name": "Example", "value": SECRET, "credential": {"type": "header", "name": "x-api-key"}},
    ).json()
    expect(SECRET not in json.dumps(made) and made["name"] == "example", made)
    stage.api.expect(
        (201,), "POST", "/v1/bindings", {"secret": "example", "host": "allowed.example.com", "path": "/paid"}
    )
    sandbox, mark = stage.named(), stage.outside.mark()
    # -k: what a sandbox trusts is not what is shown here.
    code, status, body = stage.curl(
        sandbox, "https://allowed.example.com/paid/x", "-k", "-H", "X-Api-Key: mine", "-H", "X_Api_Key: mine"
    )
    expect((code, status) == (0, 200), f"curl {code}, HTTP {status}: {body}")
    arrived = stage.outside.since(mark, "http")
    expect(len(arrived) == 1 and arrived[0]["headers"].get("x-api-key") == SECRET, arrived)
    expect("x_api_key" not in arrived[0]["headers"], arrived)
    # The server sends back what it saw; the secret does not come in by that.
    expect(SECRET not in body and "[example of atoll]" in body, body)
    mark = stage.outside.mark()
    for url in ("https://allowed.example.com/free", "https://a.wild.example.com/paid/x"):
        stage.curl(sandbox, url, "-k")
    stage.curl(sandbox, "http://allowed.example.com/paid/x")
    leaked = [one for one in stage.outside.since(mark, "http") if SECRET in json.dumps(one)]
    expect(not leaked, leaked)
    expect(any("vault.db" in path for path in hunt(stage, sandbox, "allowed.example.com")), "the hunt finds nothing at all")
    found = hunt(stage, sandbox, SECRET)
    expect(not found, f"the secret is in {found}")


@check
def a_rotated_credential_counts_for_the_next_request(stage):
    stage.api.expect((200,), "POST", "/secrets/example", {"value": SECRET[::-1]})
    sandbox, mark = stage.named(), stage.outside.mark()
    code, status, body = stage.curl(sandbox, "https://allowed.example.com/paid/x", "-k")
    expect((code, status) == (0, 200), f"curl {code}, HTTP {status}: {body}")
    expect(stage.outside.since(mark, "http")[0]["headers"].get("x-api-key") == SECRET[::-1], "the old one was sent")
    stage.api.expect((204,), "DELETE", "/secrets/example")
    mark = stage.outside.mark()
    stage.curl(sandbox, "https://allowed.example.com/paid/x", "-k")
    leaked = [one for one in stage.outside.since(mark, "http") if "x-api-key" in one["headers"]]
    expect(not leaked, leaked)


KEY = "sk-live-4f9a1b7e6c2d4a8891aa72f0c3d1e5b9"


def make_credential(stage):
    """A secret of the first tenant that the gateway puts into requests to api.example.com, for all its sandboxes."""
    if "credential" in stage.sandboxes:
        return
    secret = {"name": "api-key", "value": KEY, "credential": {"type": "header", "name": "x-api-key"}}
    stage.api.expect((201,), "POST", "/secrets", secret)
    stage.api.expect((201,), "POST", "/v1/bindings", {"secret": "api-key", "host": "api.example.com"})
    # Made after the binding: it trusts the authority with which its connections are opened.
    stage.sandboxes["credential"] = stage.create()


@check_in_each_tier
def credential_is_put_in_on_the_way_out(stage):
    make_credential(stage)
    sandbox = stage.sandboxes["credential"]
    mark = stage.outside.mark()
    # No CA option: the sandbox's store has the authority. What the program sends in its place is replaced.
    outcome = sandbox.run("curl -sS -m 10 -w ' %{http_code}' -H 'X-API-Key: mine' -H 'x-api-key: too' https://api.example.com/v1/x")
    expect(outcome.stdout.endswith(b" 200"), f"{outcome.stdout} {outcome.stderr}")
    (seen,) = stage.outside.since(mark, "http")
    expect(seen["headers"].get("x-api-key") == KEY, f"outside saw {seen['headers']}")
    expect(KEY.encode() not in outcome.stdout, "the echo brought the secret in")
    expect(b"[api-key of atoll]" in outcome.stdout, outcome.stdout)
    expect("session=1" not in outcome.stdout.decode(), "a cookie of a brokered host came in")


@check
def credential_goes_nowhere_else(stage):
    make_credential(stage)
    sandbox = stage.sandboxes["credential"]
    sandbox.write("/tmp/ca.pem", stage.ca)
    mark = stage.outside.mark()
    for url in (
        "https://allowed.example.com/x",
        "http://api.example.com/x",
        "https://api.example.com:443/redirect",
    ):
        sandbox.run(f"curl -sSL -m 10 --cacert /tmp/ca.pem {url}; curl -sSL -m 10 {url}")
    for seen in stage.outside.since(mark, "http"):
        to = seen["headers"]["host"]
        leaked = KEY in json.dumps(seen)
        expect(not leaked or (to == "api.example.com" and seen["tls"]), f"the secret went to {to}: {seen}")


@check
def tools_reach_a_brokered_host_without_configuration(stage):
    make_credential(stage)
    sandbox = stage.sandbox("tools", denyOut=[ALL], allowOut=["api.example.com"])
    missing = tools.bring(sandbox)
    expect(not missing, f"not installed here (tools/setup; npm ci in tests/gateway/clients): {missing}")
    wrong = tools.try_all(tools.TOOLS, sandbox, stage.outside, "x-api-key", KEY)
    expect(not wrong, "\n".join(wrong))


@check
def java_reaches_a_brokered_host_without_configuration(stage):
    make_credential(stage)
    sandbox = stage.interpreter(denyOut=[ALL], allowOut=["api.example.com"])
    try:
        with open(tools.CLIENTS + "/Fetch.java", "rb") as file:
            sandbox.write("/tmp/clients/Fetch.java", file.read())
        wrong = tools.try_all(tools.JAVA_TOOLS, sandbox, stage.outside, "x-api-key", KEY)
        expect(not wrong, "\n".join(wrong))
    finally:
        sandbox.kill()


@check
def hostile_requests_have_one_meaning_or_none(stage):
    make_credential(stage)
    sandbox, mark = stage.sandbox("hostile", denyOut=[ALL], allowOut=[hostile.ALLOWED, hostile.BROKERED]), stage.outside.mark()
    with open(hostile.__file__, "rb") as file:
        sandbox.write("/tmp/hostile.py", file.read())
    for name, url in hostile.SERVICES.values():
        stage.api.expect((201,), "POST", "/v1/services", {"name": name, "url": url})
    outcome = sandbox.run(["/usr/bin/python3", "/tmp/hostile.py", json.dumps({"run": "a1b2c3"})], timeout=180)
    for name, _ in hostile.SERVICES.values():
        stage.api.call("DELETE", "/v1/services/" + name)
    results = [json.loads(line) for line in outcome.stdout.splitlines()]
    stage.curl(sandbox, "http://allowed.example.com/last")
    stage.until(lambda: any(one["path"] == "/last" for one in stage.outside.since(mark, "http")), "the last request")
    passed, wrong = hostile.judge(results, stage.outside.since(mark, "http"), KEY)
    expect(not wrong, f"{passed} as they should be; {len(wrong)} not: " + "\n".join(wrong))
    stage.more_passed += passed


WEBSOCKET = """
import socket, ssl
name = "api.example.com"
plain = socket.create_connection((name, 443), 10)
s = ssl.create_default_context().wrap_socket(plain, server_hostname=name)
s.sendall(b"GET /websocket HTTP/1.1\\r\\nHost: api.example.com\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
          b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n"
          b"Sec-WebSocket-Extensions: permessage-deflate\\r\\n\\r\\n")
got = b""
while True:
    piece = s.recv(65536)
    got += piece
    if not piece or got.endswith(b"\\x88\\x02\\x03\\xe8"):
        break
print(got.decode("latin-1"))
"""


@check
def a_websocket_brings_no_secret_in(stage):
    make_credential(stage)
    sandbox = stage.sandboxes["credential"]
    sandbox.write("/tmp/websocket.py", WEBSOCKET.encode())
    mark = stage.outside.mark()
    outcome = sandbox.run("python3 /tmp/websocket.py")
    (seen,) = stage.outside.since(mark, "http") or [None]
    expect(seen and seen["headers"].get("x-api-key") == KEY, f"{seen} {outcome}")
    expect("sec-websocket-extensions" not in seen["headers"], seen)
    expect(b" 101 " in outcome.stdout and b"beat" in outcome.stdout, outcome)
    expect(KEY[12:].encode() not in outcome.stdout and b"[api-key of atoll]" in outcome.stdout, outcome.stdout)


@check
def header_rules_of_the_create_set_headers_with_secrets(stage):
    make_credential(stage)
    rules = {"allowed.example.com": [{"transform": {"headers": {"authorization": "Bearer ${e2b.secrets.api-key}"}}}]}
    sandbox = stage.api.create(timeout_s=900, network={"rules": rules})
    try:
        mark = stage.outside.mark()
        outcome = sandbox.run("curl -sS -m 10 -H 'Authorization: mine' https://allowed.example.com/r")
        (seen,) = stage.outside.since(mark, "http") or [None]
        expect(seen and seen["headers"].get("authorization") == "Bearer " + KEY, f"{seen} {outcome.stderr}")
        expect(KEY.encode() not in outcome.stdout, "the echo brought the secret in")
    finally:
        sandbox.kill()


@check
def secret_is_nowhere_but_in_the_vault(stage):
    make_credential(stage)
    sandbox = stage.sandboxes["credential"]
    sandbox.run("curl -sS -m 10 https://api.example.com/again >/tmp/answer")
    half = KEY[8:]
    inside = sandbox.run(
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; "
        f"grep -rlF {half} /etc /home /tmp /root /run /var /usr/local 2>/dev/null; echo done",
        user="root",
    )
    # The command line of the search itself names what it searches.
    lines = [line for line in inside.stdout.split(b"\0") if half.encode() in line and b"grep -rlF" not in line]
    expect(not lines, f"inside: {lines[:3]}")
    for name in ("gateway.log", "control.log", "runner.log"):
        with open(f"{stage.folder}/{name}", "rb") as log:
            expect(half.encode() not in log.read(), name)
    for folder, _, files in os.walk(stage.folder + "/data"):
        if "/templates" in folder or "/disks" in folder:
            continue
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                expect(half.encode() not in file.read(), f"{folder}/{name}")


@check
def paused_sandbox_sends_nothing_and_goes_on(stage):
    sandbox = stage.api.create(timeout_s=900)
    try:
        mark = stage.outside.mark()
        sandbox.background("while true; do curl -s -m 5 http://allowed.example.com/tick; sleep 0.1; done")
        stage.until(lambda: stage.outside.since(mark, "http"), "the first request")
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause")
        mark = stage.outside.mark()
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/resume", {"timeout": 900})
        stage.until(lambda: stage.outside.since(mark, "http"), "a request after the resume")
    finally:
        sandbox.kill()


@check
def a_request_that_waits_keeps_its_sandbox_awake(stage):
    sandbox = stage.api.create(timeout_s=900, idleTimeout=2)
    try:
        # Left behind, so that only its request is work; the answer stops in its middle.
        sandbox.run(
            "setsid sh -c 'echo $$ >/tmp/curl; exec curl -sN http://allowed.example.com/held' >/tmp/half 2>&1 </dev/null & true"
        )

        def activity():
            return stage.api.expect((200,), "GET", f"/sandboxes/{sandbox.id}").json()["activity"]

        def waits_for_longer_than_its_idle_time():
            now = activity()
            since = datetime.datetime.fromisoformat(now["since"].replace("Z", "+00:00"))
            age = datetime.datetime.now(datetime.timezone.utc) - since
            return now["because"] == "egress" and age > datetime.timedelta(seconds=5)

        stage.until(waits_for_longer_than_its_idle_time, "the request as a reason, for five seconds")
        expect(activity()["detail"] == "1 under way", activity())
        sandbox.run("kill $(cat /tmp/curl)")
        stage.until(lambda: activity()["because"] == "idle", "the sleep")
    finally:
        sandbox.kill()


@check
def rules_change_while_it_runs_and_cut_what_is_open(stage):
    sandbox = stage.api.create(timeout_s=900)
    try:
        sandbox.background(
            "python3 -c \"import socket; s=socket.create_connection(('allowed.example.com', %d)); s.recv(9); "
            "open('/tmp/up','w'); print(repr(s.recv(99))); open('/tmp/end','w')\" 2>/tmp/err; touch /tmp/end" % GREETER_PORT
        )
        stage.until(lambda: sandbox.read("/tmp/up").status == 200, "the connection")
        stage.api.expect((200, 204), "PUT", f"/sandboxes/{sandbox.id}/network", {"denyOut": [ALL]})
        stage.until(lambda: sandbox.read("/tmp/end").status == 200, "the end of the connection")
        code, status, _ = stage.curl(sandbox, "http://11.0.0.10/")
        expect(code != 0 or status == 403, f"curl {code}, HTTP {status}")
    finally:
        sandbox.kill()


@check
def a_token_is_fetched_once_and_goes_out(stage):
    stage.api.expect(
        (201,),
        "POST",
        "/secrets",
        {
            "name": "tracker",
            "value": json.dumps({"client_secret": SECRET}),
            "credential": {"type": "oauth2", "token_url": "https://api.example.com/token", "client_id": "atoll"},
        },
    )
    stage.api.expect((201,), "POST", "/v1/bindings", {"secret": "tracker", "host": "allowed.example.com"})
    sandbox, mark = stage.named(), stage.outside.mark()
    for _ in range(3):
        code, status, body = stage.curl(sandbox, "https://allowed.example.com/issues", "-k")
        expect((code, status) == (0, 200), f"curl {code}, HTTP {status}: {body}")
        expect("minted-access-token-1" not in body, body)
    arrived = stage.outside.since(mark, "http")
    asked = [one for one in arrived if one["path"] == "/token"]
    expect(len(asked) == 1 and asked[0]["body"] == "grant_type=client_credentials", asked)
    used = [one["headers"].get("authorization") for one in arrived if one["path"] == "/issues"]
    expect(used == ["Bearer minted-access-token-1"] * 3, used)
    stage.api.expect((204,), "DELETE", "/secrets/tracker")


@check_in_each_tier
def refusals_are_events_of_the_sandbox(stage):
    sandbox = stage.named()
    stage.curl(sandbox, "https://11.0.0.20/")

    def told():
        events = stage.api.call("GET", f"/v1/events?sandbox={sandbox.id}&limit=1000").json()["events"]
        return [one for one in events if one["type"] == "egress.denied" and one["data"]["target"] == "11.0.0.20:443"]

    stage.until(told, "the event of a refusal")


@check
def what_runs_trusts_a_gateway_whose_authorities_are_new(stage):
    # A sandbox that stands for one that was made before there was a gateway: it knows nothing of the authority of today.
    sandbox = stage.api.create(timeout_s=900)
    try:
        stage.instance.gateway.kill()
        vault = stage.instance.data_dir + "/gateway/vault.db"
        for name in (vault, vault + "-wal", vault + "-shm"):
            if os.path.exists(name):
                os.rename(name, name + ".aside")
        stage.instance.gateway.start()
        secret = {"name": "late", "value": KEY, "credential": {"type": "header", "name": "x-api-key"}}
        stage.until(lambda: stage.api.call("POST", "/secrets", secret).status == 201, "the vault of the new gateway")
        stage.api.expect((201,), "POST", "/v1/bindings", {"secret": "late", "host": "allowed.example.com"})

        def trusted():
            return sandbox.run("curl -sS -m 10 -o /dev/null -w '%{http_code}' https://allowed.example.com/late").stdout == b"200"

        stage.until(trusted, "the trust in the new authority")
    finally:
        stage.instance.gateway.kill()
        for name in (vault, vault + "-wal", vault + "-shm"):
            if os.path.exists(name):
                os.remove(name)
            if os.path.exists(name + ".aside"):
                os.rename(name + ".aside", name)
        stage.instance.gateway.start()
        stage.until(lambda: stage.api.call("GET", "/secrets").status == 200, "the old vault")
        sandbox.kill()


@check
def goes_on_after_the_gateway_was_killed(stage):
    sandbox = stage.named()
    stage.instance.gateway.kill()
    code, _, _ = stage.curl(sandbox, "http://allowed.example.com/")
    expect(code != 0, "something left without a gateway")
    stage.instance.gateway.start()
    deadline = time.monotonic() + 20
    while True:
        code, status, body = stage.curl(sandbox, "http://allowed.example.com/")
        if (code, status) == (0, 200):
            return
        expect(time.monotonic() < deadline, f"curl {code}, HTTP {status}: {body}")


CHECKS += rules.CHECKS
CHECKS += egress_proxy.CHECKS
CHECKS += approvals.CHECKS
CHECKS += labels.CHECKS
CHECKS += stand_ins.CHECKS
CHECKS += agents.CHECKS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/dev/bin")
    parser.add_argument("--tier", default="container")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.programs = os.path.abspath(options.programs)
    ground.enter_private_host()
    stage = Stage(options)
    passed = failed = skipped = 0
    whole = options.tier == "container"
    try:
        stage.start()
        missing = None if whole else stage.missing()
        if missing:
            print(f"SKIPPED the gateway in {options.tier}: {missing}\n0 passed, 0 failed, 1 skipped")
            return 0
        for one in CHECKS:
            if options.only not in one.__name__ or not (whole or one in EVERYWHERE):
                continue
            try:
                one(stage)
                passed += 1
                print(f"ok    {one.__name__}", flush=True)
            except Skipped as reason:
                skipped += 1
                print(f"SKIPPED {one.__name__}: {reason}", flush=True)
            except Exception as error:  # a check that cannot be made has failed
                failed += 1
                print(f"FAIL  {one.__name__}: {error}", flush=True)
                if not isinstance(error, Failed):
                    traceback.print_exc()
        if options.only in "matrix":
            try:
                counts = Matrix(stage).run(whole)
            except Exception:  # it could not be made
                traceback.print_exc()
                counts = (0, 1, 0)
            passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    finally:
        stage.stop()
    passed += stage.more_passed
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
