# SPDX-License-Identifier: Apache-2.0
"""Starts a coding agent, follows its answer, and looks into its memory in the middle of it. Runs inside a sandbox:

    python3 drive.py ROUND HALF HALF    where ROUND is "usual" (the agent's own address) or "svc" (the reverse front)

The halves are those of a text that must not be anywhere here; apart, they are not what is looked for. Prints one line of JSON.
"""
import json
import os
import subprocess
import sys
import urllib.request

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMMAND = [
    "node", FOLDER + "/node_modules/@anthropic-ai/claude-code/cli.js", "-p", "Make the file.", "--allowedTools", "Bash",
    "--output-format", "stream-json", "--verbose", "--include-partial-messages",
]  # fmt: skip


def memory_has(pid, text):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            place, rights, *_ = line.split()
            first, last = (int(one, 16) for one in place.split("-"))
            if not rights.startswith("r"):
                continue
            try:
                memory.seek(first)
                if text in memory.read(last - first):
                    return True
            except (OSError, ValueError, OverflowError):
                continue  # pages of the kernel's, and holes
    return False


def follow(agent, secret):
    told = {"pieces": [], "result": "", "secret in memory": None, "its own key in memory": None}
    for line in agent.stdout:
        one = json.loads(line)
        delta = one.get("event", {}).get("delta", {})
        if delta.get("type") == "text_delta":
            if not told["pieces"]:  # the server waits for what is asked for here
                told["secret in memory"] = memory_has(agent.pid, secret)
                told["its own key in memory"] = memory_has(agent.pid, agent.key.encode())
                urllib.request.urlopen("http://allowed.example.com/go", timeout=20).read()
            told["pieces"].append(delta["text"])
        if one["type"] == "result":
            told["result"] = one["result"]
    return told


def main():
    environment = dict(os.environ)
    if sys.argv[1] == "svc":
        environment.update(ANTHROPIC_BASE_URL=os.environ["ATOLL_SVC"] + "/anthropic", ANTHROPIC_API_KEY=os.environ["ATOLL_TOKEN"])
    agent = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment)
    agent.key = environment["ANTHROPIC_API_KEY"]
    told = follow(agent, (sys.argv[2] + sys.argv[3]).encode())
    print(json.dumps({**told, "status": agent.wait()}))


if __name__ == "__main__":
    main()
