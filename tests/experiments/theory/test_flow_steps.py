"""Steps of flows, against what the patterns of the agents send and the algorithms acted out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_definitions import messages_of
from tests.support.collective_names import COLLECTIVES
from tests.support.ideal_ranks import Ideal
from tests.support.own_options import own_of
from tests.support.theory_support import OFFLOADED

from weft.agents.collectives.names import ROOTED
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Write
from weft.base.errors import InputError
from weft.controller.flows import Flows
from weft.experiments.theory.flow_steps import has_steps, shards_of, steps_of, steps_of_shards

UNICAST = [
    (collective, algorithm)
    for collective, algorithms in COLLECTIVES.items()
    for algorithm in algorithms
    if algorithm not in ("multicast", *OFFLOADED)
]
ALL = pytest.mark.parametrize(("collective", "algorithm"), UNICAST)


class Watched(Ideal):
    """Counts what every rank writes to every other."""

    def _arrive(self, sender: int, write: Write, data: bytes) -> None:
        self.sent = getattr(self, "sent", Counter())
        self.sent[sender, write.peer] += write.length
        super()._arrive(sender, write, data)


def between_pairs(steps: list[Flows]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for step in steps:
        columns = (step.source, step.destination, step.size_bytes)
        for source, destination, size_bytes in zip(*(c.tolist() for c in columns), strict=True):
            assert size_bytes > 0
            found[source, destination] += size_bytes
    return found


@ALL
@settings(max_examples=25)
@given(data=st.data())
def test_every_pair_gets_what_the_agents_write(
    collective: str, algorithm: str, data: st.DataObject
) -> None:
    assert has_steps(collective, algorithm)
    ranks = data.draw(st.integers(1, 17), "ranks")
    count = data.draw(st.integers(0, 200), "count")
    root = data.draw(st.integers(0, ranks - 1), "root") if collective in ROOTED else 0
    own = own_of(algorithm, radix=data.draw(st.sampled_from([2, 3, 4]), "radix"))
    request = Request(0, collective, algorithm, count, dtype="int16", root=root, own=own)
    buffers = [
        np.zeros(2 * request.buffer_elements(rank, ranks), np.uint8) for rank in range(ranks)
    ]
    ideal = Watched(request, ranks, buffers, 0)
    ideal.run()
    steps = steps_of(
        collective, algorithm, ranks, 2 * count, dtype="int16", root=root, own=tuple(own.items())
    )
    assert between_pairs(steps) == getattr(ideal, "sent", Counter())


@ALL
@given(shards=st.lists(st.integers(0, 999), min_size=1, max_size=12))
def test_every_pair_gets_what_the_algorithm_acted_out_does(
    collective: str, algorithm: str, shards: list[int]
) -> None:
    acted: Counter[tuple[int, int]] = Counter()
    for source, destination, size_bytes in messages_of(collective, algorithm, shards):
        acted[source, destination] += size_bytes
    assert between_pairs(steps_of_shards(collective, algorithm, shards)) == +acted


def holders(collective: str, algorithm: str, ranks: int) -> list[set[int]]:
    """After all steps: whose data may have reached each rank, if a rank passes on in a step all
    that came in the steps before."""
    reached = [{rank} for rank in range(ranks)]
    for step in steps_of(collective, algorithm, ranks, 1000 * ranks):
        before = [set(each) for each in reached]
        for source, destination in zip(step.source, step.destination, strict=True):
            reached[destination] |= before[source]
    return reached


@ALL
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 16])
def test_steps_are_in_an_order_in_which_they_can_be_done(
    collective: str, algorithm: str, ranks: int
) -> None:
    reached = holders(collective, algorithm, ranks)
    everybody = set(range(ranks))
    for rank, found in enumerate(reached):
        if collective == "broadcast":
            assert 0 in found
        elif collective != "many-to-one" or rank == 0:
            assert found == everybody


@pytest.mark.parametrize(
    ("collective", "algorithm", "steps", "flows"),
    [
        ("allgather", "ring", 7, 8),
        ("allgather", "linear", 1, 56),
        ("allgather", "recursive-doubling", 3, 8),
        ("reduce-scatter", "ring", 7, 8),
        ("reduce-scatter", "recursive-halving", 3, 8),
        ("allreduce", "ring", 14, 8),
        ("allreduce", "halving-doubling", 6, 8),
        ("allreduce", "direct", 2, 56),
        ("alltoall", "direct", 1, 56),
        ("many-to-one", "direct", 1, 7),
    ],
)
def test_eight_ranks_take_the_steps_of_the_textbook(
    collective: str, algorithm: str, steps: int, flows: int
) -> None:
    found = steps_of(collective, algorithm, 8, 8000)
    assert [len(each) for each in found] == [flows] * steps
    if collective in ("allreduce", "alltoall") and algorithm in ("ring", "direct"):
        assert all(set(each.size_bytes.tolist()) == {1000} for each in found)


def test_halving_sends_a_half_then_a_quarter_then_an_eighth_and_back() -> None:
    found = steps_of("allreduce", "halving-doubling", 8, 8000)
    assert [each.size_bytes[0] for each in found] == [4000, 2000, 1000, 1000, 2000, 4000]


def test_two_trees_of_eight_go_up_all_levels_and_down_again() -> None:
    found = steps_of("allreduce", "double-binary-tree", 8, 8000)
    assert len(found) == 6  # 7 of 8 places have a parent, three levels above the deepest
    half = len(found) // 2
    for up, down in zip(found[:half], reversed(found[half:]), strict=True):
        assert up.source.tolist() == down.destination.tolist()
        assert up.destination.tolist() == down.source.tolist()
    assert all(set(each.size_bytes.tolist()) == {4000} for each in found)


def test_what_is_no_unicast_algorithm_is_refused() -> None:
    for collective, algorithm in (
        ("allgather", "multicast"), ("alltoall", "ring"), ("allreduce", "switch"), ("x", "direct"),
    ):  # fmt: skip
        assert not has_steps(collective, algorithm)
        with pytest.raises(InputError, match=f"{collective}.*{algorithm}"):
            steps_of(collective, algorithm, 4, 100)


def test_parts_of_a_vector_keep_elements_whole() -> None:
    assert shards_of("alltoall", 3, 40, 4) == (16, 12, 12)
    assert shards_of("allgather", 3, 40, 4) == (40, 40, 40)
    assert Request(0, "alltoall", "direct", 10, "int32").shard_bytes(3) == (16, 12, 12)
