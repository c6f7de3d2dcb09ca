"""Run by test_realtime.py in a network namespace of its own: the switch on veth pairs.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import json
import queue
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.support.engine_programs import router
from tests.support.engine_support import packet

from weft.base.errors import InputError
from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    Lpm,
    MemberTarget,
    MulticastGroup,
    ProfileMember,
    Replica,
    TableEntry,
)
from weft.switch.realtime.config import read_config
from weft.switch.realtime.link_states import LinkStates
from weft.switch.realtime.packet_sockets import open_port
from weft.switch.realtime.process import SwitchProcess

PORTS = (1, 2, 3)
RATE_BPS = 10_000_000
DEADLINE_S = 60.0
BURST = 20


def make_links() -> None:
    lines = ["link set lo up"]
    for port in PORTS:
        lines.append(f"link add s{port} type veth peer name h{port}")
        for end in ("s", "h"):
            lines.append(f"link set {end}{port} mtu 9300 addrgenmode none up")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def collect(host: socket.socket, count: int) -> list[tuple[float, bytes]]:
    """Up to ``count`` frames with their arrival times, or what came before the deadline."""
    frames: list[tuple[float, bytes]] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(frames) < count:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([host], [], [], left)[0]:
            break
        frames.append((time.monotonic(), host.recv(65536)))
    return frames


def link_changes(process: SwitchProcess) -> list[tuple[int, bool]]:
    """What is told of ports when a host's end of a link goes down, and comes back."""
    told: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()
    states = LinkStates(process, [lambda port, up: told.put((port, up))])
    changes = []
    for state in ("down", "up"):
        subprocess.run(["ip", "link", "set", "h3", state], check=True)
        changes.append(told.get(timeout=DEADLINE_S))
    states.close()
    return changes


def main(folder: Path) -> None:
    make_links()
    ports = [
        {"port": port, "interface": f"s{port}", "rate_bps": RATE_BPS, "delay_ns": 1_000_000}
        for port in PORTS
    ]
    document = {
        "switches": [
            {"name": "leaf0", "device_id": 1, "address": "unix:none", "seed": 1, "ports": ports}
        ]
    }
    path = folder / "switches.json"
    path.write_text(json.dumps(document))
    witness = open_port("s1")  # a frame is at the sockets opened later before it is at this one
    process = SwitchProcess(read_config(path))
    hosts = {port: open_port(f"h{port}") for port in PORTS}
    for host in (witness, *hosts.values()):
        host.setblocking(True)
    process.start()
    hosts[1].send(packet("10.1.0.1"))
    control = process.controls[0]
    control.load_program(router(), load="save")
    until = time.monotonic() + DEADLINE_S
    while process.statistics()["switches"][0]["drops"]["no_program"] == 0:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    control.commit_program()
    control.insert_member(ProfileMember("ecmp", 2, ActionCall("forward", (2, 5))))
    control.insert_entry(TableEntry("route", (Lpm(0x0A010000, 16),), MemberTarget(2)))
    control.insert_entry(
        TableEntry("multicast", (Exact(0xEF000001),), ActionCall("replicate", (7,)))
    )
    control.insert_replication(MulticastGroup(7, (Replica(2), Replica(3))))
    control.publish()
    refused = ""
    try:
        process.set_link("leaf0", 1, up=False)
    except InputError as error:
        refused = str(error)
    collect(witness, 1)
    started = time.monotonic()

    def burst() -> None:
        for number in range(BURST):
            hosts[1].send(packet("10.1.0.1", size=1250, source_port=number))
        collect(witness, BURST)

    process.at_once(burst)  # so the loop finds all of it at once
    paced = collect(hosts[2], BURST)
    hosts[1].send(packet("10.1.0.1", size=9214))
    jumbo = collect(hosts[2], 1)
    hosts[1].send(packet("239.0.0.1"))
    copies = [len(collect(hosts[port], 1)) for port in (2, 3)]
    statistics = process.statistics()
    until = time.monotonic() + DEADLINE_S
    while statistics["lateness_ns"]["count"] < 23 and time.monotonic() < until:
        time.sleep(0.01)  # a frame is there before it is counted how late it left
        statistics = process.statistics()
    links = link_changes(process)
    process.stop()
    print(
        json.dumps(
            {
                "sizes": [len(frame) for _, frame in paced],
                "order": [int.from_bytes(frame[34:36], "big") for _, frame in paced],
                "first_s": paced[0][0] - started if paced else None,
                "last_s": paced[-1][0] - started if paced else None,
                "jumbo": [len(frame) for _, frame in jumbo],
                "copies": copies,
                "statistics": statistics,
                "links": links,
                "refused": refused,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
