"""Pinned paths and spraying packet by packet as BMv2 does them, where BMv2 is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import fabric
from tests.support.bmv2_support import run_bmv2
from tests.support.fabric import fabric_plan
from tests.support.path_networks import ACKNOWLEDGE, Network, own_program, roce

from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    PlannedEntry,
    PlannedGroup,
    PlannedMember,
)
from weft.controller.features.pinned_paths import Pin
from weft.controller.features.routes import Paths
from weft.switch.engine.control.entities import Exact, GroupTarget, Lpm, MemberTarget
from weft.topo.clos import leaf_spine

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        shutil.which("simple_switch") is None or os.geteuid() != 0,
        reason="BMv2 (simple_switch) is not on PATH, or no root for a network namespace of its own",
    ),
]

TOPOLOGY = leaf_spine(3, 4, 2)
PORTS = range(1, 7)


def commands(entities: Sequence[Entity]) -> list[str]:
    """What makes BMv2 hold the entities, in the words of its own command line."""
    handles: dict[tuple[str, int], int] = {}
    found = []

    def call(action: Action) -> list[str]:
        return [str(value) for _, value in action.params]

    for one in entities:
        if isinstance(one, DefaultAction) and one.action is not None:
            found.append(
                " ".join(["table_set_default", one.table, one.action.name, *call(one.action)])
            )
        elif isinstance(one, PlannedMember):
            handles["member", one.member_id] = sum(kind == "member" for kind, _ in handles)
            words = ["act_prof_create_member", one.profile, one.action.name, *call(one.action)]
            found.append(" ".join(words))
        elif isinstance(one, PlannedGroup):
            group = handles["group", one.group_id] = sum(kind == "group" for kind, _ in handles)
            found.append(f"act_prof_create_group {one.profile}")
            for member, _ in one.members:
                handle = handles["member", member]
                found.append(f"act_prof_add_member_to_group {one.profile} {handle} {group}")
        elif isinstance(one, PlannedEntry):
            names = [
                fabric.name("src_addr"),
                fabric.name("dst_addr"),
                fabric.name("src_port"),
                fabric.name("place"),
            ]
            match = dict(one.match)
            keys = []
            for name in (name for name in names if name in match):
                key = match[name]
                assert isinstance(key, Exact | Lpm)
                length = f"/{key.prefix_length}" if isinstance(key, Lpm) else ""
                keys.append(f"{key.value:#010x}{length}")
            if isinstance(one.target, Action):
                words = ["table_add", one.table, one.target.name, *keys, "=>", *call(one.target)]
            elif isinstance(one.target, MemberTarget):
                handle = handles["member", one.target.member_id]
                words = ["table_indirect_add", one.table, *keys, "=>", str(handle)]
            else:
                assert isinstance(one.target, GroupTarget)
                handle = handles["group", one.target.group_id]
                words = ["table_indirect_add_with_group", one.table, *keys, "=>", str(handle)]
            found.append(" ".join(words))
    return found


def on_bmv2(
    folder: Path, entities: Sequence[Entity], frames: list[bytes]
) -> dict[int, list[bytes]]:
    """What BMv2 sends on each port when frames come in at port 1; waits for all, or 2 minutes."""
    sent = run_bmv2(
        folder, own_program().json.read_text(), {1: list(enumerate(frames))}, len(frames),
        "\n".join(commands(entities)), PORTS, limit_s=120,
    )  # fmt: skip
    assert "Error" not in (folder / "cli.log").read_text()
    return sent


@pytest.mark.parametrize("paths", ["pinned", "spray-round-robin", "spray-random"])
def test_a_leaf_sends_what_bmv2_sends(paths: Paths, tmp_path: Path) -> None:
    pins = [Pin(0, 4, 1000 + path, path) for path in range(4)]
    plan = fabric_plan(TOPOLOGY, groups=[], pins=pins, paths=paths, ecn_threshold_packets=1000)
    frames = [
        roce(TOPOLOGY, "h0", destination, port, opcode=opcode, ecn=2, psn=port, udp_port=udp_port)
        for port in range(1000, 1016)
        for destination in ("h1", "h2", "h4")
        for opcode, udp_port in ((0x0A, 4791), (ACKNOWLEDGE, 4791), (0x0A, 7))
    ]
    network = Network(TOPOLOGY, plan)
    ours: dict[int, list[bytes]] = {port: [] for port in PORTS}
    network.dataplane.receive(0, 1, frames, 0)
    for departure in network.dataplane.transmit(0):
        ours[departure.port].append(departure.frame)
    theirs = on_bmv2(tmp_path, plan.entities["leaf0"], frames)
    if paths != "spray-random":
        assert {port: sorted(sent) for port, sent in ours.items()} == {
            port: sorted(sent) for port, sent in theirs.items()
        }
        return

    def without_macs(sent: dict[int, list[bytes]]) -> list[bytes]:
        return sorted(frame[12:] for one in sent.values() for frame in one)

    assert without_macs(ours) == without_macs(theirs)
    assert all(len(sent) > 0 for port, sent in theirs.items() if port > 1)
