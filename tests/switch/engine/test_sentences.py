"""What BMv2's page of simple_switch says of packets: the engine, the interpreter and BMv2 do it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.bmv2_support import require_bmv2, run_bmv2
from tests.support.interpreter_twin import Twin
from tests.support.sentences import (
    COMMANDS,
    IN_PORT,
    PAGE,
    PORTS,
    PROGRAM,
    ROOT,
    Case,
    page,
    sentences,
    switch,
)

from weft.switch.commands.stf import load_program
from weft.switch.engine.control.entities import CloneSession, MulticastGroup, Replica
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue

MICROSECOND = 1000


@pytest.fixture(scope="module")
def text() -> str:
    return load_program(PROGRAM, [], {})


@pytest.fixture(scope="module")
def both(text: str) -> tuple[Dataplane, SwitchControl]:
    return switch(text)


@pytest.mark.parametrize(
    "case", sentences().case, ids=lambda case: f"{int(case.packet[:2], 16)}-{case.packet[28:]}"
)
def test_a_packet_leaves_as_the_sentence_says(
    both: tuple[Dataplane, SwitchControl], case: Case
) -> None:
    dataplane, _ = both
    frame = bytes.fromhex(case.packet)
    dataplane.receive(0, IN_PORT, [frame], 0)
    sent = sorted((one.port, one.frame.hex()) for one in dataplane.transmit(0))
    assert sent == case.leaves, case.text
    twin = sorted((port, data.hex()) for port, data in Twin(*both).sent(IN_PORT, frame))
    assert twin == case.leaves, case.text
    assert dataplane.context.free_packet_count == 64


def test_bmv2_sends_the_same(text: str, tmp_path: Path) -> None:
    require_bmv2()
    cases = sentences().case
    wanted = Counter(tuple(one) for case in cases for one in case.leaves)
    frames = [bytes.fromhex(case.packet) for case in cases]
    arrivals = {IN_PORT: list(enumerate(frames))}
    sent = run_bmv2(tmp_path, text, arrivals, wanted.total(), COMMANDS, ports=range(PORTS))
    assert Counter((port, frame.hex()) for port in sent for frame in sent[port]) == wanted


def test_timestamps_and_depths_are_those_of_the_queue(text: str) -> None:
    frame = bytes([80]) + bytes(99)
    rate = Queue(8 * len(frame) * 10**5)  # a frame takes 10 microseconds
    dataplane, _ = switch(text, rate)
    dataplane.set_epoch(0, 1000 * MICROSECOND)
    come = 1500 * MICROSECOND
    dataplane.receive(0, IN_PORT, [frame] * 3, come)
    told = [one.frame for one in dataplane.transmit(come + 100 * MICROSECOND)]

    def words(frame: bytes) -> list[int]:
        return [int.from_bytes(frame[place : place + 2], "big") for place in (4, 6, 8, 10)]

    # ingress, egress, enq_timestamp, deq_timedelta; then both depths
    assert [words(one) for one in told] == [
        [500, 500, 500, 0], [500, 510, 500, 10], [500, 520, 500, 20],
    ]  # fmt: skip
    assert [(one[12], one[3]) for one in told] == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("case", "ports"),
    [(13, [3, 3, 4]), (42, [3, 4, 4])],
    ids=["ingress", "egress"],
)
def test_a_session_that_changes_counts_where_packets_are_cloned_from_then_on(
    text: str, case: int, ports: list[int]
) -> None:
    frame = bytes([case]) + bytes(99)
    dataplane, control = switch(text, Queue(8 * len(frame) * 10**5))  # 10 microseconds each
    dataplane.receive(0, IN_PORT, [frame] * 2, 0)  # egress has the first one, the second one waits
    control.modify_replication(CloneSession(3, (Replica(4, 0),)))
    control.publish()
    dataplane.receive(0, IN_PORT, [frame], 0)
    left = dataplane.transmit(100 * MICROSECOND)
    assert sorted(one.port for one in left if one.port != 1) == ports
    assert [one.port for one in left].count(1) == 3


def test_a_group_that_changes_leaves_the_copies_that_wait_as_they_are(text: str) -> None:
    frame = bytes([12]) + bytes(99)
    dataplane, control = switch(text, Queue(8 * len(frame) * 10**5))
    dataplane.receive(0, IN_PORT, [frame] * 2, 0)
    control.delete_replication(MulticastGroup, 7)
    control.publish()
    dataplane.receive(0, IN_PORT, [frame], 0)
    left = dataplane.transmit(100 * MICROSECOND)
    assert sorted(one.port for one in left) == [2, 2, 3, 3]
    assert dataplane.context.free_packet_count == 64


def test_the_page_lists_the_sentences_and_all_tests_that_it_names_are_there() -> None:
    assert PAGE.read_text() == page()
    for one in sentences().elsewhere:
        file, name = one.test.split("::")
        assert f"def {name}(" in (ROOT / file).read_text(), one.test
    assert len({case.packet for case in sentences().case}) == len(sentences().case)
