"""Ranks that wait: who is late is found out, and late ranks are told from broken trees."""

from __future__ import annotations

from weft.experiments.families.programs.silence import (
    ANSWER_S,
    FRESH_S,
    MORE_PATIENCE_S,
    MOST_TOLD,
    PATIENCE_S,
    Said,
    Silences,
)
from weft.pytorch.messages import AskBegun, Begun, GroupLost, Late, Silent, TreeMoved, WhoIsLate

HOSTS = ["h0", "h1", "h2", "h3"]
RANKS = [1, 2, 3]
SILENT = Silent("g", RANKS, 7, 40)


def lost(said: Said) -> list[tuple[int, str]]:
    """Who is told that the group is lost, and why."""
    return [(rank, each.reason) for rank, each in said if isinstance(each, GroupLost)]


def wait(silences: Silences, begun: dict[int, int], until_s: float) -> tuple[float, str]:
    """Let rank 1 be silent, and the others answer; return when and why the group is lost."""
    now_s = 100.0
    while now_s < 100.0 + until_s:
        said = silences.hear(1, SILENT, now_s)
        assert [rank for rank, each in said if each == AskBegun("g")] == [2, 3]
        if lost(said):
            assert [rank for rank, _ in lost(said)] == RANKS
            return now_s - 100.0, lost(said)[0][1]
        for rank, count in begun.items():
            assert not silences.hear(rank, Begun("g", count), now_s + 0.1)
        now_s += 1.0
    return now_s - 100.0, ""


def test_a_tree_is_broken_when_all_take_part_and_nothing_comes() -> None:
    after_s, why = wait(Silences(HOSTS, lambda: {"leaf0-spine1": ""}), {2: 8, 3: 9}, 30)
    assert after_s <= PATIENCE_S + 2
    assert "rank 1 of the run (host h1)" in why and "leaf0-spine1 is down" in why
    after_s, why = wait(Silences(HOSTS, dict), {2: 8, 3: 9}, 30)
    assert MORE_PATIENCE_S <= after_s <= MORE_PATIENCE_S + 2
    assert "their tree is broken; make" in why


def test_a_host_that_is_cut_off_is_named() -> None:
    _, why = wait(Silences(HOSTS, lambda: {"h3-leaf1": "h3"}), {2: 8, 3: 9}, 30)
    assert why == "lost rank 3 of the run (host h3): its link h3-leaf1 is down"


def test_a_rank_that_is_late_or_does_not_answer_breaks_no_tree() -> None:
    for begun in ({2: 8, 3: 7}, {2: 8}, {}):
        assert wait(Silences(HOSTS, dict), begun, 60)[1] == ""


def test_a_sum_that_comes_late_is_not_the_one_that_did_not_come_before() -> None:
    silences = Silences(HOSTS, lambda: {"leaf0-spine1": ""})
    for number in range(20):
        for rank in (2, 3):
            silences.hear(rank, Begun("g", 9), 100.0 + number)
        said = silences.hear(1, Silent("g", RANKS, 7, number), 100.0 + number)
        assert not lost(said), "each sum came, only late"


def test_ranks_are_told_of_a_tree_that_has_moved_and_again_while_one_is_silent() -> None:
    silences = Silences(HOSTS, dict)
    silences.moved("g", 5)
    moved = [(rank, TreeMoved("g", 5)) for rank in range(4)]
    assert silences.due(100.0) == moved and silences.due(100.1) == []
    asked = [(2, AskBegun("g")), (3, AskBegun("g"))]
    assert silences.hear(1, SILENT, 100.5) == asked
    assert silences.hear(1, SILENT, 101.0) == [*asked, *moved]
    assert silences.hear(2, SILENT, 101.5) == [(1, AskBegun("g")), (3, AskBegun("g"))]
    told = [silences.hear(1, SILENT, 110.0 + number) == [*asked, *moved] for number in range(20)]
    assert told.count(True) == MOST_TOLD - 2, "later a rank is silent for reasons of its own"
    other = Silent("h", RANKS, 7, 40)
    assert silences.hear(1, other, 200.0) == [(2, AskBegun("h")), (3, AskBegun("h"))]


def test_what_a_rank_has_said_long_ago_does_not_count() -> None:
    silences = Silences(HOSTS, dict)
    for rank in (2, 3):
        silences.hear(rank, Begun("g", 9), 99.0)
    assert FRESH_S < MORE_PATIENCE_S
    assert wait(silences, {2: 9}, 60)[1] == ""


def test_who_is_late_is_said_once_all_have_answered_or_the_time_is_over() -> None:
    silences = Silences(HOSTS, dict)
    silences.hear(2, Begun("g", 9), 99.0)  # before it is asked, which says nothing
    assert silences.hear(1, WhoIsLate("g", RANKS, 7, 5), 100.0) == [
        (2, AskBegun("g")), (3, AskBegun("g")),
    ]  # fmt: skip
    assert silences.hear(2, Begun("g", 8), 100.1) == []
    late = Late(5, "rank 3 of the run (host h3) has not called it")
    assert silences.hear(3, Begun("g", 7), 100.2) == [(1, late)]
    assert silences.answers(110.0) == []
    silences.hear(1, WhoIsLate("g", RANKS, 7, 6), 200.0)
    assert silences.hear(2, Begun("g", 8), 200.1) == silences.answers(200.9) == []
    mute = Late(6, "rank 3 of the run (host h3) does not answer")
    assert silences.answers(200.0 + ANSWER_S) == [(1, mute)]
