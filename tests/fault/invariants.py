# SPDX-License-Identifier: Apache-2.0
"""The invariants that hold after any fault, checked against the kernel and the ledger. Each violation is one line of text.

I1 acknowledged operations hold; I2 running sandboxes keep running; I3 no orphans; I4 one owner for each object; I7 what the
daemons hold returns to what it was; I8 states are true; I13 serving within two seconds.
"""
import os
import time

import kernel
import stored
from api import in_threads
from ledger import ALIVE, DEAD, LOST_CONNECTION, MAYBE

SETTLE_SECONDS = 30  # I3: no orphans this long after the daemons are back
SERVING_SECONDS = 2.0  # I13


class Invariants:
    def __init__(self, instance, api, ledger):
        self.instance, self.api, self.ledger = instance, api, ledger

    def check(self):
        """All violations, after waiting for what is allowed to take time."""
        listed = {row["sandboxID"]: row for row in self.api.list()}
        found = list(self.ledger.lies)
        self.ledger.lies.clear()
        found += self.acknowledged(listed)
        found += stored.violations(self.api, self.ledger)
        found += self.settled()
        return found

    # --- I1, I2, I8 -------------------------------------------------------------------------------------------

    def acknowledged(self, listed):
        with self.ledger.lock:
            entries = list(self.ledger.entries.values())
        results = in_threads([lambda e=e: self.one(e, listed) for e in entries]) if entries else []
        found = []
        for entry, result in zip(entries, results):
            found += (
                [f"{entry.sandbox.id}: {type(result).__name__}: {result}"]
                if isinstance(result, Exception)
                else result
            )
        return found

    def one(self, entry, listed):
        name, there = entry.sandbox.id, entry.sandbox.id in listed
        status = self.api.get(name).status
        if (status == 200) != there and entry.state != MAYBE:
            return [f"I8 {name}: GET says {status}, the list says {'there' if there else 'not there'}"]
        if entry.state == DEAD:
            return [f"I1 {name}: killed and acknowledged, yet it is there"] if there else []
        if entry.state == MAYBE:
            return self.awake(entry, listed[name]) + self.works(entry) if there else []
        if not there:
            return [f"I1 {name}: created and acknowledged, yet it is gone"]
        return self.awake(entry, listed[name]) + self.works(entry) + self.same_processes(entry)

    def awake(self, entry, row):
        """What rests must wake."""
        if row["state"] != "paused":
            return []
        answer = self.api.call("POST", f"/v2/sandboxes/{entry.sandbox.id}/connect", {"timeout": 600})
        if answer.status in (200, 201):
            return []
        return [f"I8 {entry.sandbox.id}: paused, and connect says {answer.status} {answer.body[:200]!r}"]

    def works(self, entry):
        found = []
        try:
            outcome = entry.sandbox.run(["/bin/echo", "alive"], timeout=15)
            if outcome.stdout != b"alive\n":
                found.append(
                    f"I8 {entry.sandbox.id}: listed as running, but a command gave {outcome.exit_code} {outcome.error}"
                )
            for path, content in entry.files.items():
                answer = entry.sandbox.read(path, user="user")
                if answer.status != 200 or answer.body != content:
                    found.append(
                        f"I1 {entry.sandbox.id}: {path} holds {answer.status} {answer.body[:40]!r}, not {content[:40]!r}"
                    )
        except (*LOST_CONNECTION, Exception) as error:
            if entry.state == ALIVE or self.api.get(entry.sandbox.id).status == 200:
                found.append(f"I8 {entry.sandbox.id}: listed as running, but {type(error).__name__}: {error}")
        return found

    def same_processes(self, entry):
        found = []
        if entry.guest and not kernel.alive(*entry.guest):
            found.append(f"I2 {entry.sandbox.id}: pid 1 is another process")
        for inside, host in entry.processes.items():
            if not kernel.alive(*host):
                found.append(f"I2 {entry.sandbox.id}: process {inside} did not survive")
        return found

    # --- I3, I4 -----------------------------------------------------------------------------------------------

    def settled(self):
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            found = self.orphans() + self.owners() + stored.orphans(self.instance, self.api)
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def known(self):
        """Ids that may hold kernel objects: listed ones, and the pool's, which only the runner's records name."""
        listed = {row["sandboxID"] for row in self.api.list()}
        records = set(name.split(".")[0] for name in self.instance.inventory().records)
        return listed, records

    def orphans(self):
        listed, records = self.known()
        held = self.instance.inventory()
        pool = records - listed
        found = []
        if len(pool) > self.instance.ready + 2:
            found.append(
                f"I3 {len(pool)} sandboxes that nobody owns (the pool is {self.instance.ready}): {sorted(pool)[:4]}"
            )
        if listed - records:
            found.append(f"I8 listed without a record of the runner: {sorted(listed - records)[:4]}")
        for top, names in held.cgroups.items():
            stray = [
                name
                for name in names
                if name not in records
                and not name.startswith((".", "_"))
                and name not in ("runner", "control", "daemons")
            ]
            if stray:
                found.append(f"I3 control groups in {top}: {stray[:4]}")
        owned = set()
        for name in records:
            owned.update(self.instance.sandbox_pids(name))
        stray = [pid for pid in held.processes if pid not in owned]
        if stray:
            found.append(
                f"I3 processes outside every sandbox: {[(pid, kernel.read(f'/proc/{pid}/comm').strip()) for pid in stray[:4]]}"
            )
        if len(held.disks) > len(records) + 16:
            found.append(f"I3 {len(held.disks)} disks for {len(records)} sandboxes")
        if held.strays:
            found.append(f"I3 helpers of dead daemons: {held.strays[:4]}")
        if held.temporary:
            found.append(f"I3 temporary files: {held.temporary[:4]}")
        return found

    def owners(self):
        slots, found = {}, []
        for name in self.known()[1]:
            guest = self.instance.guest_pid(name)
            if guest is None:
                continue
            try:
                slot = self.instance.slot(guest)
            except (IndexError, ValueError):
                continue
            if slot in slots:
                found.append(f"I4 slot {slot} belongs to {slots[slot]} and {name}")
            slots[slot] = name
            if not self.instance.slot_first <= slot < self.instance.slot_first + self.instance.slot_count:
                found.append(f"I4 {name} has slot {slot}, outside this instance's range")
        return found


class Baseline:
    """I7: what an idle instance holds, to compare with what it holds after the faults."""

    def __init__(self, instance):
        self.instance = instance
        self.before = self.settled()

    def settled(self):
        """A measurement that has stood still for a second: the daemons fill their pools in quiet moments."""
        last, since, end = None, time.monotonic(), time.monotonic() + 20
        while time.monotonic() < end:
            now = self.measure()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() - since > 1:
                break
            time.sleep(0.1)
        return last

    def measure(self):
        held = self.instance.inventory()
        return {
            "descriptors of control": len(kernel.open_descriptors(self.instance.control.pid)),
            "descriptors of runner": len(kernel.open_descriptors(self.instance.runner.pid)),
            "loop devices": len(held.loops),
            "mounts": len(held.mounts),
            "links": len(held.links),
            "set elements": sum(held.nft.values()),
            "dying memory groups": self.memory_groups(),
        }

    @staticmethod
    def memory_groups():
        for line in kernel.read("/proc/cgroups").splitlines():
            if line.startswith("memory"):
                return int(line.split()[2])
        return 0

    def violations(self, live_before=0, live_now=0):
        """Compares when as many sandboxes live as at the start; `slack` covers pools that refill."""
        now, found = self.settled(), []
        for key, value in now.items():
            slack = (
                64
                if key == "dying memory groups"
                else max(8, value // 20) + 6 * max(0, live_now - live_before)
            )
            if value > self.before[key] + slack:
                found.append(f"I7 {key}: {self.before[key]} before, {value} after")
        return found


def wait_serving(instance):
    """Seconds until the API answered again, and a violation when that was too long."""
    took = instance.wait_ready(30)
    return took, [f"I13 serving again only after {took:.1f} s"] if took > SERVING_SECONDS else []


def leftovers(instance, running=False):
    """What is there although no sandbox is. With `running` daemons, what they keep ready is not counted."""
    held = instance.inventory().as_dict()
    ready = {"disks", "loops", "links", "nft", "mounts"} if running else {"disks"}
    left = {key: value for key, value in held.items() if value and key not in ready}
    return [
        f"I3 after the end: {key}: {value if not isinstance(value, list) else value[:4]}"
        for key, value in left.items()
    ]


def remember(instance, entry, processes=()):
    """Notes the host's view of a sandbox, so that its survival can be proven."""
    guest = instance.guest_pid(entry.sandbox.id)
    entry.guest = (guest, kernel.start_ticks(guest))
    by_inside = {}
    for pid in instance.sandbox_pids(entry.sandbox.id):
        levels = kernel.status_fields(pid).get("NSpid", "").split()
        if levels:
            by_inside[int(levels[-1])] = pid
    for inside in processes:
        entry.processes[inside] = (by_inside[inside], kernel.start_ticks(by_inside[inside]))
    return os.path.exists(f"/proc/{guest}")
