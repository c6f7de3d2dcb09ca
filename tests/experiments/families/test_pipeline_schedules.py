"""Pipeline schedules: their orders, checks, files, times, and charts of them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.experiments.families.pipeline.files import format_schedule, parse_schedule, read_schedule
from weft.experiments.families.pipeline.schedules import (
    INTERLEAVED,
    SCHEDULES,
    Action,
    Placed,
    Schedule,
    check,
    make,
    peak_activations,
)
from weft.experiments.families.pipeline.timing import (
    ActionSpan,
    Links,
    Times,
    Transfer,
    spans,
    timed,
)

PLAIN = ("gpipe", "1f1b", "eager-1f1b")


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    delayed = draw(st.booleans())
    if name == INTERLEAVED:
        stages = draw(st.integers(2, 5))
        groups, chunks = draw(st.integers(1, 4)), draw(st.integers(2, 3))
        return make(name, stages, stages * groups, chunks, delayed)
    return make(name, draw(st.integers(1, 7)), draw(st.integers(1, 16)), delayed=delayed)


def warm_up(schedule: Schedule, stage: int) -> int:
    """Return how many actions a stage has before its first backward pass."""
    return [action.kind for action in schedule.actions[stage]].index("B")


# -- Orders ----------------------------------------------------------------------------------------


@given(schedules())
def test_every_known_schedule_is_complete_and_ends(schedule: Schedule) -> None:
    check(schedule)


@given(n=st.integers(1, 9), m=st.integers(1, 30))
def test_a_stage_begins_with_as_many_forward_passes_as_the_formula_says(n: int, m: int) -> None:
    for i in range(n):
        assert warm_up(make("gpipe", n, m), i) == m
        assert warm_up(make("1f1b", n, m), i) == min(m, n - i)
        assert warm_up(make("eager-1f1b", n, m), i) == min(m, 2 * (n - i) - 1)
        assert warm_up(make("zb-h1", n, m), i) == min(m, n - i)
        if n > 1:
            interleaved = make(INTERLEAVED, n, m * n, 2)
            assert warm_up(interleaved, i) == min(2 * m * n, 2 * (n - i - 1) + n + 1)


@given(n=st.integers(1, 9), m=st.integers(1, 30), delayed=st.booleans())
def test_a_stage_holds_as_many_activations_as_the_formula_says(
    n: int, m: int, delayed: bool
) -> None:
    def peaks(name: str) -> list[int]:
        return [*peak_activations(make(name, n, m, delayed=delayed))]

    assert peaks("gpipe") == [m] * n
    assert peaks("1f1b") == [min(m, n - i) for i in range(n)]
    assert peaks("eager-1f1b") == [min(m, 2 * (n - i) - 1) for i in range(n)]
    assert peaks("zb-h1") == [min(m, n)] * n
    assert max(peaks("zb-h1")) == max(peaks("1f1b"))


def test_orders_are_those_of_the_papers() -> None:
    def words(schedule: Schedule) -> list[str]:
        return [" ".join(map(str, actions)) for actions in schedule.actions]

    assert words(make("gpipe", 2, 3)) == ["F0 F1 F2 B2 B1 B0"] * 2
    assert words(make("1f1b", 2, 3)) == ["F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"]
    assert words(make("eager-1f1b", 2, 4))[0] == "F0 F1 F2 B0 F3 B1 B2 B3"
    assert words(make("1f1b", 1, 2, delayed=True)) == ["F0 B0 W0 F1 B1 W1"]
    assert words(make("zb-h1", 2, 3)) == [
        "F0 F1 B0 W0 F2 B1 W1 B2 W2", "F0 B0 F1 B1 W0 F2 B2 W1 W2",
    ]  # fmt: skip
    assert words(make(INTERLEAVED, 2, 2, 2)) == [
        "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1", "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("1f2b", 2, 2), "'1f2b' is unknown.*did you mean 1f1b.*zb-h1"),
        (("interleaved-1f1b", 4, 6, 2), "microbatches 6 are no multiple of the 4 stages: give 8"),
        (("interleaved-1f1b", 4, 8), "chunks 1: give 2 or more"),
        (("interleaved-1f1b", 1, 8, 2), "stages 1: give 2 or more"),
        (("1f1b", 4, 8, 2), "chunks 2: give 1, or choose interleaved-1f1b"),
        (("1f1b", 0, 8), "'1f1b': stages 0: give 1 or more"),
        (("zb-h1", 4, 0), "microbatches 0"),
        (("gpipe", 1000, 1000), "more than 1048576 actions"),
    ],
)
def test_a_schedule_that_there_is_not_is_refused(asked: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(*asked)


# -- Checks ----------------------------------------------------------------------------------------


def lines(*actions: str, microbatches: int = 2, chunks: int = 1) -> str:
    listed = ", ".join(f'"{line}"' for line in actions)
    return (
        f"stages = {len(actions)}\nmicrobatches = {microbatches}\nchunks = {chunks}\n"
        f"actions = [{listed}]\n"
    )


FIRST = "F0 F1 B0 B1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (lines(FIRST, "F0 B0 F1"), "stage 1 lacks B1: each stage has one of F and B"),
        (lines(FIRST, ""), "stage 1 lacks F0, F1, B0, B1"),
        (lines(FIRST, "F0 B0 W0 F1 B1"), "stage 0 lacks W0, W1: .* F, B and W"),
        (lines(FIRST, "F0 B0 F1 F1 B1"), "stage 1 has F1 twice"),
        (lines(FIRST, "F0 B0 F1 B1 F2 B2"), "stage 1 has F2: microbatches are 0 to 1"),
        (lines(FIRST, "F0 B0 F1 B1 F0.1"), r"stage 1 has F0\.1: .* chunks 0 to 0"),
        (lines(FIRST, FIRST, chunks=2), r"lacks F0\.1, .* and 2 chunks"),
        (lines(FIRST, "F0 B1 F1 B0"), "stage 1 has B1 before F1"),
        (lines("F0 B0 W0 F1 W1 B1"), "stage 0 has W1 before B1"),
        (
            lines("F0 B0 F1 B1", "F0 F1 B0 B1"),
            "stage 0 at B0 for B0 of stage 1, stage 1 at F1 for F1 of stage 0",
        ),
        (lines(FIRST, "F0 C0 F1 B1"), "stage 1: 'C0' is no action: write F, B or W"),
        (lines(FIRST, "F0 B F1 B1"), "stage 1: 'B' is no action"),
        (lines(FIRST, "F0 B-1 F1 B1"), "stage 1: 'B-1' is no action"),
        (lines(FIRST, FIRST).replace("stages = 2", "stages = 3"), "of 2 stages, and there are 3"),
        (lines(FIRST).replace("stages = 1", "stages = 0"), "stages 0: give 1 or more"),
        (lines(FIRST).replace("stages = 1", "stages = 'a'"), "stages is 'a', not a whole number"),
        (lines(FIRST).replace("stages = 1\n", ""), "stages is missing"),
        (lines(FIRST) + "order = 1\n", "order means nothing"),
        (lines(FIRST) + 'name = "a\\tb"\n', "printable"),
        ("stages = [", "it is not valid TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_schedule(path)
    assert str(caught.value).startswith(f"schedule {str(path)!r}")
    with pytest.raises(InputError, match=words):
        parse_schedule(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml' cannot be read: No such file"):
        read_schedule(tmp_path / "none.toml")


def test_stages_that_wait_for_each_other_are_named_and_no_others() -> None:
    crossed = lines("F0 F1 B0 B1", "F1 F0 B1 B0")
    check(parse_schedule(crossed))  # stage 1 waits, and it ends
    with pytest.raises(InputError, match="stage 1 at B0 for B0 of stage 2, stage 2 at F1") as two:
        parse_schedule(lines("F0 B0 F1 B1", "F0 B0 F1 B1", "F0 F1 B0 B1"))
    assert "stage 0" not in str(two.value)
    ring = (
        "stage 0 at F0.1 for F0 of stage 2, stage 2 at F0 for F0 of stage 1, "
        "stage 1 at F0 for F0 of stage 0"
    )
    order = "F0 F0.1 B0.1 B0"
    with pytest.raises(InputError, match=re.escape(ring)):
        parse_schedule(lines("F0.1 F0 B0.1 B0", order, order, microbatches=1, chunks=2))


@given(schedules(), st.data())
def test_a_schedule_with_work_left_out_or_twice_is_refused_by_its_name(
    schedule: Schedule, data: st.DataObject
) -> None:
    stage = data.draw(st.integers(0, schedule.stages - 1))
    actions = [*schedule.actions[stage]]
    place = data.draw(st.integers(0, len(actions) - 1))
    without = (*actions[:place], *actions[place + 1 :])
    twice = (*actions, actions[place])
    for wrong in (without, twice):
        actions_of = (*schedule.actions[:stage], wrong, *schedule.actions[stage + 1 :])
        changed = replace(schedule, actions=actions_of)
        if changed.delayed != schedule.delayed:
            continue  # without its only W it is one whose gradients are not delayed
        with pytest.raises(InputError, match=rf"stage {stage} .*{actions[place]}( twice|\b)"):
            check(changed)


@given(schedules(), st.sampled_from(["", "mine", 'a "b" \\ c', "\N{SNOWMAN}"]))
def test_a_schedule_is_the_same_after_it_was_written_and_read(
    schedule: Schedule, name: str
) -> None:
    schedule = replace(schedule, name=name or schedule.name)
    assert parse_schedule(format_schedule(schedule)) == schedule


def test_a_schedule_has_the_name_of_its_file_unless_it_says_another(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(lines(FIRST, FIRST))
    assert read_schedule(tmp_path / "mine.toml").name == "mine"
    (tmp_path / "mine.toml").write_text(format_schedule(make("gpipe", 2, 2)))
    assert read_schedule(tmp_path / "mine.toml") == make("gpipe", 2, 2)
    with pytest.raises(InputError, match="printable"):
        format_schedule(replace(make("gpipe", 2, 2), name="a\nb"))


_WORDS = st.sampled_from(["F0", "B0", "F1", "B1", "W0", "W1", "F0.1", "x", "F", "B99", "F0.0"])


@given(st.lists(st.lists(_WORDS, max_size=6).map(" ".join), max_size=3), st.integers(-1, 3))
def test_any_actions_are_a_schedule_or_an_input_error(
    actions: list[str], microbatches: int
) -> None:
    try:
        schedule = parse_schedule(lines(*actions, microbatches=microbatches))
    except InputError as error:
        assert "schedule 'given'" in str(error)
    else:
        check(schedule)
        timed(schedule, Times.equal(schedule.virtual_stages, 1, 1, 1))


# -- Times -----------------------------------------------------------------------------------------


def longest_path(schedule: Schedule, times: Times, links: Links, overlap: bool) -> dict[Any, int]:
    """Return when each action ends, by (stage, action): the longest path to it in the graph of all
    that it waits for, written from the definition and apart from the simulation."""
    stages, last = schedule.stages, schedule.virtual_stages - 1
    edges = {(v, v + 1): 0 for v in range(last)} | dict(links)
    edges = {(u, v): ns if u % stages != v % stages else 0 for (u, v), ns in edges.items()}
    place = {each: index for index, each in enumerate(schedule)}
    order = [*schedule]

    def sends(each: Placed) -> list[tuple[int, int]]:
        kind, _, chunk = each.action
        virtual = chunk * stages + each.stage
        if kind == "F":
            return sorted((v, ns) for (u, v), ns in edges.items() if u == virtual)
        if kind == "B":
            return sorted(((u, ns) for (u, v), ns in edges.items() if v == virtual), reverse=True)
        return []

    def sent_after_ns(source: Placed, virtual: int) -> int:
        taken = 0
        for other, ns in sends(source):
            taken = ns if overlap else taken + ns
            if other == virtual:
                return taken
        raise AssertionError

    @cache
    def end_ns(stage: int, action: Action) -> int:
        kind, microbatch, chunk = action
        virtual = chunk * stages + stage
        index = place[Placed(stage, action)]
        ready = [0]
        if index and order[index - 1].stage == stage:
            before = order[index - 1]
            busy = 0 if overlap else sum(ns for _, ns in sends(before))
            ready.append(end_ns(*before) + busy)
        if kind == "F":
            others = [u for (u, v) in edges if v == virtual]
        else:
            others = [v for (u, v) in edges if u == virtual] if kind == "B" else []
        for other in others:
            source = Placed(other % stages, Action(kind, microbatch, other // stages))
            ready.append(end_ns(*source) + sent_after_ns(source, virtual))
        took = {"F": times.forward_ns, "B": times.backward_ns, "W": times.weight_ns}[kind][virtual]
        if kind == "B" and not schedule.delayed:
            took += times.weight_ns[virtual]
        return max(ready) + took

    return {each: end_ns(*each) for each in sorted(order, key=lambda each: each.action.microbatch)}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Schedule, Times, dict[tuple[int, int], int], bool]:
    schedule = draw(schedules().filter(lambda each: each.microbatches <= 8))
    count = schedule.virtual_stages
    column = st.lists(st.integers(0, 50), min_size=count, max_size=count).map(tuple)
    times = Times(draw(column), draw(column), draw(column))
    links: dict[tuple[int, int], int] = {}
    if count > 1:
        pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
        pairs = pairs.filter(lambda pair: pair[0] < pair[1])
        links = draw(st.dictionaries(pairs, st.integers(0, 60), max_size=6))
    return schedule, times, links, draw(st.booleans())


@given(problems())
def test_actions_end_at_the_end_of_the_longest_path_to_them(
    problem: tuple[Schedule, Times, dict[tuple[int, int], int], bool],
) -> None:
    schedule, times, links, overlap = problem
    timing = timed(schedule, times, links, overlap=overlap)
    expected = longest_path(schedule, times, links, overlap)
    found = {
        Placed(each.stage, Action(each.kind, each.microbatch, each.chunk)): each.end_ns
        for each in timing.spans
    }
    assert found == expected
    assert [*found] == [*schedule]
    assert timing.step_ns == max(expected.values())
    assert timing.step_ns >= timing.ideal_ns
    assert all(0 <= busy_ns <= timing.step_ns for busy_ns in timing.busy_ns)


@given(n=st.integers(1, 8), m=st.integers(1, 24), f=st.integers(1, 9), b=st.integers(1, 9))
def test_bubbles_are_those_of_the_formulas(n: int, m: int, f: int, b: int) -> None:
    times = Times.equal(n, f, b, b)
    for name in ("gpipe", "1f1b"):
        assert timed(make(name, n, m), times).bubble == pytest.approx((n - 1) / m)
    if n > 1:
        for chunks in (2, 3):
            timing = timed(make(INTERLEAVED, n, m * n, chunks), Times.equal(n * chunks, f, b, b))
            assert timing.bubble == pytest.approx((n - 1) / (m * n * chunks))


@given(n=st.integers(2, 8), more=st.integers(0, 16), each_ns=st.integers(1, 9))
def test_zero_bubble_leaves_a_third_of_the_bubble(n: int, more: int, each_ns: int) -> None:
    m, times = n + more, Times.equal(n, each_ns, each_ns, each_ns)
    half, whole = (timed(make(name, n, m), times) for name in ("zb-h1", "1f1b"))
    # (n - 1) (F + B - W) against (n - 1) (F + B + W).
    assert half.step_ns - half.ideal_ns == (n - 1) * each_ns
    assert whole.step_ns - whole.ideal_ns == 3 * (n - 1) * each_ns


@given(n=st.integers(1, 8), m=st.integers(1, 24), f=st.integers(0, 9), b=st.integers(0, 9))
def test_without_communication_eager_is_as_fast_as_1f1b(n: int, m: int, f: int, b: int) -> None:
    times = Times.equal(n, f, b, 0)
    assert (
        timed(make("eager-1f1b", n, m), times).step_ns == timed(make("1f1b", n, m), times).step_ns
    )


def test_eager_hides_the_transfers_that_1f1b_waits_for() -> None:
    times = Times.equal(2, 100, 100, 100)
    alone = timed(make("1f1b", 2, 16), times)
    steps = [
        timed(make("1f1b", 2, 16), times, 80, overlap=False).step_ns,
        timed(make("1f1b", 2, 16), times, 80).step_ns,
        timed(make("eager-1f1b", 2, 16), times, 80).step_ns,
        alone.step_ns,
    ]
    assert steps == sorted(steps, reverse=True)
    # Only the first transfer and the last one are in nobody's shadow.
    assert steps[2] == alone.step_ns + 2 * 80


def test_delayed_gradients_of_weights_let_the_stage_before_begin_earlier() -> None:
    times = Times.equal(4, 10, 10, 10)
    whole, delayed = (timed(make("1f1b", 4, 8, delayed=each), times) for each in (False, True))
    assert delayed.step_ns < whole.step_ns
    assert delayed.busy_ns == whole.busy_ns == (240,) * 4


def test_a_stage_that_does_not_overlap_sends_before_its_next_action() -> None:
    schedule, times = make("gpipe", 3, 2), Times.equal(3, 10, 10, 0)
    links = {(0, 1): 3, (1, 2): 3, (0, 2): 5}
    timing = timed(schedule, times, links, overlap=False)
    assert timing.spans[:2] == (ActionSpan(0, "F", 0, 0, 0, 10), ActionSpan(0, "F", 1, 0, 18, 28))
    assert timing.transfers[:2] == (Transfer(0, 1, 10, 13), Transfer(0, 2, 13, 18))
    beside = timed(schedule, times, links)
    assert beside.spans[1] == ActionSpan(0, "F", 1, 0, 10, 20)
    assert beside.transfers[:2] == (Transfer(0, 1, 10, 13), Transfer(0, 2, 10, 15))
    assert spans(schedule, times, links) == beside.spans


@pytest.mark.parametrize(
    ("times", "links", "words"),
    [
        (Times.equal(2, 1, 1, 1), 0, "times of 2 virtual stages, and it has 3"),
        (Times.equal(3, 1, 1, 1), -1, "a transfer of -1 ns"),
        (Times.equal(3, 1, 1, 1), {(1, 0): 1}, "from virtual stage 1 to 0"),
        (Times.equal(3, 1, 1, 1), {(1, 3): 1}, "to a later one of 0 to 2"),
    ],
)
def test_times_that_do_not_fit_are_refused(times: Times, links: int | Links, words: str) -> None:
    with pytest.raises(InputError, match=words):
        timed(make("1f1b", 3, 2), times, links)


def test_times_of_different_numbers_or_below_0_are_refused() -> None:
    for columns in (((1,), (1, 1), (1,)), ((1,), (-1,), (1,))):
        with pytest.raises(InputError, match="0 ns or more for each"):
            Times(*columns)
