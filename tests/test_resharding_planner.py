"""Planning of reshardings: meshes, specs, unit tasks, balancers and bounds."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fabric import program_names

from weft.agents.collectives.tensors import Box
from weft.base.errors import InputError
from weft.experiments.resharding.balance import (
    BALANCERS,
    Choice,
    Job,
    balanced,
    lower_bound,
    makespan,
    times,
)
from weft.experiments.resharding.cases import case, one_to_many
from weft.experiments.resharding.choice import MOST_GROUPS, check_groups, groups_of, time_bytes
from weft.experiments.resharding.exact import solve
from weft.experiments.resharding.meshes import Device, Mesh
from weft.experiments.resharding.names import BALANCES, STRATEGIES
from weft.experiments.resharding.plan import Plan, Tensor, plan
from weft.experiments.resharding.specs import spec_of, spec_of_placements

QUICK = tuple(name for name in BALANCES if name != "exact")


def sliced(text: str, mesh: Mesh, shape: tuple[int, ...], device: int) -> Box:
    """The tile of a device, by halving the whole array as numpy slices: written apart from specs,
    by DTensor's rule, dimension of the mesh by dimension."""
    mesh_place = np.unravel_index(device, mesh.shape)
    whole = [np.arange(size) for size in shape]
    letters = [part for part in text.replace("S", " S").replace("R", " R").split()]
    for dimension, letter in enumerate(letters):
        for axis in letter[1:]:
            count, which = mesh.shape[int(axis)], int(mesh_place[int(axis)])
            step = -(-len(whole[dimension]) // count)
            whole[dimension] = whole[dimension][which * step : (which + 1) * step]
    return tuple((int(each[0]), int(each[-1]) + 1) if len(each) else (0, 0) for each in whole)


@st.composite
def alpa_specs(draw: st.DrawFn, dimensions: int) -> str:
    letters = [""] * dimensions
    for axis in draw(st.permutations("01")):
        where = draw(st.integers(-1, dimensions - 1))
        if where >= 0:
            letters[where] += axis
    return "".join(f"S{each}" if each else "R" for each in letters)


@st.composite
def reshardings(draw: st.DrawFn, hosts: int = 5) -> tuple[Mesh, Mesh, list[Tensor]]:
    meshes = [
        Mesh(
            tuple(draw(st.permutations(range(hosts)))[: draw(st.integers(1, 3))]),
            draw(st.integers(1, 3)),
        )
        for _ in range(2)
    ]
    tensors = []
    for _ in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
        one, other = (draw(alpa_specs(len(shape))) for _ in range(2))
        dtype = draw(st.sampled_from(["uint8", "int16", "float32", "complex128", "bfloat16"]))
        tensors.append(Tensor(shape, dtype, one, other))
    return meshes[0], meshes[1], tensors


@settings(max_examples=200, deadline=None)
@given(reshardings(), st.sampled_from(QUICK))
def test_every_device_gets_what_it_lacks_and_no_more(
    asked: tuple[Mesh, Mesh, list[Tensor]], balance: str
) -> None:
    source, destination, tensors = asked
    found = plan(source, destination, tensors, balance)
    for number, tensor in enumerate(tensors):
        held: dict[Device, np.ndarray[Any, Any]] = {}
        for device, place in zip(source.mesh_devices, range(source.size), strict=True):
            held.setdefault(device, np.zeros(tensor.shape, int))[
                box_of(sliced(tensor.source_spec, source, tensor.shape, place))
            ] = 1
        got = {device: np.zeros(tensor.shape, int) for device in destination.mesh_devices}
        for task in found.tasks:
            if task.tensor != number:
                continue
            assert task.size_bytes == tensor.item_bytes * prod(e - b for b, e in task.box)
            assert all(held[device][box_of(task.box)].all() for device in task.senders)
            for device in task.receivers:
                got[device][box_of(task.box)] += 1
        for place, device in enumerate(destination.mesh_devices):
            tile = np.zeros(tensor.shape, int)
            tile[box_of(sliced(tensor.destination_spec, destination, tensor.shape, place))] = 1
            having = held.get(device, np.zeros(tensor.shape, int))
            assert np.array_equal(got[device] + tile * having, tile)


def box_of(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*bounds) for bounds in box)


@settings(max_examples=150, deadline=None)
@given(reshardings(), st.sampled_from(QUICK), st.integers(0, 5))
def test_plans_are_whole(asked: tuple[Mesh, Mesh, list[Tensor]], balance: str, seed: int) -> None:
    found = plan(*asked, balance, seed)
    assert sorted(found.order) == list(range(len(found.tasks)))
    for number, task in enumerate(found.tasks):
        assert (number in found.senders) == bool(task.remote)
        if task.remote:
            assert found.senders[number] in task.senders
            assert found.senders[number].host not in task.remote
        assert {*task.local, *(each for some in task.remote.values() for each in some)} == {
            *task.receivers
        }
    sent = sum(task.size_bytes for task in found.tasks if task.remote)
    assert sum(found.outgoing_bytes.values()) == sent
    assert found.makespan_bytes >= found.bound_bytes
    assert found.makespan_bytes <= max(sent, 0)
    assert plan(*asked, balance, seed) == found


def test_the_nine_cases() -> None:
    """Tasks and bytes by hand: the smaller tensor has 2^26 elements, case 6 3/8 * 170 * 2^20."""
    mib = 1 << 20
    expected = {
        1: (2, 128), 2: (2, 128), 3: (4, 128), 4: (64, 128), 5: (4, 128), 6: (4, 127.5),
        7: (4, 256), 8: (4, 256), 9: (4, 128),
    }  # fmt: skip
    for number, (tasks, bound_mib) in expected.items():
        found = plan_of_case(number)
        assert len(found.tasks) == tasks, number
        assert found.bound_bytes == bound_mib * mib, number
        assert found.makespan_bytes == found.bound_bytes, number
    whole = case(1, full=True)
    assert prod(whole.shape) * 4 == 2 << 30
    assert prod(case(6).shape) * 4 == 384 * 1024 * 170 * 4


def plan_of_case(number: int, balance: str = "best") -> Plan:
    one = case(number)
    tensor = Tensor(one.shape, "int32", one.source_spec, one.destination_spec)
    return plan(one.source, one.destination, [tensor], balance)


def test_one_to_many() -> None:
    one = one_to_many(4, 2)
    tensor = Tensor(one.shape, "int32", one.source_spec, one.destination_spec)
    found = plan(one.source, one.destination, [tensor])
    assert len(found.tasks) == 1 and len(found.tasks[0].receivers) == 8
    assert {host: len(some) for host, some in found.tasks[0].remote.items()} == dict.fromkeys(
        (1, 2, 3, 4), 2
    )
    assert found.bound_bytes == found.makespan_bytes == 1 << 30


def test_what_balancers_are_for() -> None:
    """By hand: in case 2 the first replica sends everything; in case 3 natural order makes two
    tasks wait."""
    for number, balance, times_bound in (
        (2, "none", 2.0), (2, "least-loaded", 1.0), (3, "least-loaded", 1.5), (3, "greedy", 1.0),
    ):  # fmt: skip
        found = plan_of_case(number, balance)
        assert found.makespan_bytes == times_bound * found.bound_bytes


jobs_drawn = st.lists(
    st.builds(
        Job,
        st.integers(1, 20),
        st.sets(st.integers(0, 2), min_size=1).map(lambda some: tuple(sorted(some))),
        st.sets(st.integers(3, 5), min_size=1).map(lambda some: tuple(sorted(some))),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(jobs_drawn)
def test_exact_is_the_least_of_all(jobs: list[Job]) -> None:
    """Against trying every order and every sender."""
    least = min(
        makespan(jobs, Choice(senders, order))
        for senders in product(*(job.senders for job in jobs))
        for order in permutations(range(len(jobs)))
    ) if len(jobs) <= 4 else None  # fmt: skip
    solution = solve(jobs)
    assert solution.optimal
    length = makespan(jobs, solution.choice)
    assert length == pytest.approx(solution.bound_bytes, rel=1e-3, abs=1e-3)
    assert lower_bound(jobs) <= length
    assert least is None or length == least
    for name in QUICK:
        assert makespan(jobs, balanced(name, jobs, 1)) >= length


@settings(max_examples=50, deadline=None)
@given(jobs_drawn, st.sampled_from([*BALANCERS]))
def test_jobs_do_not_share_links(jobs: list[Job], name: str) -> None:
    choice = balanced(name, jobs, 3)
    spans = times(jobs, choice)
    taken: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for number, (begin, end) in enumerate(spans):
        assert end - begin == jobs[number].size_bytes
        assert choice.senders[number] in jobs[number].senders
        taken.setdefault((choice.senders[number], "out"), []).append((begin, end))
        for host in jobs[number].receivers:
            taken.setdefault((host, "in"), []).append((begin, end))
    for some in taken.values():
        some.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(some))


def test_placements_are_those_of_dtensor() -> None:
    """Numbers by hand, as torch.chunk gives them: 10 over 4 are 3, 3, 3 and 1; 5 over 4 are 2, 2,
    1 and nothing."""
    mesh = Mesh((0, 1), 4, (2, 4), ("dp", "tp"))
    spec = spec_of("Replicate(), Shard(0)", mesh, (10, 5))
    tiles = [spec.tile(mesh, (10, 5), device) for device in range(4)]
    assert [box[0] for box in tiles] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    spec = spec_of("R,S(-1)", mesh, (10, 5))
    assert [spec.tile(mesh, (10, 5), device)[1] for device in range(4)] == [
        (0, 2), (2, 4), (4, 5), (5, 5),
    ]  # fmt: skip
    nested = spec_of("Shard(0),Shard(0)", mesh, (10, 5))
    assert nested == spec_of("S01R", mesh, (10, 5))
    firsts = [nested.tile(mesh, (10, 5), device)[0] for device in range(8)]
    assert firsts == [(0, 2), (2, 4), (4, 5), (5, 5), (5, 7), (7, 9), (9, 10), (10, 10)]
    cube = Mesh((0, 1), 4, (2, 2, 2))
    three = spec_of("Shard(1),Replicate(),Shard(0)", cube, (4, 4))
    assert three.axes == ((2,), (0,))


def test_placements_may_be_objects() -> None:
    class Placed:
        def __init__(self, dim: int | None) -> None:
            self.dim = dim

        def is_shard(self) -> bool:
            return self.dim is not None

        def is_replicate(self) -> bool:
            return self.dim is None

    mesh = Mesh((0, 1), 4)
    assert spec_of_placements([Placed(1), Placed(None)], mesh, (4, 4)).axes == ((), (0,))


MESH = Mesh((0, 1), 4)


@pytest.mark.parametrize(
    "text, message",
    [
        ("S0R", "is for tensors of 2 dimensions, and the shape 4, 4, 4 has 3"),
        ("S2RR", "is over axis 2 of the mesh, which has 0 and 1"),
        ("S0S0R", "is over axis 0 of the mesh twice"),
        ("S00RR", "is over axis 0 of the mesh twice"),
        ("Shard(0)", "has 1 placements, and the mesh is 2x4"),
        ("Shard(3),Replicate()", "cuts dimension 3 of a tensor that has 3: choose -3 to 2"),
        ("Partial(),Replicate()", "'Partial.*' is no placement that can be resharded, which has"),
        ("Shard(x),R", "is no placement that can be resharded: write Shard"),
        ("what,ever", "'what' is no placement"),
    ],
)
def test_specs_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        spec_of(text, MESH, (4, 4, 4))


def test_alpas_form_is_for_two_dimensions() -> None:
    with pytest.raises(InputError, match="is Alpa's, for meshes of two dimensions"):
        spec_of("S0RR", Mesh((0, 1), 4, (2, 2, 2)), (4, 4, 4))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (((), 1), "a mesh without hosts"),
        (((0, 1, 0), 1), "a mesh has host 0 twice"),
        (((0, -1), 1), "a mesh has host -1"),
        (((0,), 0), "a mesh with 0 devices a host"),
        (((0, 1), 4, (3, 3)), "a mesh of shape 3x3 on 2 hosts with 4 devices each, which are 8"),
        (((0, 1), 4, (2, 4), ("x", "x")), "a mesh of 2 dimensions with the names x, x"),
        (((0, 1), 4, (2, 4), ("x",)), "a mesh of 2 dimensions with the names x"),
    ],
)
def test_meshes_that_make_no_sense(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Mesh(*arguments)


def test_what_cannot_be_planned() -> None:
    with pytest.raises(InputError, match="balance 'exact' solves 16 slices at most, and 64"):
        plan_of_case(4, "exact")
    with pytest.raises(InputError, match="balance 'what' is unknown: choose from best"):
        plan_of_case(4, "what")
    with pytest.raises(InputError, match="dtype 'strange' is no type of numbers"):
        Tensor((4,), "strange", "R", "R")
    with pytest.raises(InputError, match="case 10: there are 1 to 9"):
        case(10)


def test_the_model_of_strategies() -> None:
    """The formulas of section 3.1 for one slice of t, A = 2 hosts of B = 4 devices, K blocks."""
    one = case(7)
    tensor = Tensor(one.shape, "int32", "RRR", "RRR")
    found = plan(Mesh((0,), 1), one.destination, [tensor])
    whole = tensor.size_bytes
    times_t = {
        name: time_bytes(found, STRATEGIES.get(name), whole // 64) / whole
        for name in STRATEGIES.names()
    }
    assert times_t == {
        "send-recv": 8, "send-recv+allgather": 2, "global-allgather": 1.5,
        "broadcast": 1 + 1 / 64, "multicast": 1,
    }  # fmt: skip


def test_groups_are_counted() -> None:
    assert groups_of(plan_of_case(7)) == 1
    assert groups_of(plan_of_case(4)) == 0
    check_groups(plan_of_case(7), STRATEGIES.get("multicast"))


def test_groups_are_as_many_as_tables_hold() -> None:
    """`MOST_GROUPS` is the size of the program's table."""
    assert program_names().size("multicast_route") == MOST_GROUPS
