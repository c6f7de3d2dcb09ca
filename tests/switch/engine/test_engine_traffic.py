"""Clones, resubmitted, recirculated, multicast, dropped and truncated packets: as on BMv2."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from tests.support.bmv2_support import assert_same, bmv2, compile_with_p4c, require_bmv2, weft

from weft.switch.engine.control.entities import CloneSession, MulticastGroup, Replica
from weft.switch.engine.control.state import SwitchControl

PROGRAM = Path(__file__).resolve().parents[2] / "bmv2_programs" / "traffic_manager.p4"

COMMANDS = """mc_mgrp_create 1
mc_node_create 5 2 3
mc_node_create 6 4
mc_node_associate 1 0
mc_node_associate 1 1
mirroring_add 1 4
mirroring_add_mc 2 1
mirroring_add 3 300"""


def configure(control: SwitchControl) -> None:
    """What COMMANDS say. Session 3 clones to a port that does not exist."""
    replicas = (Replica(2, 5), Replica(3, 5), Replica(4, 6))
    control.insert_replication(MulticastGroup(1, replicas))
    control.insert_replication(CloneSession(1, (Replica(4),)))
    control.insert_replication(CloneSession(2, replicas))
    control.insert_replication(CloneSession(3, (Replica(300),)))


def frames_for_everything() -> list[bytes]:
    """Frames for what traffic_manager.p4 can do, alone and two things at once.

    The four bytes: in the first pass, in later ones, in egress, in egress in later ones.
    """
    rng = random.Random(5)
    resubmitting, replicating = (3, 4, 21), (5, 6, 7, 12, 16)
    todo = [(first, 0, 0, 0) for first in range(23)]
    todo += [(0, 0, egress, 0) for egress in range(13)]
    later = [what for what in range(23) if what not in resubmitting]
    todo += [(first, again, 0, 0) for first in resubmitting for again in later]
    todo += [(first, 0, e, rng.choice([0, 6, 8, 11])) for first in (1, 2, 5, 17) for e in range(13)]
    todo += [(0, what, e, 0) for what in later if what not in replicating for e in (3, 5)]
    frames = []
    for position, (first, again, egress, later_egress) in enumerate(todo):
        item = position & 1
        port = rng.choice([0, 1, 3, 4, 5, 200, 511])
        frame = bytes([first, again, egress, later_egress, item]) + struct.pack(">H", port)
        if item:
            frame += struct.pack(">HH", 0x1234, rng.choice([0xFFFF - 0x1234, 0]))
        frames.append(frame + b"frame%04d" % position + bytes(rng.randrange(30)))
    frames += [bytes([0, 0, 0, 0, 1, 0, 0, 1, 2, 3][:size]) for size in range(7, 11)]
    return frames


def test_every_copy_is_where_and_as_it_is_on_bmv2(tmp_path: Path) -> None:
    require_bmv2()
    source = tmp_path / "program.p4"
    source.write_text(PROGRAM.read_text())
    program = compile_with_p4c(source)
    frames = frames_for_everything()
    ours = weft(program, frames, configure)
    theirs = bmv2(tmp_path, program, frames, sum(map(len, ours.values())), COMMANDS)
    assert_same(ours, theirs)
