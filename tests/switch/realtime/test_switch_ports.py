"""Ports of ``weft switch`` are ports like any other program's: tc holds for them, captures see both
directions, and an interface may go and come back."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ports_namespace import HELD
from tests.support.realtime_support import ROOT, needs_namespaces
from tests.support.wire import WIRE

from weft.switch.realtime.link_states import LinkChange, link_changes, queueing_changed

FRAMES = 100
EGRESS = "control E(inout H h, inout M m, inout standard_metadata_t s) { apply { "
WIRE_OF_DEPTHS = WIRE.replace(EGRESS, f"{EGRESS}h.eth.src = (bit<48>) s.enq_qdepth; ")
"""A wire whose frames have the length of the queue that they found."""


@needs_namespaces
@pytest.mark.system
@pytest.mark.parametrize("options", [[], ["--bypass-qdisc"]], ids=["ordinary", "bypass"])
def test_ports_obey_tc_are_seen_whole_and_outlive_their_interfaces(
    options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "wire.p4").write_text(WIRE_OF_DEPTHS)
    answer = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "tests.support.ports_namespace",
         str(tmp_path / "wire.p4"), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout.splitlines()[-1])
    shaped, losses = seen["shaped"], [line for line in seen["ended"] if "were lost" in line]
    if options:
        assert (shaped["came"], shaped["left"]) == (FRAMES, 0)
        assert (shaped["packets"], shaped["drops"]) == (0, 0)
    else:
        # What the switch sends can be seen, and is not received by it: there is no loop of frames.
        assert shaped["came"] == shaped["left"] == shaped["packets"] < FRAMES
        assert shaped["drops"] >= FRAMES - shaped["packets"] > 0
        (lost,) = losses
        number = int(lost.removeprefix("port 2: ").split()[0])
        assert lost.startswith(f"port 2: {number} packets were lost at interface ")
        tried = sum(lost_before for _, lost_before in seen["passes"])
        assert FRAMES - shaped["came"] <= number <= FRAMES - shaped["came"] + tried
        # What the queueing discipline has no room for yet waits in the switch, where programs see
        # it, and is lost there once that is as long as BMv2's queue.
        congested = seen["congested"]
        assert congested["came"] >= HELD and congested["dropped"] == 0
        assert HELD // 2 <= congested["greatest"] < HELD
    assert [found for found, _ in seen["passes"]] == [True] * 3
    assert [line.split(";")[0] for line in seen["said"]] == [
        "weft: switch 0, port 1: interface 's1' is gone from this namespace",
        "weft: switch 0, port 1: interface 's1' is there again, and the port goes on",
        "weft: switch 0, port 2: interface 's2' is gone from this namespace",
        "weft: switch 0, port 2: interface 's2' is there again, and the port goes on",
    ]
    assert (seen["status"], seen["ended"][-1]) == (0, "ended")


def notice(kind: int, index: int, flags: int, name: str, family: int = socket.AF_UNSPEC) -> bytes:
    """A message of rtnetlink(7) about an interface."""
    text = os.fsencode(name) + b"\0"
    attribute = struct.pack("=HH", 4 + len(text), 3) + text
    attribute += bytes(-len(attribute) % 4)
    body = struct.pack("=BxHiII", family, 1, index, flags, 0) + attribute
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_notices_of_interfaces_are_read_and_those_of_bridges_passed_over() -> None:
    new, deleted, running = 16, 17, 0x10001
    data = (
        notice(new, 4, running, "s1-eth1")
        + notice(deleted, 5, running, "veth7", socket.AF_BRIDGE)
        + notice(new, 5, 0x1, "veth7")
        + notice(deleted, 6, running, "a")
    )
    assert list(link_changes(data)) == [
        LinkChange(4, "s1-eth1", there=True, up=True),
        LinkChange(5, "veth7", there=True, up=False),
        LinkChange(6, "a", there=False, up=False),
    ]
    assert not queueing_changed(data)
    assert queueing_changed(data + notice(36, 4, 0, "tbf"))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read_to_an_end(noise: bytes, cut: int) -> None:
    data = notice(16, 4, 0, "s1-eth1") + noise
    assert len(list(link_changes(data[:cut]))) <= cut / 32
