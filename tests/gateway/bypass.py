# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out of a sandbox past the gateway (bypass_table.py). Run inside it tries all of them:

    python3 bypass.py '{"run": "a1b2c3", ...}'      prints one JSON line for each attempt

What it says is a hint. Whether something got out is seen outside (matrix.py): each attempt carries a text of its own, its
token, in what it sends, and none may arrive anywhere. Needs the other bypass_*.py beside it and the standard library only.
"""
import json
import os
import socket
import sys
import threading
import time

from bypass_table import ANYWHERE, TABLE
from bypass_tries import NEEDLE, SILENCE_S, Try

ALONE_S = 0.02  # an attempt has so long to itself before the next begins


class Facts:
    """Where things are: what matrix.py says."""

    def __init__(self, words):
        self.__dict__.update(words)


def token_of(run, number):
    return f"tk{run}{number:03d}x"


def attempt(name, function, facts, token, results):
    one = Try(facts, token)
    began, said = time.monotonic(), ""
    try:
        function(one)
    except (TimeoutError, socket.timeout):
        said = "silence"
    except Exception as error:  # whatever stops it is how it was refused
        said = f"{type(error).__name__}: {error}"
        one.note()
    silent = one.told is None and said in ("", "silence")
    results[name] = {
        "name": name,
        "ms": None if silent else round(((one.told or time.monotonic()) - began) * 1000, 1),
        "said": ascii(said or one.answer[:60].decode(errors="replace"))[:120],
        "reached": NEEDLE in one.answer,
    }


def main():
    words = json.loads(sys.argv[1])
    facts, results, threads = Facts(words), {}, []
    socket.setdefaulttimeout(SILENCE_S)
    for number, (name, function) in enumerate(TABLE):
        if words["only"] not in (None, "open" if number < len(ANYWHERE) else "named"):
            continue
        args = (name, function, facts, token_of(facts.run, number), results)
        thread = threading.Thread(target=attempt, args=args, daemon=True)
        thread.start()
        thread.join(ALONE_S)
        threads.append(thread)
    for thread in threads:
        thread.join(4 * SILENCE_S)
    for result in list(results.values()):
        print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
