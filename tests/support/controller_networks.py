"""Networks of switches for the tests of the controller: built-in ones in process, and BMv2."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.p4runtime.server import serve
from weft.topo.clos import Host, Topology

MULTICAST_MAC = 0x01005E000000


@contextlib.contextmanager
def built_in_switches(
    topology: Topology, folder: Path
) -> Iterator[tuple[Dataplane, dict[str, str]]]:
    """All switches of a topology in this process, uncompiled; and their P4Runtime addresses."""
    ports = 1 + max(len(topology.outward(switch.name)) for switch in topology.switches)
    dataplane = Dataplane(len(topology.switches), ports, plain=True)
    servers = []
    for number, switch in enumerate(topology.switches):
        for direction in topology.outward(switch.name):
            dataplane.set_port(number, direction.source.number, Queue())
        control = dataplane.control(number, switch.name)
        servers.append(serve(control, switch.device_id, f"unix:{folder}/{switch.name}.sock"))
    try:
        names = [switch.name for switch in topology.switches]
        yield dataplane, dict(zip(names, (one.address for one in servers), strict=True))
    finally:
        for server in servers:
            server.stop()


@contextlib.contextmanager
def bmv2_switches(topology: Topology, folder: Path) -> Iterator[dict[str, str]]:
    """simple_switch_grpc without ports, each in a network namespace of its own; their addresses.

    Skips the test where BMv2 or root is missing.
    """
    program = shutil.which("simple_switch_grpc")
    if program is None:
        pytest.skip("simple_switch_grpc (BMv2) is not on PATH")
    if os.geteuid() != 0:
        pytest.skip("needs root for a network namespace, as BMv2 listens on a TCP port too")
    addresses = {}
    with contextlib.ExitStack() as stack:
        for switch in topology.switches:
            addresses[switch.name] = f"unix:{folder}/{switch.name}.sock"
            log = stack.enter_context(open(folder / f"{switch.name}.log", "w"))
            process = subprocess.Popen(
                ["unshare", "--net", program, "--no-p4", "--device-id", str(switch.device_id),
                 "--", "--grpc-server-addr", addresses[switch.name],
                 "--cpu-port", "510", "--drop-port", "511"],
                stdout=log, stderr=log,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield addresses


def frame(source: Host, address: int, mac: int, source_port: int) -> bytes:
    """A RoCEv2-like frame: Ethernet, IPv4, UDP to port 4791, and zeros."""
    payload = struct.pack("!HHHH", source_port, 4791, 8 + 24, 0) + bytes(24)
    header = struct.pack(
        "!BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, 17, 0, source.address, address
    )
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
    header = header[:10] + struct.pack("!H", checksum) + header[12:]
    return mac.to_bytes(6, "big") + source.mac.to_bytes(6, "big") + b"\x08\x00" + header + payload


def unicast(topology: Topology, source: str, destination: str, source_port: int) -> bytes:
    """A frame from one host to another, as the first sends it: to its leaf's MAC address."""
    host = topology.host(source)
    gateway = topology.leaf_of(source).mac
    return frame(host, topology.host(destination).address, gateway, source_port)


def multicast(topology: Topology, source: str, group: int) -> bytes:
    """A frame from a host to a multicast group."""
    return frame(topology.host(source), group, MULTICAST_MAC | group & 0x7FFFFF, 49152)


def send(
    topology: Topology, dataplane: Dataplane, source: str, frames: list[bytes]
) -> dict[str, list[bytes]]:
    """Let a host send frames, carry them over all links, and say what reached which host."""
    numbers = {switch.name: number for number, switch in enumerate(topology.switches)}
    names = list(numbers)
    far_end = {(d.source.node, d.source.number): d.destination for d in topology.directions}
    received: dict[str, list[bytes]] = {}
    now_ns = 1000
    first = far_end[source, 1]
    waiting = deque((first, one) for one in frames)
    while waiting:
        port, one = waiting.popleft()
        if port.node not in numbers:
            received.setdefault(port.node, []).append(one)
            continue
        dataplane.receive(numbers[port.node], port.number, [one], now_ns)
        while (due_ns := dataplane.deadline()) is not None:
            now_ns = max(now_ns, due_ns)
            for departure in dataplane.transmit(now_ns):
                waiting.append((far_end[names[departure.switch], departure.port], departure.frame))
    return received
