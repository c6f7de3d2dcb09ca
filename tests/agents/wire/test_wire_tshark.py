"""What tshark makes of every kind of packet that the transport sends."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.transport_pair import pattern

from weft.agents.datagrams import UDP_PORT, ipv4
from weft.agents.transport import ChunkSink, Endpoint, TransportOptions
from weft.agents.wire.headers import Opcode

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def frame(datagram: Datagram) -> bytes:
    """The Ethernet frame that a host's kernel makes of a datagram (IPv4 checksum left out)."""
    udp = struct.pack(">HHHH", datagram.source_port, UDP_PORT, 8 + len(datagram.data), 0)
    addresses = struct.pack(">II", datagram.source, datagram.destination)
    size = 20 + len(udp) + len(datagram.data)
    header = struct.pack(">BBHHHBBH", 0x45, datagram.tos, size, 0, 0x4000, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + header + addresses + udp + datagram.data


SELECTIVE = TransportOptions(recovery="selective", congestion="dctcp", entropy="reps")


def traffic(options: TransportOptions | None = None) -> list[Datagram]:
    """Every opcode, with a loss for the NAK."""
    hosts = [Endpoint(ipv4(f"10.0.0.{number}"), 256, 10**9, number, options) for number in (1, 2)]
    left, right = (host.create_rc() for host in hosts)
    bad, worse = (host.create_rc() for host in hosts)
    for one, other in ((left, right), (bad, worse)):
        one.connect(other.local)
        other.connect(one.local)
    groups = [host.create_ud(ipv4("239.0.0.1"), 5) for host in hosts]
    here = hosts[0].register(pattern(1500))
    there = hosts[1].register(np.zeros(1500, np.uint8))
    groups[1].sink = sink = ChunkSink(np.zeros(1000, np.uint8), 1, 256, [1000])
    groups[0].post_chunks(here, 0, 4, 256, sink.number_base, 0, length=1000)
    for size in (3, 700):
        left.post_send(bytes(size))
        left.post_send(bytes(size), immediate=1)
        left.post_write(here, 0, size, there.address, there.rkey)
        left.post_write(here, 0, size, there.address, there.rkey, 7)
        left.post_read(here, 0, size, there.address, there.rkey)
    worse.post_read(there, 0, 1, here.address, here.rkey ^ 0x10000)
    write = Opcode.RC_WRITE_ONLY if options else Opcode.RC_WRITE_FIRST
    faults = Faults(lose={0}, only=lambda datagram, _: datagram.data[0] == write)
    network = MemoryNetwork(hosts, rate_bps=10**9, mark_bytes=-1, faults=faults, keep_trace=True)
    network.settle()
    return [datagram for _, _, datagram in network.trace]


@pytest.mark.parametrize("options", [None, SELECTIVE], ids=["default", "selective"])
def test_every_packet_decodes_as_infiniband_and_none_is_malformed(
    tmp_path: Path, options: TransportOptions | None
) -> None:
    datagrams = traffic(options)
    capture = tmp_path / "all.pcap"
    with capture.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, datagram in enumerate(datagrams):
            data = frame(datagram)
            file.write(struct.pack("<IIII", 0, number, len(data), len(data)) + data)
    fields = [
        "frame.protocols",
        "infiniband.bth.opcode",
        "_ws.malformed",
        "infiniband.aeth.syndrome",
        "infiniband.reth.dmalen",
        "ip.dsfield.ecn",
    ]
    printed = subprocess.run(
        [
            *("tshark", "-r", str(capture), "--disable-protocol", "rpcordma", "-T", "fields"),
            *(part for field in fields for part in ("-e", field)),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    rows = [line.split("\t") for line in printed]
    assert len(rows) == len(datagrams)
    assert not [row for row in rows if row[2]]
    assert all("infiniband" in row[0] for row in rows)
    opcodes = Counter(int(row[1], 0) for row in rows)
    parts = {0x06, 0x07, 0x08, 0x09} if options else set()
    assert set(opcodes) == {*range(0x12), 0x65} - parts
    if options:
        writes = [row for row in rows if int(row[1], 0) in (0x0A, 0x0B)]
        assert {int(row[4], 0) for row in writes} == {256, 700 % 256, 3}
        assert {row[5] for row in rows} == {"0", "3"}
    assert {int(row[3], 0) for row in rows if row[3]} >= {0x1F, 0x60, 0x62}
