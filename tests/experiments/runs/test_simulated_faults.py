"""Faults by name in the simulated world: each does what it says, and operations live with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.support.simulated_support import Network, completion_ns, network

from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.sweep import read_file
from weft.switch.compiler import compile_cached
from weft.topo.clos import leaf_spine
from weft.topo.fabric_program import fabric_program
from weft.topo.faults import OPCODE_KINDS
from weft.topo.faults.packets import PACKET_ACTIONS

RANDOM_FAULTS_NS = 10_000_000_000
"""Of however many, beside the operation's own limit: with loss on every link, too, a retransmission
may be lost again and again, and the transport backs off up to 256 ms."""

SHARD_BYTES = 8000
"""Two chunks."""
ALGORITHMS = ("multicast", "ring")

ONE_FAULT_NS = 50_000_000
"""What one packet lost, damaged, doubled or late may cost: a retransmission timeout with its
back-off, or the cutoff and a fetch."""
TWO_LOST_NS = 150_000_000
"""Two may be a packet and its retransmission, or an activation that a cutoff waits for."""


@pytest.fixture(scope="module")
def small() -> Iterator[Network]:
    """4 ranks below two leaves and a spine."""
    with network(leaf_spine(2, 1, 2)) as made:
        yield made


def frames_of(net: Network, algorithm: str) -> int:
    """How many frames a faultless operation puts on all links together."""
    before = net.world.fabric.world.frames
    completion_ns(net.run(algorithm, SHARD_BYTES))
    return net.world.fabric.world.frames - before


def clean_ns(net: Network, algorithm: str) -> int:
    return completion_ns(net.run(algorithm, SHARD_BYTES))


@pytest.mark.parametrize("action", PACKET_ACTIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_one_packet_of_a_run_may_be_hit(small: Network, algorithm: str, action: str) -> None:
    bound_ns = clean_ns(small, algorithm) + ONE_FAULT_NS
    for number in range(1, frames_of(small, algorithm) + 1):
        line = f"*:{action}={number}"
        results = small.run(algorithm, SHARD_BYTES, [line])
        assert completion_ns(results) <= bound_ns, line
        assert small.world.faults_done == {line: 1}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_two_control_packets_may_be_lost(small: Network, algorithm: str) -> None:
    bound_ns = clean_ns(small, algorithm) + TWO_LOST_NS
    kind = "host_up:lose={},opcode=control"
    count = 0
    while True:
        small.run(algorithm, SHARD_BYTES, [kind.format(count + 1)])
        if not sum(small.world.faults_done.values()):
            break
        count += 1
    for first in range(1, count + 1):
        for second in range(first + 1, count + 1):
            lines = [kind.format(first), kind.format(second)]
            assert completion_ns(small.run(algorithm, SHARD_BYTES, lines)) <= bound_ns, lines


def test_a_lost_packet_is_counted_on_its_link(small: Network) -> None:
    before = small.world.fault_losses().get(("h1", "leaf0"), (0, 0))
    completion_ns(small.run("ring", SHARD_BYTES, ["h1>leaf0:lose=2"]))
    after = small.world.fault_losses()["h1", "leaf0"]
    assert after[0] - before[0] == 1
    assert after[1] - before[1] >= 60


def test_a_lost_chunk_is_fetched_by_those_who_miss_it(small: Network) -> None:
    results = small.run("multicast", SHARD_BYTES, ["leaf0>h0:lose,opcode=chunk,chunk=5"])
    completion_ns(results)
    assert [result.chunks_fetched for result in results] == [1, 0, 0, 0]


def test_multicast_is_for_him_whose_downlink_it_is_on(small: Network) -> None:
    results = small.run("multicast", SHARD_BYTES, ["*:lose=all,opcode=chunk,to=2"])
    completion_ns(results)
    assert [result.chunks_fetched for result in results] == [0, 0, 6, 0]


def test_a_corrupted_packet_is_found_by_its_icrc(small: Network) -> None:
    results = small.run("ring", SHARD_BYTES, ["leaf1>h2:corrupt=1-3"])
    completion_ns(results)
    assert [result.statistics["bad_icrc"] for result in results] == [0, 0, 3, 0]


def test_a_duplicate_arrives_twice(small: Network) -> None:
    results = small.run("multicast", SHARD_BYTES, ["leaf1>h3:duplicate=all,opcode=chunk"])
    completion_ns(results)
    assert [result.chunks_duplicate for result in results] == [0, 0, 0, 6]


def test_a_late_packet_makes_the_operation_late_by_as_much() -> None:
    with network(leaf_spine(1, 1, 2)) as net:
        clean = completion_ns(net.run("multicast", 4096))
        line = "leaf0>h0:delay=1,opcode=chunk,by=3ms"
        late = completion_ns(net.run("multicast", 4096, [line]))
    assert 2_500_000 <= late - clean <= 3_000_000


def test_a_swapped_packet_comes_behind_its_successor(small: Network) -> None:
    results = small.run("ring", 64_000, ["h0>leaf0:swap,opcode=rc_write_first"])
    completion_ns(results)
    assert sum(result.statistics["out_of_order_packets"] for result in results) >= 1


def test_an_outage_that_ends_is_lived_through(small: Network) -> None:
    for algorithm in ALGORITHMS:
        lines = ["leaf0-spine0:fail,at=1ms,for=40ms"]
        results = small.run(algorithm, SHARD_BYTES, lines)
        assert completion_ns(results) > 41_000_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("line", ["spine0:fail,at=1ms", "h3-leaf1:fail,after=5,rank=3"])
def test_what_is_cut_off_for_good_ends_in_an_error_on_every_rank(
    small: Network, algorithm: str, line: str
) -> None:
    before_ns = small.world.now_ns
    results = small.run(algorithm, SHARD_BYTES, [line])
    assert all(not result.verified and result.error for result in results)
    assert small.world.now_ns - before_ns < 12_000_000_000


def test_a_killed_rank_is_found_out_by_the_others(small: Network) -> None:
    results = small.run("ring", 64_000, ["h3:kill,at=1ms"])
    assert results[3].error == "killed 1000000 ns after the start"
    assert "lost rank 3" in results[0].error
    assert all(not result.verified for result in results)


def test_a_killed_rank_at_an_event(small: Network) -> None:
    results = small.run("multicast", 64_000, ["h1:kill,after=3,opcode=chunk,on=h1>leaf0,rank=1"])
    assert results[1].error.startswith("killed ")
    assert results[1].received_bytes < 3 * 64_000


def test_an_operation_after_faults_is_as_clean_as_before(small: Network) -> None:
    clean = clean_ns(small, "ring")
    small.run("ring", SHARD_BYTES, ["spine0:fail,at=1ms", "*:lose=1-20"])
    assert clean_ns(small, "ring") == clean


def fault_lines() -> st.SearchStrategy[str]:
    """Packet faults anywhere on a leaf-spine network of two leaves, and outages that end."""
    packets = st.builds(
        "{}:{}={},opcode={}".format,
        st.sampled_from(["*", "host_up", "host_down", "fabric_up", "h0>leaf0", "leaf1-spine0"]),
        st.sampled_from(PACKET_ACTIONS),
        st.integers(1, 80),
        st.sampled_from(sorted(OPCODE_KINDS)),
    )
    outages = st.builds(
        "{}:fail,at={}us,for={}us".format,
        st.sampled_from(["leaf0-spine0", "h1-leaf0", "h0>leaf0", "leaf1"]),
        st.integers(0, 5000),
        st.integers(1, 100_000),
    )
    return st.one_of(packets, packets, outages)


SCENARIO = """world = "simulated"
topology = "leaf-spine"
leaves = 2
spines = {spines}
hosts-per-leaf = {hosts}
mtu = 1024
algorithm = ["{algorithm}"]
size = {shard_bytes}
loss = {loss}
seed = {seed}
fault = {lines}
"""


@given(
    hosts=st.integers(1, 3),
    spines=st.integers(1, 2),
    algorithm=st.sampled_from(ALGORITHMS),
    shard_bytes=st.sampled_from([0, 1, 4096, 20_000]),
    loss=st.sampled_from([0.0, 0.0, 0.02]),
    lines=st.lists(fault_lines(), max_size=6),
    seed=st.integers(0, 1000),
)
def test_random_faults_on_random_networks_leave_every_byte_right(
    tmp_path_factory: pytest.TempPathFactory,
    hosts: int,
    spines: int,
    algorithm: str,
    shard_bytes: int,
    loss: float,
    lines: list[str],
    seed: int,
) -> None:
    if hosts == 1:
        lines = [line for line in lines if not line.startswith("h1-leaf0")]
    text = SCENARIO.format(**locals())
    note(f"A scenario file that does this, for `weft run FILE.toml`:\n{text}")
    file = tmp_path_factory.getbasetemp() / "scenario.toml"
    file.write_text(text)
    program = compile_cached(fabric_program())
    (point,) = read_file(file).points
    run = simulate(point.scenario, program, algorithm, 0, lambda fraction: None)
    assert run.verified, run.error
    assert run.completion_ns is not None and run.completion_ns < RANDOM_FAULTS_NS
