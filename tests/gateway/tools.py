# SPDX-License-Identifier: Apache-2.0
"""Programs that people use, each fetching from a host to which the gateway adds a credential, with nothing set up for it.

What the template has not is taken from the packages of this machine, which is of the same distribution; the program in Go is
compiled here.
"""
import io
import os
import platform
import subprocess
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = HERE + "/clients"
GO_CACHE = HERE + "/../../build/go-cache"
HOST, REFUSED = "api.example.com", "refused.example.org"
# Of Debian; pure Python, but for wget. Of what they need themselves, each release has a part.
NEEDED = ["wget", "python3-requests", "python3-httpx"]
PACKAGES = [
    *NEEDED, "python3-typing-extensions", "python3-exceptiongroup", "python3-httpcore", "python3-h11", "python3-anyio",
    "python3-sniffio", "python3-rfc3986", "python3-certifi", "python3-idna", "python3-urllib3", "python3-chardet",
    "python3-charset-normalizer", "python3-six",
]  # fmt: skip
APT = (
    "apt-get -q -y -o Dir::Etc::SourceList=/tmp/apt.list -o Dir::Etc::SourceParts=/dev/null -o Acquire::Retries=0 "
    "-o APT::Get::List-Cleanup=0 -o APT::Update::Error-Mode=any"
)
# name, user, command, what it must say. {host} is the host.
TOOLS = [
    ("curl", "user", "curl -sS -m 20 https://{host}/t", "needle"),
    ("wget", "user", "wget -q --tries=1 -T 20 -O - https://{host}/t || wget --tries=1 -T 20 -O - https://{host}/t", "needle"),
    ("git", "user", "git ls-remote https://{host}/t 2>&1", ""),
    ("python urllib", "user",
     "python3 -c \"import urllib.request as u; print(u.urlopen('https://{host}/t', timeout=20).read())\"", "needle"),
    ("python requests", "user",
     "python3 -c \"import requests; print(requests.get('https://{host}/t', timeout=20).text)\"", "needle"),
    ("python httpx", "user", "python3 -c \"import httpx; print(httpx.get('https://{host}/t', timeout=20).text)\"", "needle"),
    ("go", "user", "/tmp/clients/fetch https://{host}/t", "needle"),
    ("node fetch", "user", "node -e \"fetch('https://{host}/t').then(r => r.text()).then(console.log)\"", "needle"),
    ("node https", "user", "node -e \"require('https').get('https://{host}/t', r => r.pipe(process.stdout))\"", "needle"),
    (
        "npm", "user",
        "mkdir -p /tmp/npm && cd /tmp/npm && npm install --no-audit --no-fund --fetch-retries=0 --no-update-notifier --registry "
        "https://{host}/npm/ @scope/greeting 2>&1 && node -p \"require('@scope/greeting')\"", "hello from npm",
    ),
    (
        "pip", "user",
        "pip install -q --disable-pip-version-check --retries 0 --target /tmp/pip --index-url https://{host}/pip/ greeting 2>&1 && "
        "PYTHONPATH=/tmp/pip python3 -c 'import greeting; print(greeting.TEXT)'", "hello from pip",
    ),
    (
        "apt", "root",
        "echo 'deb [trusted=yes] https://{host}/apt ./' >/tmp/apt.list && " + APT + " update 2>&1 && "
        + APT + " install greeting 2>&1 && cat /usr/share/greeting/text", "hello from apt",
    ),
]  # fmt: skip
# Releases of Node.js beside the template's, which the suite has installed from the npm registry: there are none for other machines.
NODES = ("20", "24") if platform.machine() == "x86_64" else ()
TOOLS += [
    (f"node {release} fetch", "user",
     f"/tmp/clients/node-{release} -e \"fetch('https://{{host}}/t').then(r => r.text()).then(console.log)\"", "needle")
    for release in NODES
]  # fmt: skip
# In a sandbox that has a Java: of code-interpreter-v1.
JAVA_TOOLS = [
    (f"java, the {one} client", "user", f"java /tmp/clients/Fetch.java {one} https://{{host}}/t", "needle")
    for one in ("new", "old")
]


def compile_go(folder):
    """The program as one file that needs no library: also its resolver is Go's own. No file when there is no compiler."""
    settings = {"CGO_ENABLED": "0", "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOCACHE": os.path.abspath(GO_CACHE)}
    environment = {**os.environ, **settings}
    command = ["go", "build", "-o", folder + "/fetch", CLIENTS + "/fetch.go"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    except FileNotFoundError:
        return
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


def bring(sandbox):
    """Puts what the template has not into the sandbox; returns the names of what is not here either."""
    out, missing = io.BytesIO(), []
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        brought = {"fetch": folder + "/fetch", **{f"node-{one}": f"{CLIENTS}/node_modules/node-{one}/bin/node" for one in NODES}}
        compile_go(folder)
        for name, path in brought.items():
            if os.path.exists(path):
                tar.add(path, f"tmp/clients/{name}")
            else:
                missing.append(f"clients/{name}")
        for package in PACKAGES:
            listed = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True)
            if listed.returncode != 0 and package in NEEDED:
                missing.append(package)
            for path in listed.stdout.split():
                wanted = path.startswith("/usr/lib/python3/") or path == "/usr/bin/wget"
                if wanted and os.path.isfile(path) and "__pycache__" not in path:
                    tar.add(path, path[1:])
    sandbox.write("/tmp/tools.tar.gz", out.getvalue())
    unpacked = sandbox.run("tar -xzf /tmp/tools.tar.gz -C / --skip-old-files", user="root")
    if unpacked.exit_code not in (0, None):
        raise RuntimeError(f"the tools did not arrive: {unpacked.stderr}")
    return missing


def try_all(tools, sandbox, outside, header, secret):
    """[what is wrong]; each tool with the host that is allowed, and with one that is not."""
    wrong = []
    for name, user, command, says in tools:
        mark = outside.mark()
        outcome = sandbox.run(command.replace("{host}", HOST), user=user, timeout=60)
        arrived = outside.since(mark, "http")
        told = (outcome.stdout + outcome.stderr).decode(errors="replace")
        if not arrived or any(seen["headers"].get(header) != secret for seen in arrived):
            wrong.append(f"{name}: {len(arrived)} requests arrived, not all with the credential: {told[-400:]}")
        elif says not in told:
            wrong.append(f"{name}: {told[-400:]}")
        mark = outside.mark()
        outcome = sandbox.run(command.replace("{host}", REFUSED), user=user, timeout=60)
        told = (outcome.stdout + outcome.stderr).decode(errors="replace")
        if outcome.exit_code == 0 or not told or "timed out" in told.lower() or outside.since(mark):
            wrong.append(f"{name}, refused: exit status {outcome.exit_code}: {told[-400:]} {outside.since(mark)[:2]}")
    return wrong
