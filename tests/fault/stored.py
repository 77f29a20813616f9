# SPDX-License-Identifier: Apache-2.0
"""Snapshots and forks under faults: one life that passes all their crash points, and what must hold of them afterwards."""
import os

from api import Sandbox
from ledger import DEAD, MAYBE

PATH = "/home/user/kept"


def life(scenario):
    """A snapshot of a sandbox, a sandbox from it, a fork, and the removal of the snapshot."""
    api, ledger, attempt = scenario.api, scenario.ledger, scenario.attempt
    parent = attempt(lambda: api.create(600, request_timeout=20))
    if parent is None:
        return
    entry = ledger.created(parent, 600)
    content = parent.id.encode()
    written = attempt(lambda: parent.write(PATH, content, user="user"))
    snapshot = attempt(lambda: api.expect((201,), "POST", f"/sandboxes/{parent.id}/snapshots").json())
    if snapshot is not None and written is not None:
        ledger.snapshots[snapshot["id"]] = content
    started = [parent]
    if snapshot is not None:
        child = attempt(lambda: api.create(600, template=snapshot["snapshotID"], request_timeout=20))
        started += [child] if child is not None else []
    forked = attempt(lambda: api.expect((201,), "POST", f"/sandboxes/{parent.id}/fork", {"count": 2}).json())
    started += [Sandbox(api, one["sandbox"]) for one in forked or [] if "sandbox" in one]
    for sandbox in started:
        if sandbox is not parent:
            entry = ledger.created(sandbox, 300)
        entry.state = MAYBE
        if attempt(sandbox.kill) in (204, 404):
            entry.state = DEAD
    if snapshot is not None:
        remove(scenario, snapshot["id"])


def remove(scenario, snapshot):
    """From the request on it may be gone; the answer says that it is."""
    scenario.ledger.snapshots.pop(snapshot, None)
    scenario.attempt(lambda: scenario.api.call("DELETE", f"/v1/snapshots/{snapshot}"))


def listed(api):
    return {row["id"]: row for row in api.expect((200,), "GET", "/v1/snapshots").json()["snapshots"]}


def violations(api, ledger):
    """I1: a snapshot that was acknowledged is there, and a sandbox from it has its files."""
    found, rows = [], listed(api)
    for snapshot, content in list(ledger.snapshots.items()):
        if snapshot not in rows or not rows[snapshot]["usable"]:
            found.append(f"I1 snapshot {snapshot}: acknowledged, yet it is gone")
            continue
        child = api.create(60, template=snapshot, request_timeout=20)
        ledger.created(child, 60).state = MAYBE
        answer = child.read(PATH, user="user")
        if answer.status != 200 or answer.body != content:
            found.append(f"I1 snapshot {snapshot}: holds {answer.status} {answer.body[:40]!r}, not {content!r}")
        child.kill()
    return found


def orphans(instance, api):
    """I3: what is stored is what is listed."""
    folder = instance.data_dir + "/snapshots"
    stored = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    known = set(listed(api))
    return [f"I3 stored {sorted(stored)[:4]}, listed {sorted(known)[:4]}"] if stored != known else []


def clean(api, ledger):
    """Removes all that are left: also what an answer was lost of, like children of a fork that nobody heard of."""
    ledger.snapshots.clear()
    for snapshot in listed(api):
        api.call("DELETE", f"/v1/snapshots/{snapshot}")
    with ledger.lock:
        known = set(ledger.entries)
    for row in api.list():
        if row["sandboxID"] not in known:
            api.kill(row["sandboxID"])
