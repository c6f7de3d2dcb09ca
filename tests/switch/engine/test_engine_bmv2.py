"""Packet by packet the same as BMv2, where BMv2 is installed."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.bmv2_support import assert_same, bmv2, require_bmv2, weft
from tests.support.engine_programs import features

from weft.switch.engine.control.entities import CloneSession, MulticastGroup, Replica
from weft.switch.engine.control.state import SwitchControl


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


def configure(control: SwitchControl) -> None:
    control.insert_replication(MulticastGroup(1, (Replica(2, 5), Replica(3, 5), Replica(4, 5))))
    control.insert_replication(CloneSession(1, (Replica(4),)))


CONFIGURE = """
mc_mgrp_create 1
mc_node_create 5 2 3 4
mc_node_associate 1 0
mirroring_add 1 4
"""
"""The same for simple_switch_CLI."""


@pytest.mark.slow
def test_the_features_program_does_the_same_compiled_and_plain() -> None:
    frames = list(commands())
    compiled = weft(features(), frames, configure, plain=False)
    assert any(compiled.values())
    assert compiled == weft(features(), frames, configure)


def test_every_packet_is_treated_as_bmv2_treats_it(tmp_path: Path) -> None:
    require_bmv2()
    frames = list(filter(is_defined, commands()))
    ours = weft(features(), frames, configure, plain=False)
    count = sum(map(len, ours.values()))
    assert_same(ours, bmv2(tmp_path, features(), frames, count, CONFIGURE))
