"""Run by test_storms.py in a network namespace of its own: odd frames on veth pairs.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Any

from weft.switch.realtime.config import config_of
from weft.switch.realtime.packet_sockets import PACKET_AUXDATA, SOL_PACKET, open_port
from weft.switch.realtime.process import SwitchProcess

PORTS = (1, 2, 3)
NARROW = 3
FRAME_BYTES = 9216
DEADLINE_S = 60.0
VLAN_VALID = 16
SOL_UDP, UDP_SEGMENT = 17, 103
HEAD = b"\0\2" + b"\2" * 10
"""Of a frame to port 2."""


def make_links() -> None:
    lines = ["link set lo up"]
    for port in PORTS:
        lines.append(f"link add s{port} type veth peer name h{port}")
        mtu = 1500 if port == NARROW else 65535
        for end in ("s", "h"):
            lines.append(f"link set {end}{port} mtu {mtu} addrgenmode none up")
    lines += ["addr add 10.0.0.1/24 dev h1", "neigh add 10.0.0.2 lladdr 00:02:02:02:02:02 dev h1"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def receive(host: socket.socket) -> bytes:
    """The next frame, with the tag that the kernel took out of it."""
    frame, messages, _, _ = host.recvmsg(1 << 17, 256)
    for level, kind, data in messages:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, information, protocol = struct.unpack("=IIIHHHH", data)
            if status & VLAN_VALID:
                return frame[:12] + struct.pack(">HH", protocol, information) + frame[12:]
    return frame


def sent_and_left(frames: list[bytes], source: socket.socket, sink: socket.socket) -> list[bool]:
    """Whether each frame leaves the switch as it went in."""
    same = []
    for frame in frames:
        source.send(frame)
        same.append(receive(sink) == frame)
    return same


def drops(process: SwitchProcess) -> dict[str, int]:
    statistics = process.statistics()
    (switch,) = statistics["switches"]
    errors = {f"errors{port['port']}": port["send_errors"] for port in switch["ports"]}
    return {**switch["drops"], **errors}


def wait_for(process: SwitchProcess, counts: dict[str, int]) -> dict[str, int]:
    """The drops, once they are as many as these or the deadline has passed."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        found = drops(process)
        if all(found[name] >= count for name, count in counts.items()):
            break
        time.sleep(0.01)
    return {name: drops(process)[name] for name in counts}


def main(bmv2_json: str) -> None:
    make_links()
    ports = [{"port": port, "interface": f"s{port}"} for port in PORTS]
    switch = {"name": "leaf0", "device_id": 1, "address": "", "ports": ports}
    process = SwitchProcess(config_of({"switches": [switch], "frame_bytes": FRAME_BYTES}, "test"))
    process.dataplane.programs.plain = True
    hosts = {port: open_port(f"h{port}") for port in PORTS}
    for host in hosts.values():
        host.settimeout(DEADLINE_S)
    process.start()
    with open(bmv2_json, encoding="utf-8") as file:
        process.controls[0].load_program(file.read(), load="save")
    process.controls[0].commit_program()
    seen: dict[str, Any] = {}
    tags = [b"\x81\0\x60\x07", b"\x88\xa8\0\x01\x81\0\xe0\xff", b"\x81\0\0\0\x81\0\x0f\xff"]
    tagged = [HEAD + tag + b"\x08\0" + b"x" * size for tag in tags for size in (2, 50, 9000)]
    seen["tagged"] = sent_and_left(tagged, hosts[1], hosts[2])
    short = [HEAD + b"\x90\0" + b"y" * size for size in (0, 1, 45, 46)]
    seen["short"] = sent_and_left(short, hosts[1], hosts[2])
    most = [HEAD + b"\x90\0" + b"z" * (size - 14) for size in (9000, FRAME_BYTES)]
    seen["most"] = sent_and_left(most, hosts[1], hosts[2])
    for size in (FRAME_BYTES + 1 + 64, 20_000, 65_000):
        hosts[1].send(HEAD + b"\x90\0" + b"z" * (size - 14))
    for kind in (8, 10):
        hosts[1].send(bytes([kind]) + HEAD[1:] + b"\x90\0" + b"x" * 50)
    hosts[1].send(b"\0\3" + HEAD[2:] + b"\x90\0" + b"x" * 5000)
    seen["dropped"] = wait_for(process, {"too_long": 3, "errors2": 2, "errors3": 1})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(SOL_UDP, UDP_SEGMENT, 1000)
        udp.sendto(b"s" * 30_000, ("10.0.0.2", 9))
        seen["segments"] = 0
        until = time.monotonic() + DEADLINE_S
        while drops(process)["too_long"] == 3 and seen["segments"] < 30:
            if time.monotonic() > until:
                break
            seen["segments"] += len(receive(hosts[2])) == 1042 if segmented(hosts[2]) else 0
    seen["after"] = sent_and_left(short, hosts[1], hosts[2])
    process.stop()
    seen["failure"] = repr(process.failure)
    print(json.dumps(seen))


def segmented(host: socket.socket) -> bool:
    """Whether a frame is there: the sender's kernel has made segments of what it sent."""
    return bool(select.select([host], [], [], 0.01)[0])


if __name__ == "__main__":
    main(sys.argv[1])
