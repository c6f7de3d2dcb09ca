"""Tasks of fused operators: orders, workgroups and spans, against models that are written apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agents.operators.tasks import (
    INTERLEAVED,
    LOCAL_FIRST,
    ORDERS,
    REMOTE_FIRST,
    assigned,
    compute_ns,
    cut,
    in_order,
)
from weft.base.errors import InputError

COSTS = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 10**12)), max_size=40)


@st.composite
def owned(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Slices in the order of their owners or in any, a rank, and how many ranks there are."""
    ranks = draw(st.integers(1, 7), "ranks")
    owners = draw(st.lists(st.integers(0, ranks - 1), max_size=30), "owners")
    if draw(st.booleans(), "sorted"):
        owners.sort()
    return owners, draw(st.integers(0, ranks - 1), "rank"), ranks


@given(owned(), st.sampled_from([*ORDERS]))
def test_every_slice_comes_once_and_those_of_an_owner_in_their_order(
    asked: tuple[list[int], int, int], order: str
) -> None:
    owners, rank, ranks = asked
    found = in_order(owners, rank, ranks, order)
    assert sorted(found) == list(range(len(owners)))
    for owner in range(ranks):
        own = [place for place in found if owners[place] == owner]
        assert own == sorted(own)


@given(owned())
def test_remote_first_is_local_first_with_the_ranks_own_at_the_other_end(
    asked: tuple[list[int], int, int],
) -> None:
    owners, rank, ranks = asked
    remote = [owners[place] == rank for place in in_order(owners, rank, ranks, REMOTE_FIRST)]
    assert remote == sorted(remote), "an own slice is before one for another rank"
    local = [owners[place] != rank for place in in_order(owners, rank, ranks, LOCAL_FIRST)]
    assert local == sorted(local), "a slice for another rank is before an own one"


def turns(owners: list[int], cycle: list[int]) -> list[int]:
    """Go around some owners, and take the next slice of each that has one left."""
    left = list(enumerate(owners))
    found = []
    while any(owner in cycle for _, owner in left):
        for owner in cycle:
            for each in left:
                if each[1] == owner:
                    found.append(each[0])
                    left.remove(each)
                    break
    return found


@given(owned())
def test_turns_begin_after_the_rank_itself(asked: tuple[list[int], int, int]) -> None:
    owners, rank, ranks = asked
    others = [(rank + step) % ranks for step in range(1, ranks)]
    remote, own = turns(owners, others), turns(owners, [rank])
    assert in_order(owners, rank, ranks, REMOTE_FIRST) == remote + own
    assert in_order(owners, rank, ranks, LOCAL_FIRST) == own + remote
    assert in_order(owners, rank, ranks, INTERLEAVED) == turns(owners, [*others, rank])


def test_an_example_of_each_order() -> None:
    owners = [0, 0, 1, 1, 2, 2, 2]
    assert in_order(owners, 1, 3, REMOTE_FIRST) == [4, 0, 5, 1, 6, 2, 3]
    assert in_order(owners, 1, 3, LOCAL_FIRST) == [2, 3, 4, 0, 5, 1, 6]
    assert in_order(owners, 1, 3, INTERLEAVED) == [4, 0, 2, 5, 1, 3, 6]


@given(st.integers(2, 9))
def test_ranks_that_begin_together_send_to_different_ranks(ranks: int) -> None:
    owners = [owner for owner in range(ranks) for _ in range(3)]
    for order in (REMOTE_FIRST, INTERLEAVED):
        orders = [in_order(owners, rank, ranks, order) for rank in range(ranks)]
        for step in range(3 * ranks):
            assert len({owners[each[step]] for each in orders}) == ranks


def test_an_order_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"order 'backwards': .*remote-first, local-first, inter"):
        in_order([0], 0, 1, "backwards")


def played(costs: list[int], workgroups: int) -> list[list[tuple[int, int]]]:
    """By workgroup, when it carries each task out, instant by instant: whoever is free takes the
    next task. Written apart from `assigned`."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(workgroups)]
    free_at = [0] * workgroups
    for cost in costs:
        first = free_at.index(min(free_at))
        found[first].append((free_at[first], free_at[first] + cost))
        free_at[first] += cost
    return found


@given(COSTS, st.integers(1, 9))
def test_a_task_goes_to_the_workgroup_that_is_free_first(costs: list[int], workgroups: int) -> None:
    found = assigned(costs, workgroups)
    assert len(found) == workgroups
    assert sorted(task for tasks in found for task in tasks) == list(range(len(costs)))
    begins = {}
    for tasks in found:
        assert tasks == sorted(tasks)
        now = 0
        for task in tasks:
            begins[task] = now
            now += costs[task]
    model = sorted(begin for tasks in played(costs, workgroups) for begin, _ in tasks)
    assert sorted(begins.values()) == model
    # None begins before an earlier one, and none waits where a workgroup has nothing to do.
    assert [begins[task] for task in range(len(costs))] == model


@given(COSTS, st.integers(1, 9))
def test_workgroups_take_as_long_as_the_last_of_them(costs: list[int], workgroups: int) -> None:
    took = compute_ns(costs, workgroups)
    ends = [end for tasks in played(costs, workgroups) for _, end in tasks]
    assert took == max(ends, default=0)
    longest = max(costs, default=0)
    assert max(longest, -(-sum(costs) // workgroups)) <= took
    assert took * workgroups <= sum(costs) + (workgroups - 1) * longest
    assert compute_ns(costs, 1) == sum(costs)
    assert compute_ns(costs, max(1, len(costs))) == longest


@given(st.integers(0, 500), st.integers(1, 600))
def test_spans_follow_each_other_and_only_the_last_is_shorter(total: int, size: int) -> None:
    spans = cut(total, size)
    counted = [number for first, count in spans for number in range(first, first + count)]
    assert counted == list(range(total))
    assert all(span.size == size for span in spans[:-1])
    assert all(0 < span.size <= size for span in spans)
