"""The aggregation queue pair: packets as the protocol has them, sums as numpy has them, pacing,
misuse; below a model of the switches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.aggregation_switches import JOB_ADDRESS, NONE, SCATTER, VALUES, Header, JobPlan
from tests.support.aggregation_workers import Array, Workers
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults
from tests.support.rocev2_packet import Packet

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES, Datagrams, ipv4, ipv4_text
from weft.agents.transport import (
    CompletionKind,
    DataKind,
    Endpoint,
    TransportMisuse,
    TransportOptions,
)
from weft.agents.transport.aggregation import scatter_order
from weft.agents.wire.headers import Opcode


def integers(size: int, count: int, seed: int = 1, most: int = 1 << 20) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.integers(-most, most, count).astype(np.int32) for _ in range(size)]


def headers(batch: Datagrams, values: int) -> list[Header]:
    return [Header.decode(Packet.decode(row.data).payload, values) for row in rows_of(batch)]


@pytest.mark.parametrize(
    ("size", "levels", "fan"), [(1, 1, 0), (2, 1, 0), (3, 1, 0), (5, 2, 2), (8, 3, 2), (17, 2, 4)]
)
def test_integers_are_summed_exactly_through_any_tree(size: int, levels: int, fan: int) -> None:
    workers = Workers(size, levels=levels, fan=fan)
    inputs = integers(size, 203)
    expected = np.sum(inputs, axis=0, dtype=np.int64)
    for result in workers.reduce(inputs):
        assert np.array_equal(result, expected)
    for switch in workers.network.switches:
        assert switch.duplicates == switch.late == switch.damaged == 0


def test_packets_are_those_of_the_protocol() -> None:
    workers = Workers(2, [JobPlan(epoch=7, slots=4, values=3)], rate_bps=0)
    workers.post([np.array([1, -2, 3, 4], np.int32)] * 2, number=0x01020304)
    sent = workers.hosts[1].transmit(0)
    assert len(sent) == 2
    sums = zip(rows_of(sent), ([1, -2, 3], [4, 0, 0]), strict=True)
    for number, (row, values) in enumerate(sums):
        assert (row.source, row.destination) == (ipv4("10.0.0.2"), JOB_ADDRESS)
        packet = Packet.decode(row.data, row.source, row.destination, row.source_port)
        assert packet.opcode is Opcode.UD_SEND_ONLY_WITH_IMMEDIATE
        assert packet.queue_pair == 0xFFFFFF
        assert packet.psn == number
        assert packet.qkey == 0x57454147
        assert packet.source_queue_pair == workers.pairs[0][1].number
        assert packet.immediate == 0x01020304
        found = Header.decode(packet.payload, 3)
        assert found == Header(7, number, VALUES, 0, NONE, tuple(values))


def test_scapy_reads_the_packets_and_computes_the_same_icrc() -> None:
    roce = pytest.importorskip("scapy.contrib.roce")
    inet = pytest.importorskip("scapy.layers.inet")
    workers = Workers(2, [JobPlan(values=3)], rate_bps=0)
    workers.post([np.arange(5, dtype=np.float32)] * 2)
    sent = rows_of(workers.hosts[0].transmit(0))
    assert len(sent) == 2
    for row in sent:
        made = (
            inet.IP(
                src=ipv4_text(row.source), dst=ipv4_text(row.destination), flags="DF", id=0
            )
            / inet.UDP(sport=row.source_port, dport=4791, chksum=0)
            / row.data
        )  # fmt: skip
        packet = inet.IP(bytes(made))
        transport = packet[roce.BTH]
        assert (transport.opcode, transport.dqpn) == (0x65, 0xFFFFFF)
        assert transport.icrc == int.from_bytes(row.data[-4:], "big")
        transport.icrc = None
        assert bytes(packet)[-4:] == row.data[-4:]


def test_an_operation_on_floats_begins_with_the_exponents_of_its_first_blocks() -> None:
    workers = Workers(2, [JobPlan(slots=4, values=2)], rate_bps=0)
    values = np.array([1, 2, 0.5, -0.25, 0, 0, 1e-3, 0, 3e38, 1], np.float32)
    workers.post([values] * 2)
    found = headers(workers.hosts[0].transmit(0), 2)
    exponents = [2, 0, NONE, -9]
    assert found == [
        Header(1, number, 0, 0, exponent, None) for number, exponent in enumerate(exponents)
    ]
    workers.network.run(lambda: workers.pairs[0][0].statistics.results == 4)
    found = headers(workers.hosts[0].transmit(workers.network.now_ns), 2)
    assert [header.exponent for header in found] == [128, NONE, NONE, NONE]
    assert found[0].values == (1 << 27, 1 << 28)


def test_a_worker_sends_no_round_before_it_has_the_result_of_its_slots_last() -> None:
    workers = Workers(3, [JobPlan(slots=4, values=2)], rate_bps=0)
    workers.post(integers(3, 100), ranks=[0])
    sent = headers(workers.hosts[0].transmit(0), 2)
    assert [header.round for header in sent] == [0, 1, 2, 3]
    assert not len(workers.hosts[0].transmit(1))


def test_a_reduce_scatters_blocks_go_round_robin_over_the_owners() -> None:
    owners, firsts = scatter_order([5, 0, 2, 7], 2)
    assert owners.tolist() == [0, 2, 3, 0, 3, 0, 3, 3]
    assert firsts.tolist() == [0, 5, 7, 2, 9, 4, 11, 13]
    workers = Workers(2, [JobPlan(slots=8, values=2)], rate_bps=0)
    posted, results = workers.post(integers(2, 5), shards=[2, 3])
    found = headers(workers.hosts[1].transmit(0), 2)
    assert [(header.owner, header.flags) for header in found] == [
        (0, SCATTER | VALUES), (1, SCATTER), (1, SCATTER),
    ]  # fmt: skip
    workers.run(posted)
    expected = sum(integers(2, 5))
    assert np.array_equal(np.concatenate(results), expected)


def test_operations_posted_together_follow_each_other_and_complete_in_order() -> None:
    workers = Workers(3)
    inputs = [integers(3, count, seed=count) for count in (90, 0, 1, 40, 200)]
    inputs += [integers(3, 7, seed=count) for count in range(60)]
    posted = [workers.post(each, number) for number, each in enumerate(inputs)]
    workers.run([reduction for reductions, _ in posted for reduction in reductions])
    for each, (_, results) in zip(inputs, posted, strict=True):
        for result in results:
            assert np.array_equal(result, sum(each))
    for completions in workers.completions:
        assert [done.context for done in completions] == list(range(len(inputs)))
        assert {done.kind for done in completions} == {CompletionKind.REDUCED}
    blocks = sum(-(-len(each[0]) // 4) for each in inputs)
    assert workers.pairs[0][0].statistics.rounds_sent == blocks


def test_rounds_leave_at_the_links_rate() -> None:
    rate_bps = 100_000_000
    workers = Workers(2, [JobPlan(slots=64, values=16)], rate_bps=rate_bps, keep_trace=True)
    inputs = integers(2, 16 * 512)
    start_ns = workers.network.now_ns
    posted, _ = workers.post(inputs)
    end_ns = workers.run(posted)
    frame = 12 + 8 + 4 + 16 + 64 + 4 + FRAME_OVERHEAD_BYTES
    least_ns = 512 * frame * 8 * 1_000_000_000 // rate_bps
    assert least_ns < end_ns - start_ns < 1.02 * least_ns + 100_000
    assert workers.hosts[0].statistics.transmitted_bytes == 512 * frame
    assert workers.pairs[0][0].statistics.rounds_repeated == 0


def test_sums_that_leave_the_range_stay_at_its_end_and_are_told() -> None:
    workers = Workers(3, [JobPlan(slots=4, values=2)])
    values = np.array([2**31 - 5, 1, 7, 7, -(2**31), 0], np.int32)
    posted, results = workers.post([values] * 3)
    workers.run(posted)
    for reduction, result in zip(posted, results, strict=True):
        assert result.tolist() == [2**31 - 1, 3, 21, 21, -(2**31), 0]
        assert reduction.saturated_blocks == 2
    assert workers.pairs[0][2].statistics.saturated_blocks == 2


def test_an_owner_that_adds_its_part_saturates_too() -> None:
    workers = Workers(2, [JobPlan(slots=4, values=2)])
    posted, results = workers.post([np.full(8, 2**30, np.int32)] * 2, shards=[4, 4])
    workers.run(posted)
    for reduction, result in zip(posted, results, strict=True):
        assert result.tolist() == [2**31 - 1] * 4
        assert reduction.saturated_blocks == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_block_with_a_number_that_is_not_finite_is_nan_and_no_other_is(bad: float) -> None:
    workers = Workers(3)
    inputs = [np.ones(100, np.float32) for _ in range(3)]
    inputs[1][77] = bad
    good, _ = workers.post([np.ones(10, np.float32)] * 3, 4)
    posted, results = workers.post(list(inputs), 5)
    later, others = workers.post([np.ones(10, np.float32)] * 3, 6)
    workers.run([*posted, *later])
    assert all(reduction.done for reduction in [*good, *posted, *later])
    for result in results:
        nan = np.isnan(result)
        assert nan[77] and not nan.all() and np.all(result[~nan] == 3)
        assert np.array_equal(nan, np.isnan(results[0]))
    assert all(np.all(other == 3) for other in others)


def test_a_job_of_which_nothing_comes_is_given_up_with_its_name() -> None:
    workers = Workers(2, options=TransportOptions(give_up_ns=100_000_000))
    posted, _ = workers.post(integers(2, 50), ranks=[0])
    end_ns = workers.run(posted)
    assert posted[0].error == (
        "nothing came from the switches of aggregation job 239.255.0.1 (epoch 1) for 0.4 s: they"
        " have no entries for it, or a worker sent nothing for so long"
    )
    assert 400_000_000 <= end_ns < 700_000_000
    assert workers.hosts[0].deadline() is None


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_job_that_is_stopped_sends_nothing_of_what_was_posted(has_begun: bool) -> None:
    """Also of an operation that was posted just before, whose memory is of no use any more."""
    workers = Workers(2, [JobPlan(slots=4, values=2)], rate_bps=0)
    workers.post(integers(2, 6), ranks=[0])
    if has_begun:
        assert len(workers.hosts[0].transmit(0))
        workers.post(integers(2, 100), ranks=[0])
    pair = workers.pairs[0][0]
    pair.stop("an operation was given up")
    assert not len(workers.hosts[0].transmit(1))
    assert workers.hosts[0].deadline() is None
    assert pair._job.state.opened_work == int(has_begun), "it was looked at nevertheless"


def test_a_worker_that_comes_late_is_waited_for() -> None:
    workers = Workers(3)
    inputs = integers(3, 300)
    early, first = workers.post(inputs, ranks=[0, 1])
    workers.network.run(lambda: workers.network.now_ns > 3_000_000_000)
    late, second = workers.post(inputs, ranks=[2])
    workers.run([*early, *late])
    for result in [*first, *second]:
        assert np.array_equal(result, sum(inputs))
    # Backing off, each slot repeats every 256 ms at most.
    assert workers.pairs[0][0].statistics.rounds_repeated < 8 * 20


def test_a_lost_packet_that_others_overtake_is_sent_again_without_a_timeout() -> None:
    inputs = integers(4, 4 * 100)
    clean = Workers(4)
    without_ns = clean.run(clean.post(inputs)[0])
    for number in (50, 53, 111, 200):
        workers = Workers(4, faults=Faults(lose={number}))
        posted, results = workers.post(inputs)
        end_ns = workers.run(posted)
        assert all(np.array_equal(result, sum(inputs)) for result in results)
        assert end_ns < 1.2 * without_ns
        assert sum(host.statistics.timeouts for host in workers.hosts) == 0
        repeated = sum(pair.statistics.rounds_repeated for pair in workers.pairs[0])
        assert 1 <= repeated <= 4


def test_the_last_packet_is_sent_again_after_one_timeout() -> None:
    inputs = integers(4, 4 * 100)
    clean = Workers(4)
    clean.run(clean.post(inputs)[0])
    workers = Workers(4, faults=Faults(lose={clean.network.delivered - 1}))
    posted, results = workers.post(inputs)
    end_ns = workers.run(posted)
    assert all(np.array_equal(result, sum(inputs)) for result in results)
    assert 5_000_000 <= end_ns < 30_000_000
    assert sum(pair.statistics.rounds_repeated for pair in workers.pairs[0]) == 1


def test_loss_costs_little_time() -> None:
    plan = JobPlan(slots=64, values=16)
    inputs = integers(8, 16 * 640)
    times = []
    for loss in (0.0, 0.01):
        workers = Workers(8, [plan], rate_bps=10**8, faults=Faults(loss=loss, seed=2))
        posted, results = workers.post(inputs)
        times.append(workers.run(posted))
        assert all(np.array_equal(result, sum(inputs)) for result in results)
    # A few timeouts at the end, when no later result can tell of a loss.
    assert times[1] < 1.5 * times[0] + 40_000_000


def test_results_that_begin_to_take_longer_do_not_make_every_round_go_twice() -> None:
    workers = Workers(3, [JobPlan(slots=16, values=4)])
    inputs = integers(3, 4 * 1600)
    posted, results = workers.post(inputs)
    workers.network.run(lambda: posted[0].remaining < 1500)
    workers.network.delay_ns = 30_000_000
    workers.run(posted)
    assert all(np.array_equal(result, sum(inputs)) for result in results)
    counted = workers.pairs[0][0].statistics
    assert counted.rounds_repeated < 0.25 * counted.rounds_sent


def test_a_job_does_not_take_packets_of_others_or_damaged_ones() -> None:
    workers = Workers(2)
    host, pair = workers.hosts[0], workers.pairs[0][0]
    result = np.zeros(4, np.int32)
    pair.post_reduction(np.ones(4, np.int32), result, DataKind.INT32, 0)
    host.transmit(0)
    good = Header(1, 0, 1 | 2, 0, NONE, (1, 2, 3, 4))

    def arrive(header: Header, *, damage: int = 0, group: int = JOB_ADDRESS) -> None:
        source = ipv4("10.254.0.1")
        payload = header.encode()[: len(header.encode()) - damage]
        packet = Packet(
            Opcode.UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFFFF, 0, qkey=0x57454147, payload=payload
        )
        row = packet.encode(source, group, 0xC000)
        host.receive(batch_of([Datagram(source, group, 0xC000, 0, row)]), 10)

    arrive(Header(2, 0, 1 | 2, 0, NONE, (9, 9, 9, 9)))
    assert pair.statistics.other_epoch == 1
    arrive(Header(1, 0, 1, 0, NONE, (9, 9, 9, 9)))
    arrive(Header(1, 0, 2, 0, NONE, None))
    arrive(good, damage=4)
    arrive(good, damage=26)
    assert pair.statistics.malformed == 4
    arrive(good, group=JOB_ADDRESS + 1)
    assert host.statistics.unknown_queue_pair == 1
    arrive(Header(1, 8, 1 | 2, 0, NONE, (9, 9, 9, 9)))
    assert pair.statistics.duplicate_results == host.statistics.duplicate_packets == 1
    for exponent in (1000, -1000):
        arrive(Header(1, 0, 1 | 2, 0, exponent, (9, 9, 9, 9)))
    assert pair.statistics.malformed == 6
    assert not result.any()
    arrive(good)
    assert result.tolist() == [1, 2, 3, 4]
    arrive(Header(1, 0, 1 | 2, 0, NONE, (9, 9, 9, 9)))
    assert pair.statistics.duplicate_results == host.statistics.duplicate_packets == 2
    assert result.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": ipv4("10.0.0.1")}, "10.0.0.1 is no multicast address"),
        ({"epoch": 0}, "epoch 0"),
        ({"slots": 6}, "6 slots: a power of 2"),
        ({"slots": 0}, "0 slots"),
        ({"values": 65}, "65 values a packet: 1 to 64"),
        ({"values": 0}, "0 values"),
        ({"rank": 2}, "rank 2 of 2"),
        ({"ranks": 0}, "rank 0 of 0"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(change: dict[str, int], words: str) -> None:
    host = Endpoint(ipv4("10.0.0.1"), 256)
    job: dict[str, Any] = {
        "address": JOB_ADDRESS,
        "epoch": 1,
        "slots": 8,
        "values": 4,
        "ranks": 2,
        "rank": 0,
    }
    with pytest.raises(TransportMisuse, match=words):
        host.create_aggregation(**{**job, **change})
    assert host.groups == []
    host.create_aggregation(**job)
    assert host.groups == [JOB_ADDRESS]
    with pytest.raises(TransportMisuse, match=r"239\.255\.0\.1 is the address of another job"):
        host.create_aggregation(**job)


def test_arrays_that_do_not_fit_are_refused() -> None:
    pair = Workers(2).pairs[0][0]
    eight, four = np.zeros(8, np.int32), np.zeros(4, np.int32)
    with pytest.raises(TransportMisuse, match="it needs 8 that may be written"):
        pair.post_reduction(eight, four, DataKind.INT32, 0)
    with pytest.raises(TransportMisuse, match="are no 2 shards"):
        pair.post_reduction(eight, four, DataKind.INT32, 0, shards=[4, 3])
    with pytest.raises(TransportMisuse, match="FLOAT16 needs contiguous ones of 2 bytes"):
        pair.post_reduction(eight, eight.copy(), DataKind.FLOAT16, 0)
    with pytest.raises(TransportMisuse, match="contiguous: False"):
        pair.post_reduction(eight[::2], four, DataKind.INT32, 0)
    with pytest.raises(TransportMisuse, match="overlap"):
        pair.post_reduction(eight, eight, DataKind.INT32, 0)
    with pytest.raises(TransportMisuse, match="does not fit 32 bits"):
        pair.post_reduction(four, four.copy(), DataKind.INT32, 1 << 32)
    assert pair.outstanding == 0
