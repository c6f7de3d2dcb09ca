"""Aggregation in switches under loss, duplication, damage, lateness and worse: every value is added
exactly once, and who cannot go on says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregation_group import SwitchGroup
from tests.support.aggregation_switches import JOB_ADDRESS, NONE, Header, JobPlan
from tests.support.aggregation_workers import Array, Workers
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.memory_network import Faults
from tests.support.rocev2_packet import Packet

from weft.agents.collectives.agent import Done, Failed
from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.transport import DataKind, Endpoint, TransportOptions
from weft.agents.transport.aggregation_layout import Slot
from weft.agents.wire.headers import Opcode

DTYPES = ("int32", "float32", "float16", "bfloat16")


def whole_numbers(size: int, count: int, name: str, seed: int = 1) -> list[Array]:
    """So small that every type's sums are exact."""
    random = np.random.default_rng(seed)
    return [random.integers(-7, 8, count).astype(dtype_of(name)) for _ in range(size)]


def check_sums(inputs: list[Array], results: list[Array]) -> None:
    expected = np.sum([each.astype(np.float64) for each in inputs], axis=0)
    for result in results:
        assert np.array_equal(result.astype(np.float64), expected)


@st.composite
def faults(draw: st.DrawFn) -> Faults:
    """Chances, and how late what is late comes: up to many rounds."""
    chance = st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.25])
    return Faults(
        loss=draw(chance),
        duplication=draw(chance),
        corruption=draw(chance),
        lateness=draw(chance),
        late_ns=draw(st.sampled_from([20_000, 100_000, 5_000_000, 60_000_000])),
        seed=draw(st.integers(0, 1 << 32)),
    )


@given(
    size=st.sampled_from([1, 2, 3, 5, 7]),
    tree=st.sampled_from([(1, 0), (2, 2), (2, 3), (3, 2)]),
    slots=st.sampled_from([1, 2, 8]),
    faults=faults(),
    data=st.data(),
)
def test_every_value_is_added_exactly_once_whatever_happens(
    size: int, tree: tuple[int, int], slots: int, faults: Faults, data: st.DataObject
) -> None:
    plan = JobPlan(slots=slots, values=3)
    # Where two packets in five are lost on every link, nothing may come for many seconds.
    patient = TransportOptions(give_up_ns=10**13)
    workers = Workers(size, [plan], levels=tree[0], fan=tree[1], faults=faults, options=patient)
    posted, expected = [], []
    for number in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(DTYPES))
        scatter = data.draw(st.booleans())
        if scatter:
            shards = data.draw(st.lists(st.integers(0, 20), min_size=size, max_size=size))
        count = sum(shards) if scatter else data.draw(st.integers(0, 60))
        inputs = whole_numbers(size, count, name, number)
        reductions, results = workers.post(inputs, number, shards=shards if scatter else None)
        posted += reductions
        expected.append((inputs, results, scatter))
    workers.run(posted, 10**13)
    assert not any(reduction.error for reduction in posted)
    for inputs, results, scatter in expected:
        check_sums(inputs, [np.concatenate(results)] if scatter else results)


@given(
    size=st.integers(2, 5),
    tree=st.sampled_from([(1, 0), (2, 2)]),
    slots=st.sampled_from([1, 2, 8]),
    faults=faults(),
    data=st.data(),
)
def test_a_job_that_moves_to_other_switches_goes_on_where_it_was(
    size: int, tree: tuple[int, int], slots: int, faults: Faults, data: st.DataObject
) -> None:
    """Switches forget all, ranks hear of it at different times, and those that are done with a
    reduction have written over its values."""
    plan = JobPlan(slots=slots, values=3)
    patient = TransportOptions(give_up_ns=10**13)
    workers = Workers(
        size, [plan], levels=tree[0], fan=tree[1], faults=faults, options=patient, may_move=True
    )
    posted, expected = [], []
    for number in range(3):
        name = data.draw(st.sampled_from(DTYPES))
        inputs = whole_numbers(size, data.draw(st.integers(0, 60)), name, number)
        reductions, results = workers.post([each.copy() for each in inputs], number)
        posted += reductions
        expected.append((inputs, results))
    network, pairs = workers.network, workers.pairs[0]

    def until(time_ns: int) -> None:
        def over() -> bool:
            for reduction in posted:
                if reduction.done:
                    reduction._arrays[0].view(np.uint8)[:] = 0xEE
            for host in workers.hosts:
                host.poll()
            return network.now_ns >= time_ns or all(each.done for each in posted)

        network.run(over)

    for epoch in range(2, 2 + data.draw(st.integers(1, 3))):
        until(network.now_ns + data.draw(st.integers(0, 2_000_000)))
        network.renew(replace(plan, epoch=epoch, was_moved=True))
        for rank in data.draw(st.permutations(range(size))):
            until(network.now_ns + data.draw(st.integers(0, 500_000)))
            pairs[rank].move(epoch)
    while not all(each.done for each in posted) and network.now_ns < 10**13:
        until(network.now_ns + 1_000_000_000)
        for pair in pairs:  # what a rank has repeated that waits for nothing may be lost
            pair.move(epoch)
    assert all(each.done for each in posted)
    for inputs, results in expected:
        check_sums(inputs, results)


def test_a_slot_may_be_many_rounds_behind_the_one_that_agrees_on_its_exponent() -> None:
    lost = Faults(loss=1.0, only=lambda datagram, _: datagram.data[11] == 1)
    workers = Workers(2, [JobPlan(slots=2, values=3)], faults=lost)
    inputs = [whole_numbers(2, count, "float32", count) for count in (60, 2)]
    posted = [workers.post(each, number) for number, each in enumerate(inputs)]
    workers.network.run(lambda: workers.network.now_ns > 50_000_000)
    assert workers.pairs[0][0].statistics.results > 10
    lost.loss = 0.0
    workers.run([reduction for reductions, _ in posted for reduction in reductions])
    for each, (_, results) in zip(inputs, posted, strict=True):
        check_sums(each, results)


@pytest.mark.parametrize("fault", ["lose", "duplicate", "corrupt", "late"])
@pytest.mark.parametrize("name", ["int32", "float32"])
def test_one_packet_may_have_any_accident_anywhere(fault: str, name: str) -> None:
    plan = JobPlan(slots=2, values=3)
    inputs = whole_numbers(3, 13, name)
    clean = Workers(3, [plan], levels=2, fan=2)
    clean.reduce(inputs)
    for number in range(clean.network.delivered):
        how = Faults(**{fault: {number}}, late_ns=37_000_000)  # type: ignore[arg-type]
        workers = Workers(3, [plan], levels=2, fan=2, faults=how)
        posted, results = workers.post(inputs)
        workers.run(posted)
        check_sums(inputs, results)


@pytest.mark.parametrize("lost", [(0, 1), (1, 0)])
def test_a_direction_that_loses_for_a_while_is_made_up_for(lost: tuple[int, int]) -> None:
    up = lost[0] == 0
    switch = ipv4("10.254.0.1")
    dead = Faults(loss=1.0, only=lambda _, receiver: (receiver == switch) == up)
    workers = Workers(3, faults=dead)
    inputs = whole_numbers(3, 100, "float32")
    posted, results = workers.post(inputs)
    workers.network.run(lambda: workers.network.now_ns > 300_000_000)
    dead.loss = 0.0
    end_ns = workers.run(posted)
    check_sums(inputs, results)
    assert end_ns < 1_500_000_000


def test_packets_that_come_rounds_too_late_change_nothing() -> None:
    kept: list[Datagram] = []

    def keep(datagram: Datagram, receiver: int) -> bool:
        kept.append(datagram)
        return False

    workers = Workers(2, faults=Faults(only=keep), keep_trace=True)
    first = whole_numbers(2, 200, "int32", 1)
    check_sums(first, workers.reduce(first))
    second = whole_numbers(2, 200, "int32", 2)
    posted, results = workers.post(second, 1)
    again = list(kept)
    switch = workers.network.switches[0]
    for datagram in again:
        port = 0 if datagram.source == workers.hosts[0].address else 1
        switch.receive(port, datagram)
        for host in workers.hosts:
            if datagram.source == switch.address:
                host.receive(batch_of([datagram]), workers.network.now_ns)
    workers.run(posted)
    check_sums(second, results)
    assert switch.late > 0
    assert workers.pairs[0][0].statistics.duplicate_results > 0


def set_rounds(workers: Workers, first: int) -> None:
    """Let the next round of a job of 4 slots, in which nothing is under way, have a number that is
    a multiple of 4."""
    for host, pair in zip(workers.hosts, workers.pairs[0], strict=True):
        row = host.row_of(0)
        row.posted_end = row.send_highest = pair._job.state.opened = first
        for number in range(4):
            Slot.at(pair._job.state.slot_table, number).round = first + number


@pytest.mark.parametrize("bits", [32, 48])
def test_rounds_go_on_past_32_and_48_bits(bits: int) -> None:
    workers = Workers(3, [JobPlan(slots=4, values=2)], faults=Faults(loss=0.05, seed=3))
    first = (1 << bits) - 20
    set_rounds(workers, first)
    for number, name in enumerate(DTYPES):
        inputs = whole_numbers(3, 50, name)
        check_sums(inputs, workers.reduce(inputs, number))
    assert workers.hosts[0].row_of(0).posted_end > 1 << bits


def test_results_of_2_to_the_32_rounds_ago_are_not_taken() -> None:
    workers = Workers(3, [JobPlan(slots=4, values=2)], keep_trace=True)
    first = whole_numbers(3, 50, "int32", 1)
    check_sums(first, workers.reduce(first))
    network = workers.network
    addresses = {host.address for host in workers.hosts}
    old = [datagram for _, _, datagram in network.trace if datagram.source not in addresses]
    set_rounds(workers, 1 << 32)
    second = whole_numbers(3, 50, "int32", 2)
    posted, results = workers.post(second, 1)

    def ended() -> bool:
        for host in workers.hosts:
            host.receive(batch_of(old), network.now_ns)
            host.poll()
        return all(reduction.done for reduction in posted)

    network.run(ended, 10_000_000_000)
    check_sums(second, results)
    assert workers.pairs[0][0].statistics.duplicate_results >= len(old)


def test_a_worker_that_stalls_is_waited_for() -> None:
    group = SwitchGroup(5, levels=2, fan=2)
    group.pause(2, 300_000, 1_500_000_000)
    numbers = [
        group.start(Request(0, collective, "switch", 1000, dtype="float32"))
        for collective in ("allreduce", "reduce-scatter")
    ]
    for event in group.finish(10_000_000_000, operations=2):
        assert isinstance(event, Done), event.error
        assert event.finished_ns > 1_500_000_000
    for number in numbers:
        group.verify(number)


def test_a_worker_that_begins_late_is_waited_for() -> None:
    group = SwitchGroup(3)
    number = group.start(Request(0, "allreduce", "switch", 1000, dtype="float16"), [0, 2])
    group.network.run(lambda: group.network.now_ns > 4_000_000_000)
    group.start_on(1, number)
    for event in group.finish(10_000_000_000):
        assert isinstance(event, Done), event.error
    group.verify()


@pytest.mark.parametrize("count", [40, 4000])
def test_every_rank_names_one_that_dies(count: int) -> None:
    group = SwitchGroup(6, levels=2, fan=3)
    group.pause(4, 20_000, 1 << 60)
    group.start(Request(0, "allreduce", "switch", count, dtype="float32"))
    ranks = [rank for rank in range(6) if rank != 4]
    for event in group.finish(10_000_000_000, ranks):
        assert isinstance(event, Failed)
        assert "lost rank 4 (10.0.0.5)" in event.error
        assert "results of the switches of aggregation job 239.255.0.1" in event.error
        assert event.finished_ns < 3_100_000_000


def test_switches_that_do_nothing_are_named_before_the_time_is_over() -> None:
    group = SwitchGroup(3)
    for switch in group.network.switches:
        switch.jobs = {}
    group.start(Request(0, "reduce-scatter", "switch", 100, dtype="int32"))
    for event in group.finish(20_000_000_000):
        assert isinstance(event, Failed)
        assert "nothing came from the switches of aggregation job 239.255.0.1 (epoch 1)" in (
            event.error
        )
        assert event.finished_ns < 8_500_000_000


@pytest.mark.parametrize("until_ns", [30_000, 200_000, 1_000_000])
def test_a_job_that_crashed_leaves_nothing_to_the_next(until_ns: int) -> None:
    plan = JobPlan(slots=4, values=4)
    late = Faults(lateness=0.3, late_ns=400_000, seed=1)
    crashed = Workers(4, [plan], levels=2, fan=2, faults=late)
    crashed.post(whole_numbers(4, 3000, "int32"))
    crashed.network.run(lambda: crashed.network.now_ns > until_ns)
    assert any(not row.final for each in crashed.network.switches for row in each.rows.values())
    network = crashed.network
    workers = Workers(4, [replace(plan, epoch=2)], levels=2, fan=2)
    network.hosts[:] = workers.hosts
    network.renew(replace(plan, epoch=2))
    workers.network = network
    inputs = whole_numbers(4, 500, "float32", 2)
    posted, results = workers.post(inputs)
    workers.run(posted)
    check_sums(inputs, results)


def test_jobs_in_disjoint_pools_do_not_meet() -> None:
    plans = [
        JobPlan(JOB_ADDRESS + index, epoch=5 - index, slots=4, values=3, pool_base=8 * index)
        for index in range(3)
    ]
    chances = Faults(loss=0.03, duplication=0.03, seed=4)
    workers = Workers(4, plans, levels=2, fan=2, faults=chances)
    assert workers.hosts[0].groups == [JOB_ADDRESS, JOB_ADDRESS + 1, JOB_ADDRESS + 2]
    posted, expected = [], []
    for index, name in enumerate(("float32", "int32", "bfloat16")):
        inputs = whole_numbers(4, 150 + index, name, index)
        reductions, results = workers.post(inputs, job=index)
        posted += reductions
        expected.append((inputs, results))
    workers.run(posted)
    for inputs, results in expected:
        check_sums(inputs, results)


def test_a_stopped_job_sends_nothing_and_takes_nothing() -> None:
    workers = Workers(2)
    posted, results = workers.post(whole_numbers(2, 100, "int32"))
    workers.network.run(lambda: posted[0].remaining < 20)
    pair = workers.pairs[0][0]
    pair.stop("enough")
    before = results[0].copy()
    assert not len(workers.hosts[0].transmit(workers.network.now_ns))
    assert workers.hosts[0].deadline() is None
    workers.network.run(lambda: workers.network.now_ns > 50_000_000)
    assert np.array_equal(before, results[0])
    again = pair.post_reduction(np.zeros(1, np.int32), np.zeros(1, np.int32), DataKind.INT32, 1)
    assert again.error == "enough"


@given(
    payloads=st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.builds(
                lambda epoch, number, flags, owner, exponent, values: Header(
                    epoch, number, flags, owner, exponent, values
                ).encode(),
                st.sampled_from([1, 1, 1, 2]),
                st.one_of(st.integers(0, 20), st.integers(0, (1 << 48) - 1)),
                st.integers(0, 15),
                st.integers(0, 65535),
                st.sampled_from([NONE, 0, 3, 160, 161, -200, 32766, 32767]),
                st.one_of(st.none(), st.tuples(*[st.integers(-(1 << 31), (1 << 31) - 1)] * 3)),
            ),
        ),
        max_size=30,
    ),
    scatter=st.booleans(),
    name=st.sampled_from(DTYPES),
)
def test_any_bytes_from_outside_do_no_harm(payloads: list[bytes], scatter: bool, name: str) -> None:
    options = TransportOptions(give_up_ns=10_000_000)
    host = Endpoint(ipv4("10.0.0.1"), 256, options=options)
    pair = host.create_aggregation(JOB_ADDRESS, 1, slots=4, values=3, ranks=2, rank=0)
    inputs = whole_numbers(1, 20, name)[0]
    memory = np.full(4096, 0xEE, np.uint8)
    result = memory[1024 : 1024 + 20 * inputs.itemsize].view(inputs.dtype)
    mine = result[:7] if scatter else result
    kind = DataKind[name.upper()]
    reduction = pair.post_reduction(inputs, mine, kind, 0, shards=[7, 13] if scatter else None)
    source = ipv4("10.254.0.1")
    for now, payload in enumerate(payloads):
        host.transmit(now)
        packet = Packet(
            Opcode.UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFFFF, 0, qkey=0x57454147, payload=payload
        )
        data = packet.encode(source, JOB_ADDRESS, 0xC000)
        host.receive(batch_of([Datagram(source, JOB_ADDRESS, 0xC000, 0, data)]), now)
    host.poll()
    end = 1024 + mine.nbytes
    assert np.all(memory[:1024] == 0xEE)
    assert np.all(memory[end:] == 0xEE)
    assert 0 <= reduction.remaining <= reduction.rounds
    counted = pair.statistics
    taken = counted.results + counted.duplicate_results + counted.other_epoch + counted.malformed
    assert taken <= len(payloads)
    if not reduction.error:
        assert taken == len(payloads)
