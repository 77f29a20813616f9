# SPDX-License-Identifier: Apache-2.0
"""Runs only the positive controls and prints which probes get through: `python3 tests/escape/calibrate.py`."""
import os
import shutil
import sys
import tempfile

import world as ground
from controls import Control


def probe_arguments(world, **more):
    """What every probe is told. Addresses and names only: the secrets stay outside."""
    told = {
        "nonce": world.nonce,
        "needle": ground.NEEDLE,
        "canary": world.canary,
        "host_dir": world.folder,
        "host_abstract": world.host_abstract,
        "host_socket": world.host_socket,
        "key_name": world.key_name,
        "loop_minor": world.loop.removeprefix("/dev/loop"),
        "metadata_port": world.metadata_port,
        "host_port": world.host_port,
        "world": ground.WORLD_ADDRESS,
        "world_port": world.world_port,
        "host_address": ground.HOST_ADDRESS,
        "vsock_port": world.vsock_port,
        "victim_pid": world.victim.pid,
        "agent_port_number": 49983,
        "own_address": "169.254.0.21",
        "host_name": os.uname().nodename,
    }
    told.update(more)
    return [f"{key}={value}" for key, value in told.items()]


def control_arguments(world):
    """For the control, the host itself stands in for everything that a sandbox could reach."""
    return probe_arguments(
        world,
        neighbour_canary=world.canary,
        neighbour_abstract=world.host_abstract,
        data_dir=world.folder,
        runner_socket=world.host_socket,
        slot_address=ground.HOST_ADDRESS,
        agent_port_number=world.host_port,
        neighbour_slot_address=ground.HOST_ADDRESS,
        api_port=world.host_port,
        agent_exe=world.agent_program,
        shared_file=world.shared_file,
        own_address="127.0.0.9",
        memory_mib=1100,
        disk_mib=4224,
        processes=600,
    )


def main():
    programs = {name: os.path.join(sys.argv[1], name) for name in ("escape_probe", "escape_weak")}
    ground.enter_private_host()
    folder = tempfile.mkdtemp(prefix="atoll-escape-")
    world = ground.World(folder)
    try:
        world.start()
        world.gateway_address(True)
        control = Control(programs, world, control_arguments(world))
        for probe in control.list():
            through, answer, evidence = control.run(probe)
            print(
                "through" if through else "VACUOUS",
                probe,
                answer["errno"],
                answer["note"],
                answer["detail"][:60].replace("\n", "|"),
                evidence,
            )
        print(control.inotify())
    finally:
        world.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
