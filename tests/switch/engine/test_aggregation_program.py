"""Aggregation in the switch program: every contribution is added once, whatever is lost."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.aggregation_support import (
    LEAST,
    MOST,
    RESULT,
    ROUNDS,
    SATURATED,
    SCATTER,
    Model,
    Packet,
    Place,
    Switches,
    Values,
    frame_of,
    packet_of,
)

from weft.base.errors import InputError
from weft.switch.engine.control.entities import ActionCall
from weft.topo.fabric_program import fabric_macros

LEAF = Place((2, 5, 3), parent=4, owners={0: 2, 1: 5, 2: 3})
ROOT = Place((1, 2, 4), owners={0: 1, 1: 2, 2: 4})

EDGES = [0, 1, -1, LEAST, MOST, LEAST // 2, MOST // 2]


def some_packet(rng: random.Random, count: int, first: int, result: bool) -> Packet:
    """A packet of the job, or nearly so; most are of the few rounds from ``first`` on."""
    values = None
    if rng.random() < 0.7:
        values = tuple(
            rng.choice(EDGES) if rng.random() < 0.2 else rng.randrange(-(1 << 30), 1 << 30)
            for _ in range(count)
        )
    flags = RESULT if result else 0
    flags |= rng.choice([0, 0, SCATTER]) | rng.choice([0] * 6 + [SATURATED])
    return Packet(
        rng.choice([9] * 15 + [8, 0]),
        (first + rng.choice([0] * 8 + [1, 1, 8, -8, 16, 1 << 31, -(1 << 32), 1 << 47])) % ROUNDS,
        flags,
        rng.randrange(4),
        rng.choice([-32768, 32767, rng.randrange(-40, 40), rng.randrange(-40, 40)]),
        values,
        ttl=rng.randrange(2, 256),
    )


def check_against_model(place: Place, count: int, plain: bool, seed: int) -> None:
    """Feed one switch and its model with the same packets."""
    rng = random.Random(seed)
    switches, model = Switches([place], count, plain=plain), Model(place)
    first = rng.choice([0, 5, (1 << 32) - 1, (1 << 31) - 1, (1 << 47) - 1, ROUNDS - 1])
    for number in range(60):
        port = rng.choice(place.children)
        if rng.random() < 0.2:
            port = place.parent or 6
        result = (port == place.parent) != (rng.random() < 0.05)
        packet = some_packet(rng, count, first + number // 15, result)
        frame = frame_of(packet)
        if rng.random() < 0.05:
            # From the PSN on: the ICRC leaves out some of what is before it.
            damaged = bytearray(frame)
            damaged[rng.randrange(51, len(frame))] ^= 1 << rng.randrange(8)
            assert switches.receive(0, port, bytes(damaged)) == []
            continue
        sent = [(out, packet_of(made)) for out, made in switches.receive(0, port, frame)]
        assert sorted(sent, key=str) == sorted(model.receive(port, packet), key=str)


@given(st.integers(0, 1 << 32))
def test_a_root_does_as_the_protocol_says(seed: int) -> None:
    check_against_model(ROOT, 256, False, seed)


@given(st.integers(0, 1 << 32))
def test_a_switch_below_the_root_does_as_the_protocol_says(seed: int) -> None:
    check_against_model(LEAF, 256, False, seed)


@settings(max_examples=20)
@given(st.sampled_from([ROOT, LEAF]), st.integers(0, 1 << 32))
def test_the_plain_form_with_few_values_does_as_the_protocol_says(place: Place, seed: int) -> None:
    check_against_model(place, 16, True, seed)


def test_compiled_and_plain_form_send_the_same_bytes() -> None:
    rng = random.Random(4)
    both = [Switches([LEAF], 256, plain=plain) for plain in (False, True)]
    for number in range(30):
        values = tuple(rng.randrange(LEAST, MOST) for _ in range(256))
        packet = Packet(9, number // 8, rng.choice([0, 0, RESULT]), values=values)
        frame = bytearray(frame_of(packet))
        if rng.random() < 0.2:
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
        port = rng.choice([2, 5, 3, 4])
        compiled, plain = (switches.receive(0, port, bytes(frame)) for switches in both)
        assert compiled == plain


Shape = dict[str, tuple[int | None, ...]]

# By rank, the switch that it is at; by switch, its parent.
ONE: Shape = {"ranks": (0, 0, 0, 0), "parents": (None,)}
TWO: Shape = {"ranks": (1, 1, 2, 2, 2, 3), "parents": (None, 0, 0, 0)}
THREE: Shape = {"ranks": (3, 3, 4, 5, 6, 6), "parents": (None, 0, 0, 1, 1, 2, 2)}
UPLINK = 9


class Tree:
    """Switches joined by hand, with ranks below the lowest ones."""

    def __init__(self, shape: Shape, slots: int, count: int) -> None:
        parents, ranks = shape["parents"], shape["ranks"]
        children: list[list[tuple[str, int]]] = [[] for _ in parents]
        for switch, parent in enumerate(parents):
            if parent is not None:
                children[parent].append(("switch", switch))
        for rank, leaf in enumerate(ranks):
            assert leaf is not None
            children[leaf].append(("rank", rank))
        self.links: dict[tuple[int, int], tuple[str, int, int]] = {}
        self.entry: dict[int, tuple[int, int]] = {}
        below: dict[int, set[int]] = {}
        places = []
        for switch in reversed(range(len(parents))):
            owners = {}
            for port, (kind, number) in enumerate(children[switch], 1):
                for rank in {number} if kind == "rank" else below[number]:
                    owners[rank] = port
                self.links[switch, port] = (kind, number, UPLINK)
                if kind == "rank":
                    self.entry[number] = (switch, port)
                else:
                    self.links[number, UPLINK] = ("switch", switch, port)
            below[switch] = set(owners)
            ports = tuple(range(1, len(children[switch]) + 1))
            uplink = None if parents[switch] is None else UPLINK
            address = 0x0AFE0000 + switch
            places.append(Place(ports, uplink, owners, slots=slots, address=address))
        self.switches = Switches(places[::-1], count)


def run(
    tree: Tree, rng: random.Random, data: Values, slots: int, scatter: bool, trouble: float
) -> list[list[Packet]]:
    """All ranks send int32[ranks, rounds, values]; what each rank gets, by round.

    A packet on any link is lost, doubled, damaged or overtaken with probability ``trouble``. A rank
    sends round r when it has the result of round r - ``slots``; what it waits for, it sends again.
    """
    ranks, rounds, _ = data.shape
    results: list[dict[int, Packet]] = [{} for _ in range(ranks)]
    sent = [0] * ranks
    wire: list[tuple[int, int, bytes]] = []

    def contribute(rank: int, number: int) -> None:
        owner = number % ranks
        bare = scatter and owner == rank
        values = None if bare else tuple(data[rank, number].tolist())
        flags = SCATTER if scatter else 0
        packet = Packet(9, number, flags, owner, rank - number, values, 0x0A000001 + rank)
        wire.append((*tree.entry[rank], frame_of(packet)))

    for _ in range(100_000):
        for rank in range(ranks):
            while sent[rank] < rounds and (
                sent[rank] < slots or sent[rank] - slots in results[rank]
            ):
                contribute(rank, sent[rank])
                sent[rank] += 1
        if not wire:
            waiting = [
                (rank, number)
                for rank in range(ranks)
                for number in range(sent[rank])
                if number not in results[rank]
            ]
            if not waiting:
                return [[results[rank][i] for i in range(rounds)] for rank in range(ranks)]
            for rank, number in waiting:
                contribute(rank, number)
        at = rng.randrange(len(wire)) if rng.random() < trouble else 0
        switch, port, frame = wire.pop(at)
        if rng.random() < trouble:
            continue
        if rng.random() < trouble:
            wire.append((switch, port, frame))
        if rng.random() < trouble:
            damaged = bytearray(frame)
            damaged[rng.randrange(51, len(frame))] ^= 1 << rng.randrange(8)
            frame = bytes(damaged)
        for out, made in tree.switches.receive(switch, port, frame):
            kind, number, into = tree.links[switch, out]
            if kind == "switch":
                wire.append((number, into, made))
            elif rng.random() >= trouble:
                result = packet_of(made)
                assert result.flags & RESULT and result.ttl == 64
                known = results[number].setdefault(result.round, result)
                assert replace(known, source_port=0) == replace(result, source_port=0)
    raise AssertionError("the ranks wait for ever")


@pytest.mark.parametrize("shape", [ONE, TWO, THREE], ids=["one level", "two", "three"])
@given(seed=st.integers(0, 1 << 32), scatter=st.booleans(), trouble=st.sampled_from([0, 0.05, 0.2]))
def test_every_value_is_added_exactly_once(
    shape: Shape, seed: int, scatter: bool, trouble: float
) -> None:
    ranks, rounds, slots = len(shape["ranks"]), 12, 2
    rng = np.random.default_rng(seed)
    data = rng.integers(-(1 << 27), 1 << 27, (ranks, rounds, 256))
    tree = Tree(shape, slots, 256)
    found = run(tree, random.Random(seed), data, slots, scatter, trouble)
    for rank, results in enumerate(found):
        for number, result in enumerate(results):
            total = data[:, number].sum(axis=0)
            assert result.exponent == ranks - 1 - number
            assert not result.flags & SATURATED
            if not scatter:
                assert result.values == tuple(total.tolist())
            elif rank == number % ranks:
                assert result.values == tuple((total - data[rank, number]).tolist())
            else:
                assert result.values is None


@pytest.mark.parametrize("shape", [ONE, THREE], ids=["one level", "three"])
def test_a_sum_that_does_not_fit_is_the_greatest_number_and_says_so(shape: Shape) -> None:
    ranks = len(shape["ranks"])
    data = np.random.default_rng(1).integers(0, 1 << 31, (ranks, 1, 256))
    data[:, 0, :100] *= -1
    tree = Tree(shape, 1, 256)
    total = np.clip(data[:, 0].sum(axis=0), LEAST, MOST)
    for results in run(tree, random.Random(1), data, 1, False, 0.0):
        assert results[0].values == tuple(total.tolist())
        assert results[0].flags & SATURATED


def test_a_switch_has_up_to_64_children() -> None:
    place = Place(tuple(range(1, 65)))
    switches = Switches([place], 256)
    data = np.random.default_rng(2).integers(-1000, 1000, (64, 256))
    order = np.random.default_rng(3).permutation(64)
    for child in order[:-1]:
        frame = frame_of(Packet(9, 5, values=tuple(data[child].tolist())))
        assert switches.receive(0, int(child) + 1, frame) == []
    last = int(order[-1])
    frame = frame_of(Packet(9, 5, values=tuple(data[last].tolist())))
    sent = switches.receive(0, last + 1, frame)
    assert [port for port, _ in sent] == list(range(1, 65))
    assert {packet_of(made).values for _, made in sent} == {tuple(data.sum(axis=0).tolist())}


def test_what_is_not_whole_is_counted_and_not_added() -> None:
    switches = Switches([ROOT], 256)
    good = frame_of(Packet(9, 1, values=(1,) * 256))
    wrong = 0
    for at in [*range(51, 82), 500, len(good) - 1]:
        damaged = bytearray(good)
        damaged[at] ^= 0x10
        assert switches.receive(0, 1, bytes(damaged)) == []
        wrong += 1
    for frame in (good[:-1], good[:90], good[:60], good + b"\0"):
        assert switches.receive(0, 1, frame) == []
        wrong += 1
    assert switches.count("malformed") == wrong
    assert switches.count("contributions") == 0


def test_what_becomes_of_a_packet_is_counted_by_job() -> None:
    switches = Switches([Place((1, 2), parent=3)], 256)
    up = [frame_of(Packet(9, number, values=(number,) * 256)) for number in (8, 0)]
    down = frame_of(Packet(9, 8, RESULT, values=(5,) * 256))
    arrivals = [(1, up[0]), (1, up[0]), (1, up[1]), (2, up[0]), (1, up[0]), (3, down), (3, down)]
    arrivals += [(2, up[0]), (1, frame_of(Packet(7, 8))), (4, up[0])]
    for port, frame in arrivals:
        switches.receive(0, port, frame)
    expected = {
        "contributions": 2,
        "duplicates": 1,
        "late": 1,
        "resent_partials": 1,
        "results": 1,
        "unexpected": 2,
        "resent_results": 1,
        "other_epoch": 1,
        "malformed": 0,
        "saturated": 0,
    }
    assert {name: switches.count(name) for name in expected} == expected


def test_a_job_that_crashed_leaves_nothing_to_the_next() -> None:
    switches = Switches([ROOT], 256)
    switches.receive(0, 1, frame_of(Packet(9, 1000, values=(9,) * 256)))
    control = switches.controls[0]
    entry = control.entries("FabricIngress.aggregation.aggregation_job")[0]
    assert isinstance(entry.target, ActionCall)
    job, _, *others = entry.target.params
    target = ActionCall(entry.target.action, (job, 10, *others))
    control.modify_entry(replace(entry, target=target))
    control.publish()
    sent = []
    for port in (1, 2, 4):
        sent = switches.receive(0, port, frame_of(Packet(10, 0, values=(port,) * 256)))
    assert {packet_of(made).values for _, made in sent} == {(7,) * 256}


def test_the_program_takes_some_numbers_of_values_only() -> None:
    with pytest.raises(InputError, match="takes 16, 32, 64, 128 or 256"):
        fabric_macros(100)
