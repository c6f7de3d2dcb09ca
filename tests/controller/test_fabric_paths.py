"""Pinned paths, spraying and marks of congestion: what fabric.p4 does with packets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregation_support import icrc, internet_checksum
from tests.support.controller_networks import multicast
from tests.support.fabric import fabric_plan
from tests.support.p4runtime_support import FABRIC, Files, compile_with_p4c
from tests.support.path_networks import ACKNOWLEDGE, CE, ECT_0, ECT_1, NOT_ECT, Network, roce

from weft.controller import Plan
from weft.controller.features.aggregation import AggregationJob
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.controller.features.pinned_paths import Pin
from weft.controller.features.routes import PATHS, Paths
from weft.switch.engine.switches import Queue
from weft.topo.clos import fat_tree, leaf_spine, single
from weft.topo.faults import LinkLoss

FOUR = leaf_spine(3, 4, 2)
PODS = fat_tree(4)
IN_TURN: Paths = "spray-round-robin"
AT_RANDOM: Paths = "spray-random"


# -- pinned paths --------------------------------------------------------------------------------


def test_a_pinned_flow_takes_its_path_whatever_the_hash_or_spraying_says() -> None:
    pins = [Pin(0, 4, 1000 + path, path) for path in range(4)]
    for paths in PATHS:
        network = Network(FOUR, fabric_plan(FOUR, pins=pins, paths=paths))
        for pin in pins:
            for _ in range(3):
                frame = roce(FOUR, "h0", "h4", pin.source_port)
                spine = f"spine{pin.path}"
                assert network.path("h0", "h4", frame) == [
                    "h0>leaf0", f"leaf0>{spine}", f"{spine}>leaf2", "leaf2>h4",
                ]  # fmt: skip


def test_what_is_not_pinned_goes_as_without_pins() -> None:
    pins = [Pin(0, 4, port, 1) for port in range(1000, 1010)]
    pinned = Network(FOUR, fabric_plan(FOUR, pins=pins, paths="pinned"))
    plain = Network(FOUR, fabric_plan(FOUR))
    others = [
        ("h0", "h4", roce(FOUR, "h0", "h4", 2000)),
        ("h0", "h5", roce(FOUR, "h0", "h5", 1000)),
        ("h1", "h4", roce(FOUR, "h1", "h4", 1001)),
        ("h4", "h0", roce(FOUR, "h4", "h0", 1002)),
        *(("h0", "h4", roce(FOUR, "h0", "h4", port, udp_port=9)) for port in range(1000, 1010)),
    ]
    for source, destination, frame in others:
        there = source, destination, frame
        assert pinned.path(*there) == plain.path(*there)


def test_pins_of_a_fat_tree_lead_over_each_core_and_each_aggregation_switch_of_a_pod() -> None:
    pins = [Pin(0, 13, 3000 + core, core) for core in range(4)]
    pins += [Pin(0, 2, 4000 + agg, agg) for agg in range(2)]
    network = Network(PODS, fabric_plan(PODS, pins=pins, paths="pinned"))
    for core in range(4):
        path = network.path("h0", "h13", roce(PODS, "h0", "h13", 3000 + core))
        assert path[1:5] == [
            f"leaf0>agg{core // 2}", f"agg{core // 2}>core{core}",
            f"core{core}>agg{6 + core // 2}", f"agg{6 + core // 2}>leaf6",
        ]  # fmt: skip
    for agg in range(2):
        path = network.path("h0", "h2", roce(PODS, "h0", "h2", 4000 + agg))
        assert path[1:3] == [f"leaf0>agg{agg}", f"agg{agg}>leaf1"]


@pytest.mark.parametrize("dead", ["leaf0-spine1", "leaf2-spine1"])
def test_once_a_dead_link_is_known_it_carries_nothing_and_its_flows_go_by_ecmp(dead: str) -> None:
    pins = [Pin(0, 4, 1000 + number, number % 4) for number in range(40)]
    before = fabric_plan(FOUR, pins=pins, paths="pinned")
    network = Network(FOUR, before)
    network.controller.apply(fabric_plan(FOUR, pins=pins, paths="pinned", without=[dead]))
    for pin in pins:
        path = network.path("h0", "h4", roce(FOUR, "h0", "h4", pin.source_port))
        if pin.path == 1:
            assert path[1] != "leaf0>spine1"
        else:
            assert path[1] == f"leaf0>spine{pin.path}"
    for ends, counters in network.controller.read_counters().items():
        if set(ends) == set(dead.split("-")):
            assert counters.tx_packets == 0
    network.controller.apply(before)
    for pin in pins:
        path = network.path("h0", "h4", roce(FOUR, "h0", "h4", pin.source_port))
        assert path[1] == f"leaf0>spine{pin.path}"


# -- spraying ------------------------------------------------------------------------------------


def test_in_turn_every_uplink_carries_the_same_number_of_packets_of_every_kind() -> None:
    network = Network(FOUR, fabric_plan(FOUR, paths=IN_TURN))
    taken: Counter[tuple[int, str]] = Counter()
    for number in range(96):
        # Packets and acknowledgements alternate, as they do between busy hosts.
        opcode = ACKNOWLEDGE if number % 2 else 0x0A
        path = network.path("h0", "h4", roce(FOUR, "h0", "h4", opcode=opcode, psn=number))
        taken[opcode, path[1]] += 1
    assert len(taken) == 8
    assert set(taken.values()) == {12}


def test_in_turn_rounds_have_orders_of_their_own_and_each_has_every_uplink() -> None:
    network = Network(FOUR, fabric_plan(FOUR, paths=IN_TURN))
    orders = {}
    for source, destination in (("h0", "h4"), ("h2", "h4")):
        frame = roce(FOUR, source, destination)
        links = [network.path(source, destination, frame)[1] for _ in range(63)][31:]
        rounds = [tuple(links[at : at + 4]) for at in range(0, 32, 4)]
        assert all(len(set(one)) == 4 for one in rounds)
        assert len(set(rounds)) > 1
        orders[source] = [[link[-1] for link in one] for one in rounds]
    assert orders["h0"] != orders["h2"]


def test_at_random_uplinks_are_used_evenly_and_a_seed_repeats() -> None:
    def run(seed: int) -> list[str]:
        network = Network(FOUR, fabric_plan(FOUR, paths=AT_RANDOM), seed=seed)
        frame = roce(FOUR, "h0", "h4")
        return [network.path("h0", "h4", frame)[1] for _ in range(400)]

    links = run(1)
    counts = Counter(links)
    assert len(counts) == 4
    assert all(60 < count < 140 for count in counts.values())  # 100, sigma 8.7
    assert links == run(1)
    assert links != run(2)


def test_three_tiers_are_sprayed_at_the_leaf_and_above_it() -> None:
    network = Network(PODS, fabric_plan(PODS, paths=IN_TURN))
    frame = roce(PODS, "h0", "h13")
    cores = Counter(network.path("h0", "h13", frame)[2] for _ in range(64))
    assert set(cores.values()) == {16} and len(cores) == 4
    frame = roce(PODS, "h0", "h2")
    within = Counter(tuple(network.path("h0", "h2", frame)) for _ in range(16))
    assert sorted(within.values()) == [8, 8]
    assert len(network.path("h0", "h1", roce(PODS, "h0", "h1"))) == 2


@pytest.mark.parametrize("paths", [IN_TURN, AT_RANDOM])
def test_only_rocev2_is_sprayed(paths: Paths) -> None:
    network = Network(FOUR, fabric_plan(FOUR, paths=paths))
    taken = set()
    for source in ("h0", "h1"):
        for destination in ("h2", "h3", "h4", "h5"):
            frame = roce(FOUR, source, destination, udp_port=9999)
            (path,) = {tuple(network.path(source, destination, frame)) for _ in range(8)}
            taken.add(path[1])
    assert len(taken) > 1


@pytest.mark.parametrize("paths", [IN_TURN, AT_RANDOM])
def test_a_dead_link_is_left_out_of_spraying_once_it_is_known(paths: Paths) -> None:
    with_all = fabric_plan(FOUR, paths=paths)
    without = fabric_plan(FOUR, paths=paths, without=["leaf2-spine1"])
    network = Network(FOUR, with_all)
    network.controller.apply(without)
    to_it = Counter(
        network.path("h0", "h4", roce(FOUR, "h0", "h4", psn=number))[1] for number in range(48)
    )
    to_others = Counter(
        network.path("h0", "h2", roce(FOUR, "h0", "h2", psn=number))[1] for number in range(48)
    )
    assert set(to_it) == {"leaf0>spine0", "leaf0>spine2", "leaf0>spine3"}
    assert len(to_others) == 4
    if paths == IN_TURN:
        assert set(to_it.values()) == {16}
    network.controller.apply(with_all)
    again = {network.path("h0", "h4", roce(FOUR, "h0", "h4"))[1] for _ in range(64)}
    assert len(again) == 4


@pytest.mark.parametrize("paths", [IN_TURN, AT_RANDOM])
def test_spraying_leaves_multicast_and_aggregation_as_they_are(paths: Paths) -> None:
    hosts = [host.name for host in FOUR.hosts]
    modes: tuple[Paths, ...] = ("ecmp", paths)
    job = AggregationJob("239.255.0.1", hosts, epoch=1, slots=4, pool_base=0)
    plans = [fabric_plan(FOUR, paths=mode, groups=[hosts], aggregation=[job]) for mode in modes]
    frame = multicast(FOUR, "h0", multicast_trees(plans[0])[0].address)
    networks = [Network(FOUR, plan) for plan in plans]
    one, other = (network.carry("h0", frame) for network in networks)
    assert one == other and len(one[1]) == 5
    sums = {
        tuple(entity for entity in plan.entities["leaf0"] if "aggregation" in str(entity))
        for plan in plans
    }
    assert len(sums) == 1


def test_a_lossy_link_loses_sprayed_packets_and_counts_them() -> None:
    plan = fabric_plan(FOUR, paths=IN_TURN, faults=[LinkLoss("leaf0>spine2", 1.0)])
    network = Network(FOUR, plan)
    arrived = 0
    for number in range(64):
        arrived += len(network.carry("h0", roce(FOUR, "h0", "h4", psn=number))[1])
    counters = network.controller.read_counters()["leaf0", "spine2"]
    assert (counters.tx_packets, counters.lost_packets) == (16, 16)
    assert arrived == 48


# -- marks ---------------------------------------------------------------------------------------

ONE = single(3)
RATE_BPS = 8_000_000_000  # a byte a nanosecond


def waiting(arrivals_ns: list[int], size_bytes: int) -> list[int]:
    """How many packets wait where each one comes, in a queue whose link takes a byte a ns."""
    starts: list[int] = []
    found = []
    free_ns = 0
    for now_ns in arrivals_ns:
        found.append(sum(start > now_ns for start in starts))
        starts.append(max(now_ns, free_ns))
        free_ns = starts[-1] + size_bytes
    return found


@given(
    st.lists(st.tuples(st.integers(1, 120), st.sampled_from(range(4))), max_size=60),
    st.integers(0, 6),
)
def test_marks_are_made_exactly_from_the_threshold_on_and_on_ect_alone(
    steps: list[tuple[int, int]], threshold: int
) -> None:
    plan = fabric_plan(ONE, ecn_threshold_packets=threshold)
    network = Network(ONE, plan, queue=Queue(RATE_BPS))
    dataplane = network.dataplane
    now_ns, sent = 0, []
    arrivals: list[int] = []
    frames: list[bytes] = []
    for step, ecn in steps:
        now_ns += step
        arrivals.append(now_ns)
        frames.append(roce(ONE, "h0", "h1", ecn=ecn, psn=len(frames)))
        sent += dataplane.transmit(now_ns)
        dataplane.receive(0, 1, [frames[-1]], now_ns)
    sent += dataplane.transmit(now_ns + 1_000_000)
    depths = waiting(arrivals, len(frames[0])) if frames else []
    marked = 0
    for frame, depth, departure in zip(frames, depths, sent, strict=True):
        before, after = frame[15] & 3, departure.frame[15] & 3
        marks = before in (ECT_0, ECT_1) and threshold > 0 and depth >= threshold
        assert after == (CE if marks else before)
        assert departure.frame[42:] == frame[42:]
        assert internet_checksum(departure.frame[14:34]) == 0
        assert icrc(departure.frame[14:-4]) == departure.frame[-4:]
        marked += marks
    counters = network.controller.read_counters()
    assert counters["leaf0", "h1"].marked_packets == marked
    assert sum(link.marked_packets for link in counters.values()) == marked


def test_no_threshold_no_marks_and_a_plan_takes_the_threshold_back() -> None:
    network = Network(ONE, fabric_plan(ONE, ecn_threshold_packets=1), queue=Queue(RATE_BPS))

    def marks() -> int:
        before = network.controller.read_counters()["leaf0", "h1"]
        network.dataplane.receive(0, 1, [roce(ONE, "h0", "h1", ecn=ECT_0)] * 10, 0)
        for departure in network.dataplane.transmit(1 << 40):
            assert departure.frame[15] & 3 in (ECT_0, CE)
        return (network.controller.read_counters()["leaf0", "h1"] - before).marked_packets

    assert marks() == 8  # one on the link, and the first that waits finds nobody waiting
    network.controller.apply(fabric_plan(ONE))
    assert marks() == 0


def test_dscp_is_kept_beside_a_mark() -> None:
    network = Network(ONE, fabric_plan(ONE, ecn_threshold_packets=1), queue=Queue(RATE_BPS))
    frame = roce(ONE, "h0", "h1", ecn=46 << 2 | ECT_0)
    network.dataplane.receive(0, 1, [frame] * 5, 0)
    sent = network.dataplane.transmit(1 << 40)
    assert [one.frame[15] for one in sent[:2]] == [46 << 2 | ECT_0] * 2
    assert {one.frame[15] for one in sent[2:]} == {46 << 2 | CE}
    assert all(internet_checksum(one.frame[14:34]) == 0 for one in sent)


# -- the same in every form ----------------------------------------------------------------------


def crossings(network: Network) -> list[tuple[list[str], list[tuple[str, bytes]]]]:
    frames = [
        (source, roce(FOUR, source, "h4", port, opcode=opcode, ecn=NOT_ECT, udp_port=udp_port))
        for port in range(1000, 1006)
        for source in ("h0", "h2")
        for opcode in (0x0A, ACKNOWLEDGE)
        for udp_port in (4791, 7)
    ]
    return [network.carry(*one) for one in frames]


@pytest.fixture(scope="module")
def p4cs_program(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return compile_with_p4c(FABRIC, tmp_path_factory.mktemp("p4c"))


def plan_of(paths: Paths) -> Plan:
    pins = [Pin(0, 4, 1000 + path, path) for path in range(4)]
    return fabric_plan(FOUR, pins=pins, paths=paths, ecn_threshold_packets=2)


@pytest.mark.parametrize("paths", ["pinned", IN_TURN, AT_RANDOM])
def test_compiled_and_plain_do_the_same(paths: Paths) -> None:
    plan = plan_of(paths)
    assert crossings(Network(FOUR, plan)) == crossings(Network(FOUR, plan, plain=True))


@pytest.mark.parametrize("paths", ["pinned", IN_TURN, AT_RANDOM])
def test_p4cs_program_does_the_same(paths: Paths, p4cs_program: Files) -> None:
    plan = plan_of(paths)
    theirs = Network(FOUR, plan, p4cs_program, plain=True)
    assert crossings(Network(FOUR, plan)) == crossings(theirs)
