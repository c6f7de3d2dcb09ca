"""Aggregation by p4c's program, and on BMv2: packet by packet the same as ours, where installed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.support.aggregation_support import (
    GROUP,
    JOB_ADDRESS,
    LEAST,
    MOST,
    PREFIX,
    RESULT,
    SCATTER,
    Packet,
    Place,
    Switches,
    frame_of,
    packet_of,
    program,
)
from tests.support.bmv2_support import run_bmv2
from tests.support.compiler_support import bmv2, p4c
from tests.support.p4c_peer import in_both, with_p4c

from weft.agents.collectives.names import BMV2_AGGREGATION_VALUES
from weft.switch.compiler import ProgramFiles, compile_program
from weft.topo.fabric_program import fabric_macros, fabric_program

LEAF = Place((2, 4, 3), parent=1, owners={0: 2, 1: 4, 2: 3})
ROOT = Place((1, 2, 4), owners={0: 1, 1: 2, 2: 4})
PORTS = 4
NEEDS_P4C = pytest.mark.skipif(p4c() is None, reason="p4c is not installed")


def traffic(place: Place, count: int) -> list[tuple[int, bytes]]:
    """Frames of all kinds, with the port that each comes in by."""
    rng = random.Random(8)
    arrivals = []
    for number in range(150):
        values = tuple(rng.randrange(LEAST, MOST) for _ in range(count))
        child = rng.random() < 0.85
        flags = 0 if child else RESULT
        flags |= SCATTER if number // 15 % 2 else 0
        packet = Packet(
            rng.choice([9] * 9 + [8]),
            max(0, number // 15 + rng.choice([0, 0, 0, 0, -1, 8])) % (1 << 32),
            flags,
            number // 15 % 3,
            rng.randrange(-50, 50),
            values if rng.random() < 0.8 else None,
        )
        frame = bytearray(frame_of(packet))
        if rng.random() < 0.1:
            frame[rng.randrange(51, len(frame))] ^= 1 << rng.randrange(8)
        port = rng.choice(place.children) if child else (place.parent or 3)
        arrivals.append((port, bytes(frame)))
    return arrivals


def by_p4c(values: int, folder: Path) -> ProgramFiles:
    """What p4c makes of the fabric's program."""
    macros = [f"{name}={value}" for name, value in fabric_macros(values).items()]
    return with_p4c(fabric_program(), folder, macros)


@NEEDS_P4C
@pytest.mark.parametrize("place", [LEAF, ROOT], ids=["leaf", "root"])
def test_p4cs_program_adds_as_ours_does(place: Place, tmp_path: Path) -> None:
    theirs = Switches([place], 16, plain=True, bmv2_json=by_p4c(16, tmp_path).json.read_text())
    ours = Switches([place], 16, plain=True)
    sent = 0
    for port, frame in traffic(place, 16):
        made = ours.receive(0, port, frame)
        assert theirs.receive(0, port, frame) == made
        sent += len(made)
    assert sent > 20


@NEEDS_P4C
@pytest.mark.parametrize("values", [16, 256])
def test_p4info_with_aggregation_is_p4cs(values: int, tmp_path: Path) -> None:
    ours = compile_program(fabric_program(), defines=fabric_macros(values)).p4info_text
    assert in_both(by_p4c(values, tmp_path).p4info.read_text()) == in_both(ours)


def entries(place: Place) -> str:
    """The entries of a switch as simple_switch_CLI takes them."""
    job = hex(JOB_ADDRESS)
    children = (1 << len(place.children)) - 1
    numbers = [3, place.epoch, place.pool_base, 2 * place.slots - 1, children]
    numbers += [int(place.parent is None), place.parent or 0, GROUP, place.address]
    lines = ["set_queue_depth 10000", f"mc_mgrp_create {GROUP}"]
    lines += [f"mc_node_create 0 {' '.join(map(str, place.children))}"]
    lines += [f"mc_node_associate {GROUP} 0"]
    lines += [f"table_add {PREFIX}aggregation_job job {job} => {' '.join(map(str, numbers))}"]
    for child, port in enumerate(place.children):
        lines.append(f"table_add {PREFIX}aggregation_port from_child {job} {port} => {child}")
    if place.parent is not None:
        lines.append(f"table_add {PREFIX}aggregation_port from_parent {job} {place.parent} =>")
    for rank, port in place.owners.items():
        lines.append(f"table_add {PREFIX}aggregation_owner owner_port {job} {rank} => {port}")
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(
    bmv2() is None or os.geteuid() != 0,
    reason="BMv2's simple_switch is not on the PATH, or no root for a network namespace of its own",
)
@pytest.mark.parametrize("compiler", ["weft", pytest.param("p4c", marks=NEEDS_P4C)])
@pytest.mark.parametrize("place", [LEAF, ROOT], ids=["leaf", "root"])
def test_bmv2_adds_as_the_built_in_switch_does(place: Place, compiler: str, tmp_path: Path) -> None:
    values = BMV2_AGGREGATION_VALUES
    ours = Switches([place], values, plain=True)
    arrivals = traffic(place, values)
    expected: dict[int, list[bytes]] = {port: [] for port in range(1, PORTS + 1)}
    for port, frame in arrivals:
        for out, made in ours.receive(0, port, frame):
            expected[out].append(made)
            packet_of(made)
    count = sum(map(len, expected.values()))
    by_weft = compiler == "weft"
    text = program(values) if by_weft else by_p4c(values, tmp_path).json.read_text()
    found = run_bmv2(
        tmp_path,
        text,
        {
            port: [(10 * at, frame) for at, (where, frame) in enumerate(arrivals) if where == port]
            for port in expected
        },
        count,
        entries(place),
        range(1, PORTS + 1),
        limit_s=300,
    )
    for port in expected:
        assert sorted(found[port]) == sorted(expected[port]), f"port {port}"
