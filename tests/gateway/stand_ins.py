# SPDX-License-Identifier: Apache-2.0
"""What sandboxes hold instead of secrets: tokens, services that are reached with them, and placeholders."""
import base64
import hashlib
import hmac
import json
import os
import socket
import subprocess
import threading
import time
import urllib.request

from expecting import expect

CHECKS = []
SERVICE = "http://atoll.internal/svc/echo"
KEY = "sk-live-9be1c07d52fa4f3388d0c4a51b7e6f20"
MODEL_KEYS = {"anthropic": "sk-ant-live-71d5c3aa90e24bb8", "openai": "sk-live-openai-5b0f6e2d8c9147aa"}
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def check(function):
    CHECKS.append(function)
    return function


def token_of(sandbox):
    return sandbox.run('printf %s "$ATOLL_TOKEN"').stdout.decode()


def ask(stage, sandbox, token, path="/v1/x", *more):
    """(HTTP status, body) of a request to the service."""
    shown = ("-H", f"Authorization: Bearer {token}") if token else ()
    code, status, body = stage.curl(sandbox, SERVICE + path, *shown, *more)
    expect(code == 0, f"curl {code}: {body}")
    return status, body


def rule_of(body):
    return json.loads(body).get("rule")


def make_service(stage):
    if "served" in stage.sandboxes:
        return stage.sandboxes["served"]
    secret = {"name": "service-key", "value": KEY, "credential": {"type": "header", "name": "x-api-key"}}
    stage.api.expect((201,), "POST", "/secrets", secret)
    stage.api.expect((201,), "POST", "/v1/bindings", {"secret": "service-key", "host": "service.example.com"})
    service = {"name": "echo", "url": "https://service.example.com/base"}
    stage.api.expect((201,), "POST", "/v1/services", service)
    stage.sandboxes["served"] = stage.api.create(timeout_s=900)
    return stage.sandboxes["served"]


def narrow(token, **caveat):
    """As docs/guides/gateway.md says it, with nothing but the standard library."""

    def code(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def sign(key, text):
        return hmac.new(key, text, hashlib.sha256).digest()

    bits = base64.urlsafe_b64decode(token.removeprefix("atoll_st_") + "=")
    text = json.dumps(caveat).encode()
    chain = sign(bits, b"atoll token chain")
    return f"atoll_nt_{code(sign(bits, b'atoll token id')[:16])}.{code(text)}.{code(sign(chain, text))}"


@check
def services_are_reached_with_the_token_and_the_credential_goes_in(stage):
    sandbox = make_service(stage)
    token, mark = token_of(sandbox), stage.outside.mark()
    expect(token.startswith("atoll_st_"), token)
    status, body = ask(stage, sandbox, token, "/v1/x?y=1", "-d", "hello")
    expect(status == 200, f"HTTP {status}: {body}")
    (seen,) = stage.outside.since(mark, "http")
    expect((seen["path"], seen["method"], seen["body"]) == ("/base/v1/x?y=1", "POST", "hello"), seen)
    expect(seen["tls"] and seen["headers"]["host"] == "service.example.com", seen)
    expect(seen["headers"].get("x-api-key") == KEY, seen)
    expect(token not in json.dumps(seen), "the token went out")
    expect(KEY not in body, "the secret came in")
    # Wherever clients put keys.
    for header in (f"x-api-key: {token}", "Proxy-Authorization: Basic " + base64.b64encode(f"x:{token}".encode()).decode()):
        status, body = ask(stage, sandbox, None, "/v1/y", "-H", header)
        expect(status == 200, f"{header}: HTTP {status}: {body}")
    # A redirect within the server leads to where it is reached.
    head = sandbox.run(f"curl -sS -m 10 -D - -o /dev/null -H 'Authorization: Bearer {token}' {SERVICE}/within").stdout.decode()
    expect("location: /svc/echo/moved" in head.lower(), head)


@check
def services_say_no_without_the_token_and_to_what_is_not_theirs(stage):
    sandbox = make_service(stage)
    token, mark = token_of(sandbox), stage.outside.mark()
    for shown, path, status, rule in (
        (None, "/v1/x", 401, "token_required"),
        ("atoll_st_" + "A" * 43, "/v1/x", 401, "token_unknown"),
        ("sk-live-something", "/v1/x", 401, "token_required"),
        (token, "/../other/x", 404, "service_unknown"),
        (token, "/%2e%2e/x", 404, "service_unknown"),
    ):
        seen, body = ask(stage, sandbox, shown, path, "--path-as-is")
        expect((seen, rule_of(body)) == (status, rule), f"{path}: HTTP {seen}: {body}")
    for shown, status in ((token, 404), (None, 401)):
        words = ("-H", f"x-api-key: {shown}") if shown else ()
        code, seen, body = stage.curl(sandbox, "http://atoll.internal/svc/none/x", *words)
        expect((code, seen) == (0, status), f"curl {code}, HTTP {seen}: {body}")
    # The rules of the sandbox count for what is behind the name.
    closed = stage.closed()
    status, body = ask(stage, closed, token_of(closed))
    expect(status == 403, f"HTTP {status}: {body}")
    expect(not stage.outside.since(mark, "http"), stage.outside.since(mark, "http"))


@check
def a_stolen_token_is_worth_nothing_elsewhere(stage):
    owner, thief = make_service(stage), stage.named()
    token, mark = token_of(owner), stage.outside.mark()
    status, body = ask(stage, thief, token)
    expect((status, rule_of(body)) == (401, "token_elsewhere"), f"HTTP {status}: {body}")
    status, body = ask(stage, thief, narrow(token, methods=["GET"]))
    expect((status, rule_of(body)) == (401, "token_elsewhere"), f"HTTP {status}: {body}")
    # Shown through the proxy or on the straight way it is refused, too, and nothing goes out.
    for words in ((), ("-x", "http://169.254.0.22:3128")):
        code, status, body = stage.curl(thief, "http://allowed.example.com/", "-H", f"x-api-key: {token}", *words)
        expect((code, status) == (0, 401), f"curl {code}, HTTP {status}: {body}")
    # From outside nobody speaks to the gateway at all.
    answer = b""
    with socket.socket() as outside:
        outside.settimeout(1)  # the firewall drops it: there is nothing to wait for
        try:
            outside.connect(("127.0.0.1", stage.instance.gateway_port))
            outside.sendall(f"GET /svc/echo/x HTTP/1.1\r\nHost: atoll.internal\r\nx-api-key: {token}\r\n\r\n".encode())
            answer = outside.recv(100)
        except OSError:
            pass
    expect(answer == b"", answer)
    expect(not stage.outside.since(mark, "http"), stage.outside.since(mark, "http"))

    def told():
        events = stage.api.call("GET", f"/v1/events?sandbox={thief.id}&limit=1000").json()["events"]
        return [one for one in events if one["type"] == "egress.denied" and one["data"]["rule"] == "token_elsewhere"]

    stage.until(told, "the event of a stolen token")


@check
def a_token_can_be_narrowed_by_whoever_holds_it(stage):
    sandbox = make_service(stage)
    token, mark = token_of(sandbox), stage.outside.mark()
    own = narrow(token, path="/base/v1", methods=["GET"])
    expect(ask(stage, sandbox, own)[0] == 200, "what the caveat allows")
    expect(len(stage.outside.since(mark, "http")) == 1, "what the caveat allows did not arrive")
    mark = stage.outside.mark()
    for path, words in (("/v1/x", ("-d", "x")), ("/v2/x", ())):
        status, body = ask(stage, sandbox, own, path, *words)
        expect((status, rule_of(body)) == (403, "token_narrowed"), f"HTTP {status}: {body}")
    forged = narrow("atoll_st_" + "A" * 43, path="/base")
    expect(ask(stage, sandbox, forged)[0] == 401, "a forged one")
    expect(not stage.outside.since(mark, "http"), stage.outside.since(mark, "http"))


@check
def a_token_ends_with_its_generation(stage):
    make_service(stage)
    sandbox = stage.api.create(timeout_s=900)
    children = []
    try:
        old = token_of(sandbox)
        expect(ask(stage, sandbox, old)[0] == 200, "the first token")
        snapshot = stage.api.expect((201,), "POST", f"/sandboxes/{sandbox.id}/snapshots", {}).json()
        children.append(stage.api.create(timeout_s=900, template=snapshot["snapshotID"]))
        stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause")
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/resume", {"timeout": 900})
        status, body = ask(stage, sandbox, old)
        expect(status == 401, f"the token of before the pause: HTTP {status}: {body}")
        new = sandbox.run("cat /run/e2b/.ATOLL_TOKEN").stdout.decode()
        expect(new != old and new == token_of(sandbox), "the new token is not the one of new processes")
        expect(ask(stage, sandbox, new)[0] == 200, "the token of after the resume")
        (child,) = children
        own = token_of(child)
        expect(own not in (old, new) and ask(stage, child, own)[0] == 200, "a copy has no token of its own")
        for other in (old, new):
            expect(ask(stage, child, other)[0] == 401, "its parent's token works in a copy")
        # The gateway's own file has nothing that opens.
        for folder, _, names in os.walk(stage.folder):
            for name in (name for name in names if name.startswith("tokens.db")):
                with open(os.path.join(folder, name), "rb") as file:
                    expect(new.removeprefix("atoll_st_").encode() not in file.read(), name)
    finally:
        for one in (sandbox, *children):
            one.kill()


@check
def tokens_outlive_the_gateway(stage):
    sandbox = make_service(stage)
    token = token_of(sandbox)
    stage.instance.gateway.kill()
    stage.instance.gateway.start()

    def works():
        code, status, _ = stage.curl(sandbox, SERVICE + "/v1/x", "-H", f"x-api-key: {token}")
        return (code, status) == (0, 200)

    stage.until(works, "the token after the gateway's return")


def make_placeholder(stage):
    if "holder" in stage.sandboxes:
        return stage.sandboxes["holder"]
    secret = {"name": "stand-in", "value": KEY[::-1], "credential": {"type": "bearer"}}
    stage.api.expect((201,), "POST", "/secrets", secret)
    places = {"headers": ["authorization", "x-api-key"], "query": ["key"], "body": ["/auth/token"], "variable": "TOOL_KEY"}
    binding = {"secret": "stand-in", "host": "tool.example.com", "placeholder": places}
    stage.api.expect((201,), "POST", "/v1/bindings", binding)
    stage.sandboxes["holder"] = stage.api.create(timeout_s=900)
    return stage.sandboxes["holder"]


CHUNKED = """
import http.client, json, os
body = json.dumps({"auth": {"token": os.environ["TOOL_KEY"]}, "text": "x" * 100}).encode()
c = http.client.HTTPSConnection("tool.example.com", timeout=10)
c.putrequest("POST", "/body"); c.putheader("content-type", "application/json"); c.putheader("transfer-encoding", "chunked")
c.endheaders()
for at in range(0, len(body), 7):
    part = body[at:at + 7]
    c.send(b"%x\\r\\n%s\\r\\n" % (len(part), part))
c.send(b"0\\r\\n\\r\\n")
print(c.getresponse().status)
"""


@check
def placeholders_are_replaced_in_their_places(stage):
    sandbox, value = make_placeholder(stage), KEY[::-1]
    held = sandbox.run('printf %s "$TOOL_KEY"').stdout.decode()
    expect(held.startswith("atollph") and len(held) == 39, held)
    url, mark = "https://tool.example.com", stage.outside.mark()
    sandbox.write("/tmp/chunked.py", CHUNKED.encode())
    outcome = sandbox.run(
        f'curl -sS -m 10 -H "Authorization: Bearer $TOOL_KEY" {url}/bearer; curl -sS -m 10 -u "me:$TOOL_KEY" {url}/basic;'
        f'curl -sS -m 10 "{url}/query?key=$TOOL_KEY"; curl -sS -m 10 -H "content-type: application/json" '
        f'-d "{{\\"auth\\": {{\\"token\\": \\"$TOOL_KEY\\"}}}}" {url}/body; python3 /tmp/chunked.py'
    )
    bearer, basic, query, body, chunked = stage.outside.since(mark, "http")
    expect(bearer["headers"]["authorization"] == f"Bearer {value}", bearer)
    pair = base64.b64encode(f"me:{value}".encode()).decode()
    expect(basic["headers"]["authorization"] == f"Basic {pair}", basic)
    expect(query["path"] == f"/query?key={value}", query)
    for one in (body, chunked):
        expect(json.loads(one["body"])["auth"]["token"] == value, one)
    expect(chunked["headers"].get("transfer-encoding") == "chunked", chunked)
    expect(value.encode() not in outcome.stdout, "the secret came in")


@check
def placeholders_are_worthless_anywhere_else(stage):
    sandbox, other = make_placeholder(stage), make_service(stage)
    held = sandbox.run('printf %s "$TOOL_KEY"').stdout.decode()
    mark = stage.outside.mark()
    for who, url, words in (
        (sandbox, "https://tool.example.com/x", ("-H", f"x-other: {held}")),
        (sandbox, f"https://tool.example.com/{held}", ()),
        (sandbox, "https://tool.example.com/x", ("-d", f'{{"other": "{held}"}}', "-H", "content-type: application/json")),
        (sandbox, "http://allowed.example.com/x", ("-H", f"x-api-key: {held}")),
        (other, "https://tool.example.com/x", ("-H", f"x-api-key: {held}")),  # another sandbox's
    ):
        code, status, body = stage.curl(who, url, "-k", *words)
        expect((code, status) == (0, 403), f"{url}: curl {code}, HTTP {status}: {body}")
        expect(rule_of(body) == "placeholder_unresolved", body)
    expect(not stage.outside.since(mark, "http"), stage.outside.since(mark, "http"))
    own = stage.api.create(timeout_s=900, envVars={"TOOL_KEY": "mine"})
    try:
        expect(own.run('printf %s "$TOOL_KEY"').stdout == b"mine", "the user's own value does not win")
    finally:
        own.kill()


def begin_answer(stage, sandbox):
    """A request whose answer has begun and waits for /go."""
    sandbox.run("rm -f /tmp/answer /tmp/code")
    sandbox.background("curl -sS -N -m 60 http://allowed.example.com/v1/messages >/tmp/answer; echo $? >/tmp/code")
    stage.until(lambda: b"far away" in sandbox.read("/tmp/answer").body, "the first half of an answer")


@check
def a_pause_waits_for_requests_and_then_cuts_them(stage):
    sandbox = stage.api.create(timeout_s=900)

    def pause():
        asked = threading.Thread(
            target=lambda: stage.api.expect((204,), "POST", f"/sandboxes/{sandbox.id}/pause"), daemon=True
        )
        asked.start()
        # Until it has begun, or not for long: it has five seconds.
        for _ in range(50):
            if stage.api.get(sandbox.id).json()["state"] != "running":
                break
            time.sleep(0.02)
        return asked

    def code_after_resume():
        stage.api.expect((200, 201), "POST", f"/sandboxes/{sandbox.id}/resume", {"timeout": 900})
        stage.until(lambda: sandbox.read("/tmp/code").status == 200, "the end of the request")
        return sandbox.read("/tmp/code").body.strip()

    try:
        begin_answer(stage, sandbox)
        asked = pause()
        urllib.request.urlopen("http://11.0.0.10/go", timeout=10).read()
        asked.join()
        expect(code_after_resume() == b"0" and b"comes near" in sandbox.read("/tmp/answer").body, "it was not waited for")
        begin_answer(stage, sandbox)
        pause().join()
        expect(code_after_resume() != b"0", "the request outlived a pause")

        def told():
            events = stage.api.call("GET", f"/v1/events?sandbox={sandbox.id}&limit=1000").json()["events"]
            return [one for one in events if one["type"] == "egress.cut_by_pause"]

        stage.until(told, "the event of what was cut")
    finally:
        sandbox.kill()


def pack_models():
    """The clients as one archive, without what only editors read. The suite has installed them: here is no way out."""
    expect(os.path.isdir(f"{MODELS}/node_modules"), f"run 'npm ci' in {MODELS}")
    left_out = [f"--exclude={name}" for name in ("*.ts", "*.mts", "*.cts", "*.map", "*.md", "src")]
    packed = subprocess.run(["tar", "-C", MODELS, *left_out, "-cz", "node_modules", "models.mjs"], capture_output=True, check=True)
    return packed.stdout


def make_model(stage, name):
    """A maker's key in the vault: with a placeholder in the maker's own variable for its usual address, and behind /svc/."""
    kind = {"anthropic": {"type": "header", "name": "x-api-key"}, "openai": {"type": "bearer"}}[name]
    base = f"https://{name}.example.com" + {"anthropic": "", "openai": "/v1"}[name]
    made = stage.api.call("POST", "/secrets", {"name": name, "value": MODEL_KEYS[name], "credential": kind})
    if made.status == 409:
        return  # by another check
    expect(made.status == 201, made.body)
    place = {"headers": ["authorization", "x-api-key"], "variable": f"{name.upper()}_API_KEY"}
    stage.api.expect((201,), "POST", "/v1/bindings", {"secret": name, "host": f"api.{name}.com", "placeholder": place})
    stage.api.expect((201,), "POST", "/v1/bindings", {"secret": name, "host": f"{name}.example.com"})
    stage.api.expect((201,), "POST", "/v1/services", {"name": name, "url": base})


def model_key_of(seen):
    """The key with which a request came outside. Which of the two headers has it is the client's own choice."""
    return (seen["headers"].get("x-api-key") or seen["headers"].get("authorization", "")).removeprefix("Bearer ")


@check
def models_already_work(stage):
    archive = pack_models()
    for name in MODEL_KEYS:
        make_model(stage, name)
    sandbox = stage.api.create(timeout_s=900)
    try:
        sandbox.write("/tmp/models.tar.gz", archive)
        sandbox.run("mkdir /tmp/models && tar -C /tmp/models -xzf /tmp/models.tar.gz")
        for round in ("usual", "svc"):
            mark = stage.outside.mark()
            outcome = sandbox.run(f"cd /tmp/models && node models.mjs {round}", timeout=120)
            expect(outcome.exit_code == 0, f"{round}: {outcome.stdout} {outcome.stderr}")
            heard = json.loads(outcome.stdout)
            expect(len(heard) == 4 and set(heard.values()) == {"What is far away comes near."}, heard)
            arrived = [one for one in stage.outside.since(mark, "http") if one["path"] != "/go"]
            keys = [model_key_of(one) for one in arrived]
            expect(keys == [*MODEL_KEYS.values()] * 2, keys)
        found = sandbox.run("cat /proc/[0-9]*/environ | tr '\\0' '\\n'; grep -rsl sk- /tmp/models/*.mjs /run /etc; env").stdout
        expect(not [key for key in MODEL_KEYS.values() if key.encode() in found], "a key is inside")
    finally:
        sandbox.kill()
