"""Run by tests/test_realtime_rings.py in a network namespace of its own: frames that leave by
transmit rings on veth pairs.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
import time
from typing import Any

from tests.frames_namespace import DEADLINE_S, HEAD, receive, wait_for

from weft.switch.realtime.config import config_of
from weft.switch.realtime.layout import BATCH
from weft.switch.realtime.ports import open_port
from weft.switch.realtime.process import SwitchProcess
from weft.switch.realtime.rings import RING_BUFFERS

PORTS = (1, 2, 3)
FRAME_BYTES = 9216
MTU = FRAME_BYTES - 14
BURST = 200


def ip(*lines: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def make_links(run: int, mtu: int) -> dict[int, str]:
    """Interfaces of a switch, the last of which take packets of so many bytes. They are new ones,
    since the kernel lets go of a ring a little after it is closed."""
    for port in PORTS:
        ip(f"link add r{run}s{port} type veth peer name r{run}h{port}")
        size = mtu if port == PORTS[-1] else MTU
        ip(*(f"link set r{run}{end}{port} mtu {size} addrgenmode none up" for end in ("s", "h")))
    return {port: f"r{run}s{port}" for port in PORTS}


class Switch:
    """A switch on interfaces of its own, and what is behind its ports."""

    def __init__(self, run: int, bmv2_json: str, mtu: int = MTU, **options: Any) -> None:
        self.interfaces = make_links(run, mtu)
        ports = [{"port": port, "interface": name} for port, name in self.interfaces.items()]
        switch = {"name": "leaf0", "device_id": 1, "address": "", "ports": ports}
        document = {"switches": [switch], "frame_bytes": FRAME_BYTES, **options}
        self.process = SwitchProcess(config_of(document, "test"))
        self.process.dataplane.plain = True
        self.hosts = {port: open_port(f"r{run}h{port}") for port in PORTS}
        for host in self.hosts.values():
            host.settimeout(DEADLINE_S)
        with open(bmv2_json, encoding="utf-8") as file:
            self.process.controls[0].load_program(file.read(), load="save")
        self.process.controls[0].commit_program()

    def start(self) -> Switch:
        self.process.start()
        return self

    def rings(self) -> list[bool]:
        (switch,) = self.process.statistics()["switches"]
        return [port["ring"] for port in switch["ports"]]

    def passes(self, frames: list[bytes], sink: int = 2) -> bool:
        """Whether frames, sent as fast as may be, leave as they are and in their order."""
        same = True
        for first in range(0, len(frames), BURST):
            burst = frames[first : first + BURST]
            for frame in burst:
                self.hosts[1].send(frame)
            same = all([receive(self.hosts[sink]) == frame for frame in burst]) and same
        return same

    def end(self) -> str:
        self.process.stop()
        return repr(self.process.failure)


def frames_of(seed: int, count: int, port: int = 2) -> list[bytes]:
    """Frames to a port of any length, with any content."""
    source = random.Random(seed)
    head = bytes([0, port]) + HEAD[2:] + b"\x90\0"
    edges = (14, 15, 127, 128, 129, 4095, 4096, 4097, 4223, 4224, 4225, FRAME_BYTES)
    lengths = [*edges, *(source.randrange(14, FRAME_BYTES + 1) for _ in range(count))]
    return [head + source.randbytes(length - 14) for length in lengths]


def of_any_length(bmv2_json: str) -> dict[str, Any]:
    switch = Switch(1, bmv2_json).start()
    seen = {"rings": switch.rings(), "passes": switch.passes(frames_of(1, 1000))}
    return {**seen, "rings_then": switch.rings(), "failure": switch.end()}


def without(bmv2_json: str) -> dict[str, Any]:
    switch = Switch(2, bmv2_json, rings=False).start()
    seen = {"rings": switch.rings(), "passes": switch.passes(frames_of(2, 100))}
    return {**seen, "failure": switch.end()}


def seen_by_captures(bmv2_json: str) -> dict[str, Any]:
    switch = Switch(3, bmv2_json, captured=True).start()
    return {"rings": switch.rings(), "failure": switch.end()}


def far_buffers(switch: Switch) -> int:
    """How many of the buffers that wait for frames are none of those that rings send from."""
    address = int(switch.process.sockets.io.receive_buffers)
    slots = (ctypes.c_int64 * BATCH).from_address(address)
    return sum(buffer >= RING_BUFFERS for buffer in slots)


def from_buffers_that_are_not_the_rings(bmv2_json: str) -> dict[str, Any]:
    """After a time of full queues the first buffers lie anywhere: here below all others, and only
    after some frames is one found at a look."""
    switch = Switch(4, bmv2_json)
    context, memory = switch.process.dataplane.context, switch.process.dataplane.memory
    count = int(context.free_buffer_count)
    memory.free_buffers[:count] = memory.free_buffers[:count][::-1].copy()
    switch.process.sockets.io.probed = count - 100
    switch.start()
    passes = [switch.passes(frames_of(4, 1))]
    far = [far_buffers(switch) > 0]
    passes.append(switch.passes(frames_of(5, 4000)))
    far.append(far_buffers(switch) > 0)
    failure = switch.end()
    free = memory.free_buffers[: int(context.free_buffer_count)]
    return {
        "passes": passes,
        "far": far,
        "each_once": len(set(free.tolist())) == len(free),
        "kept": len(memory.buffers) - len(free) - int(memory.buffer_references.sum()),
        "referenced_and_free": int(memory.buffer_references[free].sum()),
        "failure": failure,
    }


def a_ring_of_somebody_else(bmv2_json: str) -> dict[str, Any]:
    first = Switch(5, bmv2_json)
    document = {
        "switches": [
            {
                "name": "leaf1",
                "device_id": 1,
                "address": "",
                "ports": [{"port": 2, "interface": first.interfaces[2]}],
            }
        ]
    }
    second = SwitchProcess(config_of(document, "test"))
    (switch,) = second.statistics()["switches"]
    first.start()
    seen = {"rings": [port["ring"] for port in switch["ports"]]}
    second.sockets.close()
    return {**seen, "passes": first.passes(frames_of(5, 50)), "failure": first.end()}


def a_link_that_goes_down(bmv2_json: str) -> dict[str, Any]:
    switch = Switch(6, bmv2_json).start()
    seen: dict[str, Any] = {"before": switch.passes(frames_of(6, 50))}
    ip(f"link set {switch.interfaces[2]} down")
    for frame in frames_of(6, 50):
        switch.hosts[1].send(frame)
        time.sleep(0.001)
    seen |= wait_for(switch.process, {"errors2": 62})
    ip(f"link set {switch.interfaces[2]} up")
    time.sleep(0.1)
    seen |= {"rings": switch.rings(), "after": switch.passes(frames_of(7, 50))}
    return {**seen, "others": switch.passes(frames_of(8, 50, 3), 3), "failure": switch.end()}


def a_frame_that_is_too_long(bmv2_json: str) -> dict[str, Any]:
    switch = Switch(7, bmv2_json, mtu=1500)
    switch.start()
    for frame in frames_of(9, 20, 3):
        switch.hosts[1].send(frame)
    fitting = sum(len(frame) <= 1514 for frame in frames_of(9, 20, 3))
    errors = len(frames_of(9, 20, 3)) - fitting
    seen = wait_for(switch.process, {"errors3": errors})
    got = [receive(switch.hosts[3]) for _ in range(fitting)]
    same = got == [frame for frame in frames_of(9, 20, 3) if len(frame) <= 1514]
    return {"same": same, "all": seen["errors3"] == errors, "rings": switch.rings(),
            "failure": switch.end()}  # fmt: skip


CASES = (
    of_any_length, without, seen_by_captures, from_buffers_that_are_not_the_rings,
    a_ring_of_somebody_else, a_link_that_goes_down, a_frame_that_is_too_long,
)  # fmt: skip


def main(bmv2_json: str) -> None:
    ip("link set lo up")
    print(json.dumps({case.__name__: case(bmv2_json) for case in CASES}))


if __name__ == "__main__":
    main(sys.argv[1])
