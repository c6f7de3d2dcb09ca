"""GOAL schedules, as text and packed: what they become, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.workloads_support import GOAL, PACKED_GOAL, PackedOperation, packed_goal

from weft import run
from weft.agents.collectives.flow_graph import FlowGraph
from weft.base.errors import InputError
from weft.experiments.families.flows.formats import goal, goal_binary
from weft.experiments.families.flows.formats.operations import flows_of
from weft.experiments.scenario.scenario import Scenario

FAST_BPS = 8_000_000_000
"""A byte takes a nanosecond."""


def graph_of(text: str) -> FlowGraph:
    return flows_of(goal.parse(text, "x.goal"), "x.goal").graph


def two(first: str, second: str = "") -> str:
    return f"num_ranks 2\nrank 0 {{\n{first}\n}}\nrank 1 {{\n{second}\n}}\n"


def test_operations_become_flows_and_waits() -> None:
    graph = graph_of(GOAL)
    flows = graph.flows.tolist()
    sent = {(graph.source[f], graph.destination[f], graph.size_bytes[f]) for f in flows}
    assert sent == {(0, 1, 1000), (2, 1, 70000), (1, 2, 500), (2, 0, 1)}
    # Rank 1 waits for 70,000 bytes, sends 500, and rank 2 then one byte.
    assert graph.span_ns(FAST_BPS) == 70_000 + 500 + 1


def test_what_one_processor_computes_is_done_one_at_a_time() -> None:
    beside = graph_of(two("calc 100\ncalc 100 cpu 1\nsend 1b to 1", "recv 1b from 0"))
    assert beside.span_ns(FAST_BPS) == 100
    after = graph_of(two("calc 100\ncalc 100\ncalc 100\nsend 1b to 1", "recv 1b from 0"))
    assert after.span_ns(FAST_BPS) == 300


@pytest.mark.parametrize(
    ("size_bytes", "span_ns"),
    [
        (65535, 65535),  # it is done at once: 5 ns of computation are over before it has come
        (65536, 65536 + 5),  # it is done when it is acknowledged
    ],
)
def test_what_needs_a_long_message_waits_until_it_is_acknowledged(
    size_bytes: int, span_ns: int
) -> None:
    sends = f"a: send {size_bytes}b to 1\nb: calc 5\nb requires a"
    assert graph_of(two(sends, f"recv {size_bytes}b from 0")).span_ns(FAST_BPS) == span_ns


def test_what_needs_a_receive_begun_does_not_wait_for_the_message() -> None:
    # Both first post a receive, then send: each waits for the other's message only where it needs
    # the receive to be done.
    def both(needs: str) -> str:
        def ops(peer: int) -> str:
            return f"r: recv 8b from {peer}\ns: send 8b to {peer}\ns {needs} r"

        return two(ops(1), ops(0))

    assert len(graph_of(both("irequires")).flows) == 2
    with pytest.raises(InputError, match=r"x\.goal:3: recv: it has no counterpart"):
        graph_of(both("requires"))


def test_messages_of_a_tag_meet_in_order() -> None:
    sends = "a: calc 9\ns: send 1b to 1 tag 2\ns requires a\nsend 30b to 1 tag 3"
    takes = "r: recv 30b from 0 tag 3\nc: calc 4\nc requires r\nrecv 1b from 0 tag 2"
    assert graph_of(two(sends, takes)).span_ns(FAST_BPS) == 34


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a schedule begins with num_ranks N"),
        ("rank 0 {\n}", "x.goal:1: 'rank 0 {': num_ranks N comes before the first rank"),
        ("num_ranks 2\nnum_ranks 2", "x.goal:2: .*is there once"),
        ("num_ranks 2\nrank 2 {\n}", "ranks are 0 to 1"),
        ("num_ranks 2\nrank 1 {\n}\nrank 1 {\n}", "rank 1 is there already"),
        ("num_ranks 2\nrank 1 {", "rank 1 has no }"),
        ("num_ranks 2\nhello", "x.goal:2: 'hello': write num_ranks N, or rank R"),
        (two("send 5 to 1"), "x.goal:3: 'send 5 to 1': write calc NS, send SIZEb to RANK"),
        (two("send 5b to 0"), "x.goal:3: send: a message goes to another rank"),
        (two("send 5b to 2"), "ranks are 0 to 1"),
        (two("send 5b to 1 tag 1 tag 2"), "tag is there twice"),
        (two("calc 5 tag 1"), "'tag' is none of what an operation has"),
        (two("send 5b to 1 cpu 256"), "cpu 256: 0 to 255"),
        (two("calc 9999999999999999999"), "'9999999999999999999' is out of range"),
        (two("calc 999999999999999999"), "999999999999999999 is out of range: at most"),
        (two("a: calc 5\na: calc 6"), "label a is there already"),
        (two("a: calc 5\na requires b"), "no operation of rank 0 above has the label b"),
        (two("recv 5b from -1"), "x.goal:3: recv: it takes any message"),
        (two("recv 5b from 1 tag -1"), "it takes any message"),
        (two("send 5b to 1 tag -2"), "tag -2 is none"),
        (two("send 5b to 1"), "no recv from rank 0 to rank 1 with tag 0"),
        (two("send 5b to 1 tag 1", "recv 5b from 0 tag 2"), "with tag 1|with tag 2"),
        (two("a: calc 5\nb: calc 6\na requires b\nb requires a"), "it never begins"),
        (two("calc 5"), "nothing is sent"),
    ],
)
def test_bad_schedules_are_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_of(text)


def test_a_second_network_card_is_told() -> None:
    text = two("send 5b to 1 nic 1", "recv 5b from 0")
    (note,) = flows_of(goal.parse(text, "x.goal"), "x.goal").notes
    assert note == "x.goal:3: nic 1 is not heeded: a host has one network card"


def test_a_packed_schedule_is_what_its_text_is() -> None:
    text = (
        "num_ranks 3\nrank 0 {\na: calc 500\nb: send 1000b to 1 tag 7\nb requires a\n}\n"
        "rank 1 {\na: recv 1000b from 0 tag 7\nb: send 300b to 0 tag 1\nb requires a\n}\n"
    ).replace("rank 0 {\n", "rank 0 {\nrecv 300b from 1 tag 1\n")
    receive: PackedOperation = (2, 1, 300, 1, [], [])
    packed = packed_goal(
        [
            [receive, (3, 0, 500, 0, [2], []), (1, 1, 1000, 7, [], [])],
            [(2, 0, 1000, 7, [1], []), (1, 0, 300, 1, [], [])],
            [],
        ]
    )
    found = flows_of(goal_binary.parse(packed, "x.bin"), "x.bin").graph
    assert found == graph_of(text)
    ranks: list[list[PackedOperation]] = [
        [(2, 1 - rank, 8, 0, [], [1]), (1, 1 - rank, 8, 0, [], [])] for rank in range(2)
    ]
    begun = packed_goal(ranks)
    assert len(flows_of(goal_binary.parse(begun, "x.bin"), "x.bin").graph.flows) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes are no packed GOAL schedule"),
        (b"\0" * 20, "it begins with 0, a packed GOAL schedule with 4223"),
        (b"\x26\x09" + b"\0" * 20, "has used this schedule up"),
        (PACKED_GOAL[:30], "byte 14: the table of ranks has 48 bytes, of which 16 are there"),
        (PACKED_GOAL[:-30], "of which"),
        (packed_goal([[(4, 0, 1, 0, [], [])]]), "rank 0: operation 0: kind 4 is none of 1"),
        (packed_goal([[(3, 0, 1, 0, [5], [])]]), "calc: operation 5 waits for it, of 1"),
        (packed_goal([[(2, 0xFFFFFFFF, 1, 0, [], [])], []]), "it takes any message"),
    ],
)
def test_bad_packed_schedules_are_refused_with_the_place(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        flows_of(goal_binary.parse(data, "x.bin"), "x.bin")


@given(st.data())
def test_any_text_or_bytes_are_a_schedule_or_an_input_error(data: st.DataObject) -> None:
    place, byte = data.draw(st.integers(0, len(PACKED_GOAL) - 1)), data.draw(st.integers(0, 255))
    packed = PACKED_GOAL[:place] + bytes([byte]) + PACKED_GOAL[place + 1 :]
    at = data.draw(st.integers(0, len(GOAL)))
    word = data.draw(
        st.sampled_from(["}", "{", "requires", "-1", "9" * 30, "\0", "é", "/*", "l1:"])
    )
    text = GOAL[:at] + word + GOAL[at:]
    for form in (".goal", ".bin"):
        try:
            schedule = goal.parse(text, "x") if form == ".goal" else goal_binary.parse(packed, "x")
            assert isinstance(flows_of(schedule, "x").graph, FlowGraph)
        except InputError as error:
            assert str(error).startswith("x")


def test_a_schedule_runs_and_is_verified(tmp_path: Path) -> None:
    (tmp_path / "x.goal").write_text(GOAL)
    (tmp_path / "x.bin").write_bytes(PACKED_GOAL)
    options: dict[str, Any] = {"collective": "flows", "world": "simulated"}
    for name in ("x.goal", "x.bin"):
        assert run(Scenario(workload=str(tmp_path / name), **options)).verified
