"""Queues' depths and loads over time: what switches count against what packets did."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engine_support import MBIT100, configure, make, packet
from tests.support.results_samples import sample_results

from weft.experiments.results.results import LinkResult, Results
from weft.experiments.results.telemetry import (
    FEWEST_BINS,
    MOST_FIGURES,
    first_bin_ns,
    merged,
    quantile,
    queue_figures,
    trimmed,
)
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import compile_cached
from weft.switch.engine.dataplane.layout import DEPTH_BUCKETS, LOAD_BINS
from weft.switch.engine.dataplane.telemetry import count_depth, depth_bytes, depths_of
from weft.switch.engine.switches import Queue
from weft.switch.realtime.config import ProcessConfig
from weft.switch.realtime.process import SwitchProcess
from weft.switch.realtime.statistics import StatisticsSocket
from weft.topo.fabric_program import fabric_program


def depths_one_by_one(arrivals: list[tuple[int, int]], rate_bps: int) -> list[int]:
    """What each packet finds waiting, by definition: those before it that have not begun."""
    found: list[int] = []
    begun: list[tuple[int, int]] = []
    free_ns = 0
    for now_ns, size in arrivals:
        found.append(sum(each for start_ns, each in begun if start_ns > now_ns))
        start_ns = max(free_ns, now_ns)
        begun.append((start_ns, size))
        free_ns = start_ns + size * 8 * 10**9 // rate_bps
    return found


ARRIVALS = st.lists(st.tuples(st.integers(0, 200_000), st.integers(100, 1500)), max_size=40)


@given(ARRIVALS)
def test_a_queue_counts_what_each_packet_found_waiting(arrivals: list[tuple[int, int]]) -> None:
    arrivals = sorted((now_ns, size) for now_ns, size in arrivals)
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    for now_ns, size in arrivals:
        dataplane.transmit(now_ns)
        dataplane.receive(0, 1, [packet("10.1.0.1", size=size)], now_ns)
    expected = np.zeros(200, np.int64)
    for waiting in depths_one_by_one(arrivals, MBIT100):
        expected[next(place for place in range(200) if depth_bytes(place) >= waiting)] += 1
    assert dataplane.queue_depths(0, 2) == depths_of(expected)
    assert dataplane.queue_depths(0, 3) == []
    dataplane.clear_depths()
    assert dataplane.queue_depths(0, 2) == []


@given(st.integers(0, 1 << 30))
def test_a_depth_is_known_within_an_eighth(waiting: int) -> None:
    dataplane = make()
    count_depth(dataplane.context, 2, waiting)
    [(size, packets)] = dataplane.queue_depths(0, 2)
    assert packets == 1
    assert waiting <= size < waiting * 9 / 8 + 64


@given(ARRIVALS, st.integers(1, 5000))
def test_bins_of_time_hold_what_a_link_carried_in_them(
    arrivals: list[tuple[int, int]], bin_ns: int
) -> None:
    arrivals = sorted(arrivals)
    begin_ns = 1000
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    dataplane.record_loads(begin_ns, bin_ns)
    left = []
    for now_ns, size in arrivals:
        left += dataplane.transmit(now_ns)
        dataplane.receive(0, 1, [packet("10.1.0.1", size=size)], now_ns)
    left += dataplane.transmit(10**12)
    wide_ns = dataplane.load_bin_ns
    expected: Counter[int] = Counter()
    for departure in left:
        size = len(departure.frame)
        takes_ns = size * 8 * 10**9 // MBIT100
        start_ns = departure.departure_ns - takes_ns - begin_ns
        if start_ns < 0:
            continue
        before = 0
        for place in range(start_ns // wide_ns, (start_ns + takes_ns - 1) // wide_ns + 1):
            past_ns = min((place + 1) * wide_ns - start_ns, takes_ns)
            expected[place] += size * past_ns // takes_ns - before
            before = size * past_ns // takes_ns
        assert before == size
    bins = dataplane.load_bytes(0, 2)
    assert {place: size for place, size in enumerate(bins) if size} == {
        place: size for place, size in expected.items() if size
    }
    doublings = wide_ns // bin_ns
    assert wide_ns == bin_ns * doublings and doublings & (doublings - 1) == 0
    if doublings > 1:  # no sooner than there was need to
        assert max(expected) >= LOAD_BINS // 2


def test_nothing_is_counted_before_it_is_asked_for_or_after_the_end() -> None:
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1")], 0)
    assert not any(dataplane.load_bytes(0, 2))
    dataplane.record_loads(10**6, 1000)
    dataplane.receive(0, 1, [packet("10.1.0.1")], 10**6)
    dataplane.end_loads()
    dataplane.receive(0, 1, [packet("10.1.0.1")], 2 * 10**6)
    assert sum(dataplane.load_bytes(0, 2)) == 100


def test_a_port_goes_on_at_another_rate() -> None:
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1")] * 2, 0)
    dataplane.set_rate(0, 2, MBIT100 // 4)
    left = dataplane.transmit(10**9)
    assert [each.departure_ns for each in left] == [8_000, 40_000]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=20))
def test_quantiles_are_those_of_all_packets(pairs: list[tuple[int, int]]) -> None:
    depths = merged([[pair] for pair in pairs])
    each = sorted(size for size, packets in pairs for _ in range(packets))
    for fraction in (0.01, 0.5, 0.99, 1.0):
        part = fraction * len(each)
        wanted = next(size for size in each if sum(one <= size for one in each) >= part)
        assert quantile(depths, fraction) == wanted
    assert quantile([], 0.5) == 0


def links(bins: list[list[int]]) -> list[LinkResult]:
    return [
        LinkResult("leaf0", f"spine{i}", "fabric_up", 1, sum(each), 0, 0, load_bytes=each)
        for i, each in enumerate(bins)
    ]


def test_bins_end_with_the_run_and_large_networks_have_longer_ones() -> None:
    found, bin_ns = trimmed(links([[1, 2, 3, 4, 0], [0, 0, 5, 0, 0]]), 10, 25)
    assert bin_ns == 10
    assert [link.load_bytes for link in found] == [[1, 2, 3], [0, 0, 5]]
    assert trimmed(links([[1, 2, 3, 4, 0]]), 10, None)[0][0].load_bytes == [1, 2, 3, 4]
    assert trimmed(links([[1, 2]]), 10, 31)[0][0].load_bytes == [1, 2, 0, 0]  # idle at the end
    assert trimmed(links([[0, 0]]), 10, 20) == (links([[]]), 0)
    assert trimmed(links([[]]), 0, 20) == (links([[]]), 0)
    many = links([[1] * 200] * 1000)
    found, bin_ns = trimmed(many, 10, 2000)
    count = len(found[0].load_bytes)
    assert FEWEST_BINS <= count <= MOST_FIGURES // 1000 and bin_ns == 40
    assert all(sum(link.load_bytes) == 200 for link in found)


def test_bins_are_chosen_for_the_least_time_of_a_run() -> None:
    assert first_bin_ns(128_000_000) == 1_000_000
    assert first_bin_ns(0) == 1_000


def test_a_runs_results_have_queues_and_loads_of_every_direction() -> None:
    scenario = Scenario(world="simulated", algorithms=("ring",), size_bytes=1 << 18)
    program = compile_cached(fabric_program())
    run = simulate(scenario, program, "ring", 0, lambda _: None)
    assert run.verified and run.completion_ns
    assert run.load_bin_ns
    for link in run.links:
        assert len(link.load_bytes) == -(-run.completion_ns // run.load_bin_ns)
        assert 0 <= link.tx_bytes - sum(link.load_bytes) <= link.tx_bytes // 100
        assert max(link.load_bytes) <= -(-run.load_bin_ns * scenario.rate_bps // (8 * 10**9)) + 1
        if link.tier == "host_up":
            assert link.queue_depths == []
        else:
            assert sum(packets for _, packets in link.queue_depths) == link.tx_packets
            deepest = link.max_queue_bytes or 0
            assert not link.tx_packets or link.queue_depths[-1][0] < deepest * 9 / 8 + 64
    assert run.queues == queue_figures(run.links)
    assert set(run.queues) == {"host_down", "fabric_up", "fabric_down"}


def test_results_with_distributions_read_back_with_a_line_for_each(tmp_path: Path) -> None:
    results = sample_results(algorithms=("ring",))
    run = results.runs[0]
    assert run.load_bin_ns and run.links[0].load_bytes
    text = results.write(tmp_path).read_text()
    assert Results.read(tmp_path) == results
    assert f'"load_bytes": [ {run.links[0].load_bytes[0]},' in text


def test_queue_depths_are_read_while_packets_are_counted() -> None:
    counts = np.zeros(DEPTH_BUCKETS, np.int64)
    ended = threading.Event()

    def count_packets() -> None:
        while not ended.is_set():
            counts[:] = 0
            for place in range(0, DEPTH_BUCKETS, 7):
                counts[place] = 5

    packets = threading.Thread(target=count_packets)
    packets.start()
    try:
        for _ in range(20_000):
            assert {count for _, count in depths_of(counts)} <= {5}
    finally:
        ended.set()
        packets.join()


def ask(path: str, request: bytes) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        data = b""
        while part := client.recv(65536):
            data += part
    answer = json.loads(data)
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The statistics socket of a process without ports, which goes with this one."""
    path = str(tmp_path_factory.mktemp("statistics") / "s.sock")
    StatisticsSocket(SwitchProcess(ProcessConfig((), None, 64, 64, 0)), path)
    return path


def test_a_switch_process_is_told_what_to_count_from_when_on(talker: str) -> None:
    assert ask(talker, b"loads 5000 77\n") == {}
    assert ask(talker, b"")["load_bin_ns"] == 77
    assert ask(talker, b"loads end\n") == {}
    assert "switches" in ask(talker, b"reset\n")
    assert ask(talker, b"rates\n") == {}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (b"loads\n", "not understood: reset, loads"),
        (b"loads 1 2 3\n", "not understood"),
        (b"loads 1 0\n", "no such times"),
        (b"loads 1 9999999999999999999\n", "no such times"),
        (b"rates leaf0 1 7\n", "there is no such port"),
        (b"rates leaf0 1\n", "not understood"),
        (b"\xff\xfe\n", "no text in UTF-8"),
        (b"reset now\n", "not understood"),
    ],
)
def test_what_it_does_not_understand_it_refuses(talker: str, request_: bytes, words: str) -> None:
    assert words in str(ask(talker, request_)["error"])


def test_what_fails_within_is_said_and_the_next_is_answered(
    talker: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(self: SwitchProcess) -> NoReturn:
        raise OSError(22, "no such clock")

    with monkeypatch.context() as patched:
        patched.setattr(SwitchProcess, "statistics", broken)
        assert ask(talker, b"") == {"error": "OSError: [Errno 22] no such clock"}
    assert "Traceback" in capfd.readouterr().err
    assert "switches" in ask(talker, b"")


@given(st.binary(max_size=40) | st.text("alopdsrtinkcue 0123-\n", max_size=40).map(str.encode))
def test_whatever_is_asked_an_answer_comes(talker: str, request_: bytes) -> None:
    assert "Error: " not in str(ask(talker, request_).get("error"))
