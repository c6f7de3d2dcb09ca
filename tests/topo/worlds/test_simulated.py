"""The simulated world: verified operations, exact links, one trace for one seed."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.fault_lines import parse_faults
from tests.support.operations import gather
from tests.support.simulated_support import completion_ns, network

from weft.agents.transport import Endpoint
from weft.base.errors import InputError
from weft.tools.bench import benchmarks
from weft.tools.bench.simulator import Flow, clos, measure, permutation
from weft.topo.addresses import format_mac
from weft.topo.clos import fat_tree, leaf_spine, pods, single
from weft.topo.network import Topology
from weft.topo.worlds.simulated import fabric as simulated_fabric
from weft.topo.worlds.simulated.fabric import Fabric
from weft.topo.worlds.simulated.operation import SimulatedOperations, SimulatedProgress
from weft.topo.worlds.simulated.world import SimulatedWorld

ROOT = Path(__file__).resolve().parents[3]
KIB = 1024


@pytest.mark.parametrize("algorithm", ["multicast", "ring"])
@pytest.mark.parametrize(
    "topology",
    [
        leaf_spine(),
        single(5),
        fat_tree(4),
        fat_tree(4, 2),
        leaf_spine(3, 2, 1),
        single(1),
        pods(3, 1, 2, 3),
    ],
    ids=lambda topology: topology.describe(),
)
def test_an_allgather_is_verified_on_every_shape(topology: Topology, algorithm: str) -> None:
    with network(topology) as net:
        completion_ns(net.run(algorithm, 10_000))


@pytest.mark.parametrize("path_mtu", [256, 1024, 4096])
@pytest.mark.parametrize("shard_bytes", [0, 1, 255, 70_001])
def test_shards_of_any_size_in_packets_of_any_size(path_mtu: int, shard_bytes: int) -> None:
    with network(leaf_spine(2, 2, 2), path_mtu=path_mtu) as net:
        for algorithm in ("multicast", "ring"):
            completion_ns(net.run(algorithm, shard_bytes))


def test_completion_times_are_near_the_links_bounds() -> None:
    ranks, size = 8, 1 << 20
    bound_ns = size * (ranks - 1) * 8_000_000_000 // 100_000_000
    with network(leaf_spine()) as net:
        assert bound_ns <= completion_ns(net.run("multicast", size)) < bound_ns * 1.03
        assert bound_ns <= completion_ns(net.run("ring", size)) < bound_ns * 1.03
        assert (
            completion_ns(net.run("multicast", size, own={"chains": 2})) < bound_ns * 8 / 7 * 1.03
        )


def test_every_fabric_link_carries_a_shard_at_most_once() -> None:
    size = 256 * KIB
    with network(leaf_spine()) as net:
        before = net.controller.read_counters()
        completion_ns(net.run("multicast", size))
        after = net.controller.read_counters()
    for direction in net.world.topology.directions:
        sent = (after[direction.ends] - before[direction.ends]).tx_bytes
        most = {"host_up": 1, "host_down": 7}.get(direction.tier, 8)
        assert sent < most * size * 1.03 + 5_000, direction.name


def test_the_programs_counters_know_every_frame_of_every_link() -> None:
    with network(fat_tree(4)) as net:
        completion_ns(net.run("multicast", 50_000))
        counted = net.controller.read_counters().values()
        assert sum(link.tx_packets for link in counted) == net.world.fabric.world.frames
        assert set(net.world.host_queue_drops().values()) == {0}


def test_queues_drop_what_they_have_no_room_for_and_say_so() -> None:
    slow = leaf_spine(2, 1, 2, fabric_rate_bps=20_000_000, queue_bytes=20_000)
    with network(slow) as net:
        results = net.run("ring", 200_000)
        completion_ns(results)
        statistics = net.world.switch_statistics()
    ports = [port for switch in statistics["switches"] for port in switch["ports"]]
    assert all(port["queue_peak_bytes"] <= 20_000 for port in ports)
    dropped = sum(port["queue_drops"] for port in ports)
    assert dropped > 0
    assert sum(result.retransmitted_packets for result in results) >= dropped


def test_loss_repeats_with_its_seed_and_differs_with_another() -> None:
    def run(seed: int) -> tuple[str, int, int]:
        with network(leaf_spine(2, 1, 2), seed=seed, loss=0.02) as net:
            time_ns = completion_ns(net.run("ring", 100_000))
            lost = sum(link.lost_packets for link in net.controller.read_counters().values())
            return net.world.digest, time_ns, lost

    assert run(1) == run(1)
    assert run(1)[0] != run(2)[0]
    assert run(1)[2] > 0


DIGESTS = {
    ("multicast", 0.0, ""): "1a97d39b010a18e6ab0ea839d8cb4d0b",
    ("ring", 0.0, ""): "c0c1cbb92c0a79791b7e1ac3906e39a8",
    ("multicast", 0.03, ""): "bf8a5abf46d8f1ea0f5e99c23e63d68f",
    ("ring", 0.03, ""): "dc02df2ebe10c4a155c3db4c35d79813",
    ("multicast", 0.0, "*:swap=5-30"): "2c3f213d679622d1388199f29952a314",
    ("ring", 0.0, "leaf0-spine1:fail,at=1ms,for=20ms"): "3a45e69a96ef77a30b0ac6f401fcfb64",
}
"""Of operations with 20,000 bytes a rank on the default network. They change with the
protocol, the P4 program, the controller's plan and the switches' random(), and with nothing else:
not with machine, Python, numpy or hash seed. `python -m tests.topo.worlds.test_simulated` prints
them anew.
"""


def traces() -> dict[tuple[str, float, str], str]:
    found = {}
    for algorithm, loss, line in DIGESTS:
        with network(leaf_spine(), seed=7, loss=loss) as net:
            completion_ns(net.run(algorithm, 20_000, [line] if line else []))
            found[algorithm, loss, line] = net.world.digest
    return found


def test_traces_are_the_same_on_every_machine() -> None:
    assert traces() == DIGESTS


def test_traces_do_not_depend_on_hash_seeds() -> None:
    program = (
        "from tests.support.simulated_support import network, completion_ns\n"
        "from weft.topo.clos import leaf_spine\n"
        "with network(leaf_spine(), loss=0.01) as net:\n"
        "    completion_ns(net.run('multicast', 5000)); print(net.world.digest)\n"
    )
    found = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_it_needs_nothing_that_only_linux_has() -> None:
    program = (
        "import sys\n"
        "for name in ('mininet', 'fcntl', 'resource', 'termios', 'pwd'):\n"
        "    sys.modules[name] = None\n"
        "from tests.support.simulated_support import network\n"
        "from weft.topo.clos import leaf_spine\n"
        "with network(leaf_spine(1, 1, 2)) as net:\n"
        "    print(all(result.verified for result in net.run('ring', 1000)))\n"
        "wrong = [name for name in sys.modules\n"
        "         if name.startswith('weft.topo.worlds.emulated.world')\n"
        "         or name in ('weft.agents.drivers.udp', 'weft.switch.realtime.loop')]\n"
        "print(wrong)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True\n[]\n", done.stderr


def test_time_and_operations_go_on_in_one_world() -> None:
    with network(leaf_spine(1, 1, 2)) as net:
        first = completion_ns(net.run("ring", 1000))
        then_ns, digest = net.world.now_ns, net.world.digest
        assert completion_ns(net.run("ring", 1000)) == first
        assert net.world.now_ns > then_ns
        assert net.world.digest != digest


def test_progress_is_told() -> None:
    told: list[SimulatedProgress] = []
    with network(leaf_spine(2, 1, 4)) as net:
        operation = gather("ring", 1 << 18)
        net.world.run_operation(operation, told.append, groups=net.groups)
    assert told[-1].finished_ranks == 8
    assert told[-1].fraction == 1.0
    assert [one.now_ns for one in told] == sorted(one.now_ns for one in told)


def test_results_can_be_written_as_json() -> None:
    with network(single(2)) as net:
        result = net.run("multicast", 5000)[1]
    document = json.loads(json.dumps(result.__dict__))
    assert document["verified"] and document["host"] == "h1"
    assert document["statistics"]["refused_frames"] == 0


def test_wrong_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(operation: SimulatedOperations) -> None:
        operation._jobs[1][0].buffer.view(np.uint8)[5007] ^= 1

    monkeypatch.setattr(SimulatedOperations, "_check_ended", spoil)
    with network(leaf_spine(1, 1, 3)) as net:
        results = net.run("ring", 5000)
    assert [result.verified for result in results] == [True, False, True]
    assert results[1].error == "byte 7 of the shard of rank 1 is wrong"
    assert results[1].completion_ns == 0


def in_flight(fabric: Fabric, rank: int) -> bytes:
    """The frame that a host's uplink is sending."""
    port = fabric.dataplane.ports[fabric.host_index(rank)]
    packet = fabric.dataplane.memory.packets[port.under_way.head]
    row = fabric.dataplane.memory.buffers[packet.buffer]
    start = packet.frame
    return bytes(row[start : start + packet.frame_length])


def test_hosts_send_frames_as_a_linux_stack_makes_them() -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    world = SimulatedWorld(leaf_spine(2, 1, 1))
    hosts = world.topology.hosts
    flows = [Flow(Endpoint(host.address, rate_bps=10**8)) for host in hosts]
    pair, other = (flow.endpoint.create_rc(source_port=50_000, tos=2) for flow in flows)
    pair.connect(other.local)
    pair.post_send(b"12345")
    world.fabric.attach(dict(enumerate(flows)))
    world.fabric.run(stop_ns=0)
    frame = in_flight(world.fabric, 0)
    parsed = Ether(frame)
    built = (
        Ether(src=format_mac(hosts[0].mac), dst=format_mac(world.topology.leaf_of(0).mac))
        / IP(src=hosts[0].ip, dst=hosts[1].ip, id=0, flags="DF", ttl=64, tos=2)
        / UDP(sport=50_000, dport=4791, chksum=0)
        / bytes(parsed[UDP].payload)
    )
    assert bytes(built) == frame


def spoiled(frame: bytes, place: int, value: int) -> bytes:
    changed = bytearray(frame)
    changed[place] = value
    return bytes(changed)


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 0x04), (5, 9), (13, 0xDD), (14, 0x46), (20, 0x60), (23, 6), (24, 1), (37, 0), (40, 1)],
)
def test_a_host_refuses_frames_that_are_not_for_it_or_damaged(place: int, value: int) -> None:
    fabric = Fabric(single(2), host_queue_bytes=1 << 20)
    flow = Flow(Endpoint(fabric.topology.hosts[1].address))
    fabric.attach({1: flow})
    host = fabric.topology.hosts[1]
    head = struct.pack(
        ">HIHIHBBHHHBBHIIHHHH",
        *(host.mac >> 32, host.mac & 0xFFFFFFFF, 0x0600, 1, 0x0800, 0x45, 0, 28 + 20, 0, 0x4000),
        *(63, 17, 0, 0x0A000001, host.address, 50_000, 4791, 28, 0),
    )
    words = struct.unpack(">10H", head[14:34])
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    frame = head[:24] + struct.pack(">H", checksum) + head[26:] + bytes(20)
    for sent, refused in ((frame, 0), (spoiled(frame, place, value), 1)):
        fabric.inject(("leaf0", "h1"), sent)
        fabric.run(stop_ns=fabric.now_ns + 10_000_000)
        assert fabric.hosts["refused"][1] == refused
    assert flow.endpoint.statistics.received_packets == 1


def test_a_link_takes_as_long_as_its_rate_and_delay_say() -> None:
    topology = single(2, 10_000_000, delay_ns=1234)
    fabric = Fabric(topology, host_queue_bytes=1 << 20)
    for _ in range(2):
        fabric.inject(("leaf0", "h1"), bytes(1000))
    times = []
    for stop_ns in range(800_000, 1_700_000, 1):
        if stop_ns in (801_233, 801_234, 1_601_233, 1_601_234):
            fabric.run(stop_ns=stop_ns)
            times.append(fabric.world.frames)
    assert times == [0, 1, 1, 2]


def test_faults_that_do_not_fit_the_network_are_refused() -> None:
    faults = parse_faults(["spine1:fail,at=1ms"], leaf_spine())
    with pytest.raises(InputError, match="spine1"):
        SimulatedWorld(single(2), faults=faults)


def test_values_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="1500"):
        SimulatedWorld(single(2), path_mtu=1500)
    with pytest.raises(InputError, match="it must hold two frames"):
        SimulatedWorld(single(2), host_queue_bytes=5000)


def test_the_pools_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for packets in (64, 1 << 14):
        monkeypatch.setattr(simulated_fabric, "PACKETS", packets)
        with network(leaf_spine(1, 1, 12)) as net:
            completion_ns(net.run("ring", 200_000))
            found.add((net.world.digest, net.world.fabric.dataplane.memory.packet_count > packets))
    assert {grown for _, grown in found} == {True, False}
    assert len({digest for digest, _ in found}) == 1


def test_a_permutation_has_no_fixed_point() -> None:
    for size in (2, 3, 16, 100):
        target = permutation(size, 1)
        assert sorted(target) == list(range(size))
        assert all(peer != rank for rank, peer in enumerate(target))


def test_the_benchmarks_network_has_full_bisection() -> None:
    for hosts in (16, 32, 64, 128, 1024):
        topology = clos(hosts)
        assert len(topology.hosts) == hosts
        leaf = topology.switches_of("leaf")[0].name
        assert len(topology.outward(leaf)) == 2 * len(topology.hosts_of(leaf))


def test_the_benchmark_says_how_fast_it_is() -> None:
    figures = measure(hosts=[16], ranks=16)
    row = figures["permutation"][0]
    assert row["data_packets"] == 16 * 4096
    assert 0 < row["user_seconds"] < row["whole_user_seconds"]
    said = benchmarks.lines("simulator", figures)
    assert any(line.split()[:2] == ["16", "65536"] for line in said)
    assert "on 16 ranks, every byte verified" in said[-1]
    assert figures["htsim"] == [] and not any("htsim" in line for line in said)


if __name__ == "__main__":
    for key, digest in traces().items():
        print(f"    {key!r}: {digest!r},".replace("'", '"'))
