# SPDX-License-Identifier: Apache-2.0
"""A coding agent inside a sandbox, as its maker publishes it, with a scripted model outside. It asks, does a step with a tool,
tells what came of it, and streams the answer; the key of the model is in the vault alone."""
import json
import os
import subprocess

from expecting import expect
from scripted import MADE, TEXT
from stand_ins import MODEL_KEYS, make_model, model_key_of

CHECKS = []
AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent")
KEY = MODEL_KEYS["anthropic"]


def check(function):
    CHECKS.append(function)
    return function


def pack_agent():
    """The agent as one archive, without what is for other systems. The suite has installed it: here is no way out."""
    expect(os.path.isdir(f"{AGENT}/node_modules"), f"run 'npm ci --omit=optional' in {AGENT}")
    left_out = [f"--exclude={name}" for name in ("*-darwin", "*-win32", "*.d.ts")]
    packed = subprocess.run(["tar", "-C", AGENT, *left_out, "-cz", "node_modules", "drive.py"], capture_output=True, check=True)
    return packed.stdout


def places_of(sandbox, text):
    """Files, environments and command lines inside that have the text, looked for by root. The search does not find itself."""
    half = len(text) // 2
    search = (
        f"a={text[:half]}; b={text[half:]}; for one in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do "
        'printf %s "$a$b" | grep -qsaF -f - "$one" && echo "$one"; done; '
        'printf %s "$a$b" | grep -rlsaF -f - /etc /home /opt /root /run /srv /tmp /usr/local /var; true'
    )
    return sandbox.run(search, user="root", timeout=120).stdout.decode().split()


@check
def a_coding_agent_already_works(stage):
    make_model(stage, "anthropic")
    sandbox = stage.create()
    try:
        sandbox.write("/tmp/agent.tar.gz", pack_agent())
        for round in ("usual", "svc"):
            mark, folder = stage.outside.mark(), f"/home/user/{round}"
            half = len(KEY) // 2
            words = f"{round} {KEY[:half]} {KEY[half:]}"
            sandbox.run(f"mkdir {folder} && tar -C {folder} -xzf /tmp/agent.tar.gz")
            outcome = sandbox.run(f"cd {folder} && python3 drive.py {words}", timeout=120)
            expect(outcome.exit_code == 0, f"{round}: {outcome.stdout} {outcome.stderr}")
            told = json.loads(outcome.stdout)
            expect((told["pieces"], told["result"], told["status"]) == (list(TEXT), "".join(TEXT), 0), f"{told} {outcome.stderr}")
            expect(sandbox.read(f"{folder}/made.txt").body.decode().strip() == MADE, "the step with a tool was not done")
            expect(told["its own key in memory"], "the search in its memory finds nothing at all")
            expect(not told["secret in memory"], "the key is in the agent's memory")
            asked = [one for one in stage.outside.since(mark, "http") if one["path"].startswith("/v1/messages")]
            expect(len(asked) >= 2 and all(one["tls"] for one in asked), asked)
            host = {"usual": "api.anthropic.com", "svc": "anthropic.example.com"}[round]
            expect({one["headers"]["host"] for one in asked} == {host}, [one["headers"] for one in asked])
            expect({model_key_of(one) for one in asked} == {KEY}, [one["headers"] for one in asked])
        held = sandbox.run('printf %s "$ANTHROPIC_API_KEY"').stdout.decode()
        sandbox.write("/tmp/known", f"x{held}x".encode())
        expect("/tmp/known" in places_of(sandbox, held), "the hunt finds nothing at all")
        found = places_of(sandbox, KEY)
        expect(not found, f"the key is in {found}")
    finally:
        sandbox.kill()
