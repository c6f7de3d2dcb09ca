"""Packet by packet the same as BMv2, where BMv2 is installed."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switch.engine.control import CloneSession, MulticastGroup, Replica
from switch.engine.dataplane import Dataplane, Queue
from tests.engine_programs import features

PORTS = 4


def commands() -> Iterator[bytes]:
    """Frames that ask for everything that the program can do, with some at random."""
    rng = random.Random(7)
    # Operation 0x20 looks ahead: BMv2 does not check that the bytes are there, so they are.
    operations = [*range(1, 14), 0x10, 0x11, 0x12, 0x13, 0x20, 0x21, *range(0x30, 0x36)]
    values = [0, 1, 10, 15, 16, 20, 21, 100, 257, 300, 999, 1000, 65535]
    numbers = [0, 0x0A000001, 0x0A0B0000, 0x0A0B0C0D, 0x0A0B0C0E, 0xFFFFFFFF]
    for operation in operations:
        for _ in range(6):
            head = struct.pack(
                ">BHHI", operation, rng.choice(values), rng.choice(values), rng.choice(numbers)
            )
            items = rng.choice([b"", b"\x81", b"\x01\x82", b"\x01\x02\x83", b"\x01\x02\x03\x84"])
            yield head + items + bytes(rng.randrange(3 if operation == 0x20 else 0, 30))
    for _ in range(60):
        frame = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 24)))
        yield frame if frame[0] != 0x20 else b"\1" + frame


def is_defined(frame: bytes) -> bool:
    """Whether P4 says what comes of a frame: 0x03 indexes 16 registers, and may miss them all.
    BMv2 as it is released does not look, and crashes."""
    return frame[0] != 0x03 or int.from_bytes(frame[1:3], "big") < 16


def weft(frames: list[bytes], *, plain: bool = False) -> dict[int, list[bytes]]:
    """What the engine sends on each port."""
    dataplane = Dataplane(1, 8, packets=64, plain=plain)
    for port in range(1, PORTS + 1):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    control.load_program(features(), load="save")
    control.commit_program()
    control.insert_multicast_group(MulticastGroup(1, (Replica(2, 5), Replica(3, 5), Replica(4, 5))))
    control.insert_clone_session(CloneSession(1, (Replica(4),)))
    control.publish()
    sent: dict[int, list[bytes]] = {port: [] for port in range(1, PORTS + 1)}
    for frame in frames:
        dataplane.receive(0, 1, [frame], 0)
        for departure in dataplane.transmit(0):
            sent[departure.port].append(departure.frame)
    assert dataplane.context[4] == 64 == dataplane.context[7]
    return sent


def write_pcap(path: Path, frames: list[bytes]) -> None:
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for position, frame in enumerate(frames):
        stamp = (position // 1000, position % 1000 * 1000)
        data += struct.pack("<IIII", *stamp, len(frame), len(frame)) + frame
    path.write_bytes(data)


def read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.is_file() else b""
    frames, at = [], 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        if at + 16 + length > len(data):
            break
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


SCRIPT = """
ip link set lo up
simple_switch --use-files 3 {interfaces} --thrift-port 19090 program.json > bmv2.log 2>&1 &
switch=$!
for i in $(seq 50); do
    echo help | simple_switch_CLI --thrift-port 19090 > /dev/null 2>&1 && break
    sleep 0.1
done
simple_switch_CLI --thrift-port 19090 > cli.log 2>&1 <<END
set_queue_depth 10000
mc_mgrp_create 1
mc_node_create 5 2 3 4
mc_node_associate 1 0
mirroring_add 1 4
END
touch configured
read finished
kill $switch
wait $switch
"""


def bmv2(folder: Path, frames: list[bytes], count: int) -> dict[int, list[bytes]]:
    """What simple_switch sends on each port; waits for ``count`` frames or 300 s."""
    (folder / "program.json").write_text(features())
    interfaces = " ".join(f"-i {port}@p{port}" for port in range(1, PORTS + 1))
    for port in range(1, PORTS + 1):
        write_pcap(folder / f"p{port}_in.pcap", frames if port == 1 else [])
    process = subprocess.Popen(
        ["unshare", "-n", "bash", "-c", SCRIPT.format(interfaces=interfaces)],
        cwd=folder,
        stdin=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            sent = {port: read_pcap(folder / f"p{port}_out.pcap") for port in range(1, PORTS + 1)}
            if sum(map(len, sent.values())) >= count:
                break
            time.sleep(0.1)  # between two looks at the files
    finally:
        process.communicate(b"\n", timeout=120)
    return {port: read_pcap(folder / f"p{port}_out.pcap") for port in range(1, PORTS + 1)}


def test_the_features_program_does_the_same_compiled_and_plain() -> None:
    frames = list(commands())
    assert weft(frames) == weft(frames, plain=True)


def test_every_packet_is_treated_as_bmv2_treats_it(tmp_path: Path) -> None:
    if shutil.which("simple_switch") is None:
        pytest.skip("BMv2 (simple_switch) is not installed")
    if os.geteuid() != 0:
        pytest.skip("BMv2 is given a network namespace of its own: needs root")
    frames = list(filter(is_defined, commands()))
    ours = weft(frames)
    theirs = bmv2(tmp_path, frames, sum(map(len, ours.values())))
    for port in ours:
        assert sorted(ours[port]) == sorted(theirs[port]), f"port {port}"
