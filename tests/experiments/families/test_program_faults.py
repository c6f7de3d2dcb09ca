"""Faults that programs of PyTorch run under: what is asked for, when it comes, what came of it."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.base.errors import InputError
from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.families.programs.fault_results import fault_results
from weft.experiments.families.programs.faults import (
    Event,
    Faults,
    Happened,
    Injection,
    When,
    faults_of,
)
from weft.pytorch.timeline import RankTimeline, RecordedOperation, Step
from weft.topo.link_changes import LinkChange
from weft.topo.network import Link, Topology

S = 10**9
MS = 10**6
TOPOLOGY: Topology = weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)


def asked(**options: Any) -> Faults:
    """The faults of options, each with one text."""
    words: Any = {name: (text,) for name, text in options.items()}
    return faults_of(ProgramAsked(**words), TOPOLOGY, 4)


def test_faults_are_read() -> None:
    (fails, back) = asked(fail_link="leaf0:spine0@step10..step12").events
    assert fails.link is not None and fails.link.name == "leaf0-spine0" and fails.up is False
    assert (fails.when, back.when) == (When(step=10), When(step=12))
    assert back.up and back.ends and back.rank == fails.rank == 0
    (timed,) = asked(fail_link="spine1-leaf1@1500ms").events
    assert timed.when == When(after_ns=1500 * MS) and timed.link == TOPOLOGY.link("leaf1-spine1")
    (killed,) = asked(kill_rank="2@step5").events
    assert killed.kills and killed.rank == 2
    (changed,) = asked(change_link="h0:leaf0:delay=5ms,loss=1%@2s").events
    assert changed.change == LinkChange(delay="5ms", loss="1%")
    assert asked(slow_rank="1:2.0").slow == {1: 2.0}
    assert asked(delay_rank="1:200ms").pauses_ns == {1: {0: 200 * MS}}
    assert asked(delay_rank="3:2s@step5").pauses_ns == {3: {5: 2 * S}}
    both = faults_of(ProgramAsked(kill_rank=("2@step5", "2@step5")), TOPOLOGY, 4)
    assert both.waits_at(2) == [5] and both.waits_at(0) == []


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("fail_link", "leaf0:spine0", "write LINK@WHEN, like leaf0:spine0@step10"),
        ("fail_link", "leaf0:spine7@step1", "no node 'spine7'"),
        ("fail_link", "leaf0-leaf1@step1", "no link 'leaf0-leaf1'"),
        ("fail_link", "leaf0:spine0@step0", "'step0' is no time of a fault: write stepN"),
        ("fail_link", "leaf0:spine0@soon", "'soon' is no time of a fault"),
        ("fail_link", "leaf0:spine0@step3..step3", "step3 is not behind step3"),
        ("fail_link", "leaf0:spine0@step3..4s", "4s is not behind step3"),
        ("fail_link", "leaf0:spine0@4s..3s", "3s is not behind 4s"),
        ("change_link", "leaf0:spine0:delay=5ms", "when? write @ and stepN"),
        ("change_link", "leaf0:spine0:speed=5@1s", "'speed=5' is no figure of a link"),
        ("change_link", "leaf0:spine0:loss=2@1s", "loss"),
        ("kill_rank", "2", "when?"),
        ("kill_rank", "4@step1", "there is no rank '4': ranks are 0 to 3"),
        ("kill_rank", "-1@step1", "there is no rank '-1'"),
        ("delay_rank", "1", "write RANK:TIME"),
        ("delay_rank", "1:2s@3s", "late at the end of a step: write @stepN"),
        ("delay_rank", "1:0@step3", "0 is no time"),
        ("delay_rank", "1:30h@step3", "time"),
        ("slow_rank", "1", "write RANK:FACTOR, like 1:2.0"),
        ("slow_rank", "1:1", "more than 1 and at most 1000"),
        ("slow_rank", "9:2", "there is no rank '9'"),
    ],
)
def test_what_makes_no_sense_is_refused(option: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=f"(?s)--{option.replace('_', '-')} '.*{re.escape(said)}"):
        asked(**{option: text})


@given(st.sampled_from(("fail_link", "change_link", "kill_rank", "delay_rank", "slow_rank")),
       st.text(alphabet="leafspin0123:@.-=step%ms,> \u0660", max_size=30))  # fmt: skip
def test_any_text_is_read_or_refused_by_name(option: str, text: str) -> None:
    try:
        faults = asked(**{option: text})
    except InputError as error:
        assert str(error).startswith(f"--{option.replace('_', '-')} ")
    else:
        assert faults.events or faults.pauses_ns or faults.slow


class Recorder:
    """A network, and the parent of ranks, that note what is asked of them."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.changed: dict[str, Link] = {}
        self.down: frozenset[str] = frozenset()
        self.backend = self

    def set_link(self, node: str, neighbour: str, up: bool) -> None:
        self.did.append((node, neighbour, up))
        name = {f"{node}-{neighbour}"}
        self.down = self.down - name if up else self.down | name

    def change_link(self, before: Link, after: Link) -> None:
        self.did.append((before.name, before.loss, after.loss))

    def signal(self, rank: int, number: int) -> None:
        self.did.append((rank, number))


def test_faults_come_at_their_steps_and_links_are_then_as_before() -> None:
    options = ProgramAsked(
        fail_link=("leaf0:spine0@step2..step4", "leaf0:spine1@0ms"),
        change_link=("leaf1:spine0:loss=1%@step2", "leaf1:spine0:loss=5%@step3"),
        kill_rank=("1@step2",),
    )
    seen = Recorder()
    injection = Injection(faults_of(options, TOPOLOGY, 4), seen, seen)  # type: ignore[arg-type]
    injection.begin()
    assert injection.stepped(0, 1) and not seen.did
    assert not injection.stepped(1, 2) and seen.did == [(1, signal.SIGKILL)]
    assert injection.stepped(0, 2)
    assert seen.did[1:] == [("leaf0", "spine0", False), ("leaf1-spine0", 0.0, 0.01)]
    assert injection.stepped(0, 3) and injection.stepped(0, 4)
    assert seen.did[3:] == [("leaf1-spine0", 0.01, 0.05), ("leaf0", "spine0", True)]
    injection.look()
    assert seen.did[5:] == [("leaf0", "spine1", False)]
    injection.close()
    injection.close()
    assert seen.did[6:] == [("leaf1-spine0", 0.05, 0.0), ("leaf0", "spine1", True)]
    assert not seen.changed and len(injection.happened) == 6


def test_links_that_were_down_or_changed_before_are_so_afterwards() -> None:
    seen = Recorder()
    link = TOPOLOGY.link("leaf1-spine0")
    lossy = LinkChange(loss="3%").applied(link)
    seen.down, seen.changed = frozenset({"leaf0-spine0"}), {link.name: lossy}
    options = ProgramAsked(
        fail_link=("leaf0:spine0@step1", "leaf0:spine1@step1..step2"),
        change_link=("leaf1:spine0:loss=9%@step1",),
    )
    injection = Injection(faults_of(options, TOPOLOGY, 4), seen, seen)  # type: ignore[arg-type]
    injection.begin()
    injection.stepped(0, 1)
    injection.close()
    assert seen.down == {"leaf0-spine0"} and seen.changed == {link.name: lossy}
    assert seen.did[-2:] == [("leaf0", "spine1", True), (link.name, 0.09, 0.03)]


def test_what_came_of_faults_is_told() -> None:
    def record(rank: int, *ends_ms: int, error_ms: int = 0) -> RankTimeline:
        failed = [RecordedOperation("allreduce", "ring", "w", 4, 0, error_ms * MS, "lost rank 1")]
        return RankTimeline(
            rank, f"h{rank}", S, ends_ms[-1] * MS + MS,
            operations=failed if error_ms else [],
            steps=[Step(each * MS, None) for each in ends_ms],
        )  # fmt: skip

    records = [record(0, 1100, 1200, 1500, 1800), record(2, 1100, 1200, 1500, error_ms=1900)]
    faults = asked(kill_rank="1@step2")
    faults.pauses_ns[2] = {1: 50 * MS}
    faults.late["--delay-rank 2:50ms@step1"] = 2, 1
    faults.late["--delay-rank 3:50ms@step1"] = 3, 1
    (event,) = faults.events
    late, killed, never = fault_results(
        faults, [Happened(event, 1, 900 * MS, 1200 * MS)], [records]
    )
    assert (killed.fault, killed.step, killed.at_ns) == ("--kill-rank 1@step2", 2, 200 * MS)
    assert killed.step_before_ns == 100 * MS and killed.step_during_ns == 300 * MS
    assert (killed.failed, killed.first_error_ns) == (1, 700 * MS)
    assert (late.at_ns, late.until_ns, late.step_during_ns) == (100 * MS, 150 * MS, 100 * MS)
    assert never.at_ns is None and never.step == 1 and not never.failed


def test_a_fault_in_an_attempt_of_which_nothing_is_left_counts_from_its_begin() -> None:
    faults = asked(kill_rank="1@step2")
    happened = [Happened(faults.events[0], 2, 3 * S, 5 * S)]
    (told,) = fault_results(faults, happened, [[], [], []])
    assert (told.attempt, told.at_ns, told.step_during_ns) == (2, 2 * S, None)


def test_a_fault_that_never_came_is_told_so() -> None:
    faults = asked(fail_link="leaf0:spine0@step9")
    assert isinstance(faults.events[0], Event)
    (told,) = fault_results(faults, [], [])
    assert told.at_ns is None and told.step_before_ns is None
