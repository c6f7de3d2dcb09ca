"""The planner of in-switch aggregation: what its entries do to a round, on any topology."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import struct
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import fabric
from tests.support.aggregation_counters import AggregationCounters, job_counters
from tests.support.controller_networks import MULTICAST_MAC, built_in_switches, send
from tests.support.fabric import fabric_plan, program_names
from tests.support.p4runtime_support import EVERY_ENTITY, FABRIC, compiled

from weft.base.errors import InputError
from weft.controller import Controller, Plan, diff
from weft.controller.client import LoadableProgram
from weft.controller.entities import Action, Entity, PlannedEntry, PlannedMulticast
from weft.controller.features.aggregation import (
    AggregationJob,
    AggregationTree,
    aggregation_entries,
    children_group,
    plan_aggregation,
    trees_of,
)
from weft.controller.features.multicast import max_groups
from weft.switch.compiler import compile_cached
from weft.switch.engine.control.entities import Exact
from weft.switch.engine.switches import Dataplane
from weft.topo.clos import Host, Topology, fat_tree, leaf_spine, pods, single
from weft.topo.reach import Reach

TOPOLOGIES = [
    single(1), single(5), leaf_spine(1, 1, 1), leaf_spine(4, 2, 2), leaf_spine(3, 5, 4),
    fat_tree(4, 2), fat_tree(2), fat_tree(4), fat_tree(6),
    pods(3, 2, 2, 3, 1),
]  # fmt: skip
BASE_ADDRESS = 239 << 24 | 255 << 16


def a_job(hosts: list[str], number: int = 0, slots: int = 16, pool_base: int = 0) -> AggregationJob:
    return AggregationJob(f"239.255.0.{number}", hosts, 7, slots, pool_base)


def everybody(topology: Topology) -> list[str]:
    return [host.name for host in topology.hosts]


def entries_of(topology: Topology, *jobs: AggregationJob) -> dict[str, list[Entity]]:
    return aggregation_entries(
        program_names(), topology, plan_aggregation(program_names(), Reach(topology), jobs)
    )


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    shape = draw(st.sampled_from(["single", "leaf-spine", "fat-tree"]))
    if shape == "single":
        return single(draw(st.integers(1, 8)))
    if shape == "fat-tree":
        return fat_tree(draw(st.sampled_from([2, 4])), draw(st.sampled_from([2, 3])))
    small = st.integers(1, 5)
    return leaf_spine(draw(small), draw(small), draw(small))


# -- switches that do what their entries say -----------------------------------------------------


class Tables:
    """The entities of one switch for one address, looked up as the P4 program would."""

    def __init__(self, entities: list[Entity], address: int) -> None:
        self.found: dict[tuple[str, int | None], Action] = {}
        self.groups: dict[int, tuple[int, ...]] = {}
        for entity in entities:
            if isinstance(entity, PlannedMulticast):
                assert entity.group_id not in self.groups
                self.groups[entity.group_id] = entity.ports
                continue
            assert isinstance(entity, PlannedEntry) and isinstance(entity.target, Action)
            match = {name: field.value for name, field in entity.match if isinstance(field, Exact)}
            if match.pop(fabric.name("dst_addr")) == address:
                (rest,) = match.values() or (None,)
                assert (entity.table, rest) not in self.found
                self.found[entity.table, rest] = entity.target

    def params(self, table: str, key: int | None) -> dict[str, int] | None:
        action = self.found.get((table, key))
        return None if action is None else dict(action.params)


@dataclass
class Round:
    """One round of a job, without loss: who was added where, and what came back."""

    tables: dict[str, Tables]
    owner: int
    seen: dict[str, int] = field(default_factory=dict)
    sums: dict[str, Counter[int]] = field(default_factory=dict)
    results: Counter[str] = field(default_factory=Counter)
    with_values: Counter[str] = field(default_factory=Counter)
    total: Counter[int] = field(default_factory=Counter)

    def run(self, topology: Topology, hosts: list[str]) -> None:
        """All ranks send once; packets go on until there are none."""
        waiting = deque(
            (topology.outward(host)[0].destination, Counter({rank: 1}), False)
            for rank, host in enumerate(hosts)
        )
        while waiting:
            port, ranks, values = waiting.popleft()
            if port.node not in self.tables:
                self.results[port.node] += 1
                self.with_values[port.node] += values
                continue
            far = {d.source.number: d.destination for d in topology.outward(port.node)}
            for out, carried, with_values in self.packet(port.node, port.number, ranks, values):
                waiting.append((far[out], carried, with_values))

    def packet(
        self, switch: str, port: int, ranks: Counter[int], values: bool
    ) -> list[tuple[int, Counter[int], bool]]:
        tables = self.tables[switch]
        job = tables.params(fabric.name("aggregation_job"), None)
        assert job is not None, f"{switch} does not know the job"
        sender = tables.found[fabric.name("aggregation_port"), port]
        if sender.name == fabric.name("from_child"):
            bit = 1 << dict(sender.params)["child"]
            assert bit & job["children"] and not bit & self.seen.get(switch, 0)
            self.seen[switch] = self.seen.get(switch, 0) | bit
            self.sums[switch] = self.sums.get(switch, Counter()) + ranks
            if self.seen[switch] != job["children"]:
                return []
            if not job["is_root"]:
                return [(job["parent_port"], self.sums[switch], True)]
            self.total += self.sums[switch]
            values = True
        else:
            assert sender.name == fabric.name("from_parent")
            assert not job["is_root"] and port == job["parent_port"]
        owner = (tables.params(fabric.name("aggregation_owner"), self.owner) or {}).get("port")
        children = tables.groups[job["children_group"]]
        assert len(children) == job["children"].bit_length()
        return [(child, Counter(), values and child == owner) for child in children]


def act_out(topology: Topology, job: AggregationJob, owner: int) -> Round:
    """One round of a job by the entries of all switches, owned by a rank."""
    entries = entries_of(topology, job)
    address = BASE_ADDRESS + job.number
    tables = {one.name: Tables(entries.get(one.name, []), address) for one in topology.switches}
    acted = Round(tables, owner)
    acted.run(topology, list(job.hosts))
    return acted


def check(topology: Topology, hosts: list[str], owner: int) -> None:
    acted = act_out(topology, a_job(hosts), owner)
    assert acted.total == Counter(range(len(hosts))), "every rank is added once"
    assert acted.results == Counter(hosts), "every rank hears once"
    assert +acted.with_values == Counter([hosts[owner]]), "the values reach the owner alone"


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=Topology.describe)
def test_every_rank_is_added_once_and_answered_once(topology: Topology) -> None:
    hosts = everybody(topology)
    for owner in {0, len(hosts) // 2, len(hosts) - 1}:
        check(topology, hosts, owner)


@given(networks(), st.data())
def test_any_ranks_in_any_order_are_added_once_and_answered_once(
    topology: Topology, data: st.DataObject
) -> None:
    names = st.sampled_from(everybody(topology))
    hosts = data.draw(st.lists(names, min_size=1, unique=True))
    check(topology, hosts, data.draw(st.integers(0, len(hosts) - 1)))


# -- the trees -----------------------------------------------------------------------------------


def planned(topology: Topology, hosts: list[str], number: int = 0) -> AggregationTree:
    (tree,) = plan_aggregation(program_names(), Reach(topology), [a_job(hosts, number)])
    return tree


def test_on_one_switch_it_is_root_and_its_ports_are_the_children_in_rank_order() -> None:
    tree = planned(single(4), ["h2", "h0", "h3"])
    assert tree.root == "leaf0" and list(tree.nodes) == ["leaf0"]
    node = tree.nodes["leaf0"]
    assert (node.children, node.parent, node.owners) == ((3, 1, 4), None, {0: 3, 1: 1, 2: 4})


def test_in_a_leaf_spine_leaves_have_hosts_and_a_spine_has_leaves_as_children() -> None:
    tree = planned(leaf_spine(4, 2, 2), ["h0", "h1", "h4", "h7"], number=1)
    assert list(tree.nodes) == ["spine1", "leaf0", "leaf2", "leaf3"]
    assert tree.nodes["spine1"].children == (1, 3, 4)
    assert tree.nodes["spine1"].owners == {0: 1, 1: 1, 2: 3, 3: 4}
    assert tree.nodes["leaf0"].children == (1, 2)
    # A leaf of one rank is a switch with one child.
    assert tree.nodes["leaf3"].children == (2,)
    assert [tree.nodes[leaf].parent for leaf in ("leaf0", "leaf2", "leaf3")] == [4, 4, 4]


def test_the_root_is_the_lowest_common_switch() -> None:
    topology = fat_tree(4)
    assert list(planned(topology, ["h0", "h1"]).nodes) == ["leaf0"]
    assert list(planned(topology, ["h0", "h2"]).nodes) == ["agg0", "leaf0", "leaf1"]
    assert list(planned(topology, ["h0", "h2"], number=1).nodes) == ["agg1", "leaf0", "leaf1"]
    whole = planned(topology, everybody(topology), number=3)
    assert whole.root == "core3"
    levels = Counter(topology.switch(name).tier for name in whole.nodes)
    assert levels == {"core": 1, "agg": 4, "leaf": 8}
    assert list(planned(leaf_spine(2, 2, 2), ["h2"]).nodes) == ["leaf1"]


def test_jobs_are_spread_over_the_spines() -> None:
    topology = leaf_spine(4, 3, 2)
    jobs = [a_job(everybody(topology), number, 8, 16 * number) for number in range(6)]
    trees = plan_aggregation(program_names(), Reach(topology), jobs)
    assert [tree.root for tree in trees] == ["spine0", "spine1", "spine2"] * 2


def test_a_tree_avoids_a_failed_link() -> None:
    topology = leaf_spine(3, 2, 1)
    jobs = [a_job(everybody(topology), 0), a_job(everybody(topology), 1, pool_base=32)]
    trees = plan_aggregation(program_names(), Reach(topology, ["leaf1-spine0"]), jobs)
    assert {tree.root for tree in trees} == {"spine1"}
    around = Reach(topology, ["leaf1-spine0", "leaf2-spine1"])
    (tree, _) = plan_aggregation(program_names(), around, jobs)
    assert (tree.root, set(tree.nodes)) == (
        "leaf0", {"leaf0", "leaf1", "leaf2", "spine0", "spine1"}
    )  # fmt: skip
    apart = Reach(topology, ["leaf1-spine0", "leaf1-spine1"])
    with pytest.raises(InputError, match=r"239\.255\.0\.0: no switch reaches all of its 3 hosts"):
        plan_aggregation(program_names(), apart, jobs)


def test_the_entries_of_a_leaf() -> None:
    topology = leaf_spine(2, 1, 2)
    job = AggregationJob("239.255.0.3", ["h0", "h1", "h2"], 9, 64, 128)
    group = children_group(program_names(), job)
    table = "entry of FabricIngress.aggregation.aggregation_"
    assert [str(one) for one in entries_of(topology, job)["leaf0"]] == [
        f"multicast group {group} -> ports 1, 2",
        f"{table}job: hdr.ipv4.dst_addr = 0xefff0003 -> FabricIngress.aggregation.job(job=0x3, "
        "epoch=0x9, pool_base=0x80, pool_mask=0x7f, children=0x3, is_root=0x0, parent_port=0x3, "
        f"children_group={group:#x}, switch_address=0xafe0001)",
        f"{table}port: hdr.ipv4.dst_addr = 0xefff0003, standard_metadata.ingress_port = 0x1 -> "
        "FabricIngress.aggregation.from_child(child=0x0)",
        f"{table}port: hdr.ipv4.dst_addr = 0xefff0003, standard_metadata.ingress_port = 0x2 -> "
        "FabricIngress.aggregation.from_child(child=0x1)",
        f"{table}port: hdr.ipv4.dst_addr = 0xefff0003, standard_metadata.ingress_port = 0x3 -> "
        "FabricIngress.aggregation.from_parent()",
        f"{table}owner: hdr.aggregation.owner = 0x0, hdr.ipv4.dst_addr = 0xefff0003 -> "
        "FabricIngress.aggregation.owner_port(port=0x1)",
        f"{table}owner: hdr.aggregation.owner = 0x1, hdr.ipv4.dst_addr = 0xefff0003 -> "
        "FabricIngress.aggregation.owner_port(port=0x2)",
    ]


def test_sixty_four_children_fill_the_mask() -> None:
    topology = single(65)
    (job,) = [
        one
        for one in entries_of(topology, a_job(everybody(topology)[1:]))["leaf0"]
        if isinstance(one, PlannedEntry) and one.table == fabric.name("aggregation_job")
    ]
    assert isinstance(job.target, Action)
    assert dict(job.target.params)["children"] == (1 << 64) - 1


# -- plans ---------------------------------------------------------------------------------------


def test_a_new_epoch_modifies_one_entry_a_switch() -> None:
    topology = leaf_spine(4, 2, 2)
    job = a_job(everybody(topology))
    old, new = (fabric_plan(topology, aggregation=[one]) for one in (job, replace(job, epoch=8)))
    changes = diff(old, new)
    assert set(changes) == {"spine0", "leaf0", "leaf1", "leaf2", "leaf3"}
    for batches in changes.values():
        ((update,),) = batches
        assert update.kind == "modify" and update.entity.key[1] == fabric.name("aggregation_job")


def test_a_job_that_goes_leaves_the_others_alone() -> None:
    topology = leaf_spine(4, 2, 2)
    jobs = [a_job(everybody(topology), number, 16, 32 * number) for number in range(3)]
    changes = diff(
        fabric_plan(topology, aggregation=jobs), fabric_plan(topology, aggregation=jobs[1:])
    )
    gone = BASE_ADDRESS + jobs[0].number
    for batches in changes.values():
        entries, groups = batches
        assert all(update.kind == "delete" for update in entries)
        for update in entries:
            assert isinstance(update.entity, PlannedEntry)
            assert dict(update.entity.match)[fabric.name("dst_addr")] == Exact(gone)
        assert [update.entity.key for update in groups] == [
            ("multicast group", children_group(program_names(), jobs[0]))
        ]


def test_a_plan_holds_trees_and_their_groups_beside_those_of_multicast() -> None:
    topology = leaf_spine(4, 2, 2)
    plan = fabric_plan(topology, aggregation=[a_job(everybody(topology))])
    assert [tree.root for tree in trees_of(plan)] == ["spine0"]
    assert trees_of(fabric_plan(topology)) == trees_of(Plan()) == ()
    ids = [one.group_id for one in plan.entities["leaf0"] if isinstance(one, PlannedMulticast)]
    assert len(set(ids)) == len(ids) == len(topology.hosts) + 1
    last = AggregationJob(f"239.255.0.{fabric.size('aggregation_job') - 1}", ["h0"], 1, 1, 0)
    assert (
        children_group(program_names(), a_job(["h0"])),
        children_group(program_names(), last),
    ) == (
        max_groups(program_names()) + 1,
        32767,
    )


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "239.0.0.1"}, r"'239\.0\.0\.1': a job's address is 239\.255\.0\.0 to 239\.25"),
        ({"address": "239.255.200.0"}, r"'239\.255\.200\.0': a job's address is"),
        ({"address": "h0"}, "'h0': a job's address is"),
        ({"hosts": []}, "it has no hosts"),
        ({"hosts": ["h0", "h1", "h0"]}, "host 'h0' is named 2 times"),
        ({"epoch": 0}, "epoch 0 is out of range: 1 to 4294967295"),
        ({"epoch": 1 << 32}, "epoch 4294967296 is out of range"),
        ({"slots": 0}, "slots 0 is no power of 2"),
        ({"slots": -4}, "slots -4 is no power of 2"),
        ({"slots": 48}, "slots 48 is no power of 2"),
        ({"slots": 1024}, "1024 slots are 2048 rows, from 0 on; a switch has rows 0 to 1023"),
        ({"slots": 512, "pool_base": 1}, "512 slots are 1024 rows, from 1 on"),
        ({"pool_base": -1}, "from -1 on"),
    ],
    ids=str,
)
def test_a_job_that_makes_no_sense_is_refused(changes: dict[str, object], message: str) -> None:
    options: dict[str, object] = {
        "address": "239.255.0.0", "hosts": ["h0", "h1"], "epoch": 1, "slots": 16, "pool_base": 0,
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        job = AggregationJob(**(options | changes))  # type: ignore[arg-type]
        plan_aggregation(program_names(), Reach(single(2)), [job])


def test_a_pool_may_fill_all_rows() -> None:
    job = AggregationJob("239.255.0.0", ["h0"], 1, 512, 0)
    assert job.rows == range(1024)
    plan_aggregation(program_names(), Reach(single(1)), [job])


def test_a_switch_with_too_many_children_is_refused() -> None:
    topology = single(65)
    with pytest.raises(InputError, match=r"leaf0 would have 65 children.* at most 64"):
        entries_of(topology, a_job(everybody(topology)))


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(InputError, match="h7"):
        entries_of(single(2), a_job(["h0", "h7"]))


def test_pools_must_not_overlap_where_two_jobs_meet() -> None:
    topology = leaf_spine(2, 2, 2)
    one = a_job(["h0", "h2"], 0, 16, 0)
    with pytest.raises(
        InputError,
        match=r"239\.255\.0\.0 has rows 0 to 31 and aggregation job 239\.255\.0\.1 rows 31 to 62, "
        "both on leaf0: ",
    ):
        entries_of(topology, one, a_job(["h1", "h3"], 1, 16, 31))
    entries_of(topology, one, a_job(["h1", "h3"], 1, 16, 32))
    entries_of(topology, a_job(["h0", "h1"], 0), a_job(["h2", "h3"], 1))


def test_two_jobs_need_two_addresses() -> None:
    with pytest.raises(InputError, match=r"two aggregation jobs have the address 239\.255\.0\.0"):
        entries_of(single(4), a_job(["h0", "h1"]), a_job(["h2", "h3"], pool_base=32))


def test_a_program_without_aggregation_is_said_to_be_that() -> None:
    names = LoadableProgram.read(compiled(EVERY_ENTITY)).names
    assert plan_aggregation(names, Reach(single(2)), []) == ()
    with pytest.raises(InputError, match=r"aggregation_job': it was compiled without aggregation"):
        plan_aggregation(names, Reach(single(2)), [a_job(["h0", "h1"])])


# -- the switches themselves, through P4Runtime ----------------------------------------------------

VALUES = 16
"""Of a packet of the program compiled for this test: fewer make an uncompiled switch faster."""
SMALL = leaf_spine(2, 2, 2)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[tuple[Dataplane, Controller]]:
    """The small network's switches with the fabric's program, and their controller."""
    program = compile_cached(FABRIC, defines={"AGGREGATION_VALUES": str(VALUES)})
    with (
        built_in_switches(SMALL, tmp_path) as (dataplane, addresses),
        Controller(SMALL, addresses, program) as controller,
    ):
        yield dataplane, controller


def contribution(
    host: Host, job: AggregationJob, round_: int, values: list[int], owner: int | None = None
) -> bytes:
    """A rank's frame: of the given values, or with headers only; scattered if it has an owner."""
    address = int(ipaddress.IPv4Address(job.address))
    flags = (1 if values else 0) | (0 if owner is None else 4)
    transport = (
        struct.pack("!BBHII", 0x65, 0x40, 0xFFFF, 0xFFFFFF, round_ & 0xFFFFFF)
        + struct.pack("!III", 0x57454147, 0x11, 0)
        + struct.pack("!IIBBHhH", job.epoch, round_, flags, 0, owner or 0, -32768, 0)
        + struct.pack(f"!{len(values)}i", *values)
    )
    udp = struct.pack("!HHHH", 50000, 4791, 8 + len(transport) + 4, 0)
    whole = 20 + len(udp) + len(transport) + 4
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, whole, 0, 0x4000, 64, 17, 0, host.address, address)
    ip = ip[:10] + checksum(ip) + ip[12:]
    mac = MULTICAST_MAC | address & 0x7FFFFF
    ethernet = mac.to_bytes(6, "big") + host.mac.to_bytes(6, "big") + b"\x08\x00"
    frame = ethernet + ip + udp + transport
    return frame + icrc(frame)


def checksum(header: bytes) -> bytes:
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", 0xFFFF - ((total & 0xFFFF) + (total >> 16)))


def icrc(frame: bytes) -> bytes:
    """Of a frame up to before the ICRC: ones for the local route header, TOS, TTL, checksums and
    the BTH's reserved byte (InfiniBand Architecture Specification, annex A17)."""
    masked = bytearray(b"\xff" * 8 + frame[14:])
    for place in (1, 8, 10, 11, 26, 27, 32):
        masked[8 + place] = 0xFF
    return zlib.crc32(masked).to_bytes(4, "little")


def results(received: dict[str, list[bytes]]) -> dict[str, list[tuple[int, list[int]]]]:
    """By host: (flags, values) of every result; each is whole."""
    found: dict[str, list[tuple[int, list[int]]]] = {}
    for host, frames in received.items():
        for frame in frames:
            assert frame[-4:] == icrc(frame[:-4])
            assert len(frame) == 14 + int.from_bytes(frame[16:18], "big")
            values = frame[14 + 28 + 24 + 16 : -4]
            words = list(struct.unpack(f"!{len(values) // 4}i", values))
            found.setdefault(host, []).append((frame[14 + 28 + 24 + 8], words))
    return found


def test_switches_that_hold_the_plan_add_every_rank_once_and_count_it(
    network: tuple[Dataplane, Controller],
) -> None:
    dataplane, controller = network
    hosts = ["h3", "h0", "h2"]
    job = AggregationJob("239.255.0.1", hosts, 5, 4, 8)
    other = AggregationJob("239.255.0.0", everybody(SMALL), 5, 4, 0)
    controller.apply(fabric_plan(SMALL, aggregation=[other, job]))
    assert trees_of(controller.plan)[1].root == "spine1"
    vectors = [[rank * 100 + i for i in range(VALUES)] for rank in range(3)]
    for host, vector in zip(hosts[:-1], vectors[:-1], strict=True):
        packet = contribution(SMALL.host(host), job, 2, vector)
        assert send(SMALL, dataplane, host, [packet]) == {}
    packet = contribution(SMALL.host("h2"), job, 2, vectors[2])
    total = [sum(column) for column in zip(*vectors, strict=True)]
    assert results(send(SMALL, dataplane, "h2", [packet])) == {
        host: [(1 | 2, total)] for host in hosts
    }
    # A lost result is asked for once more; and the owner of a sum gets it alone.
    again = contribution(SMALL.host("h3"), job, 2, vectors[0])
    assert results(send(SMALL, dataplane, "h3", [again])) == {"h3": [(1 | 2, total)]}
    for rank, host in enumerate(hosts):
        packet = contribution(SMALL.host(host), job, 3, vectors[rank] if rank != 1 else [], 1)
        received = send(SMALL, dataplane, host, [packet])
    scattered = [a + b for a, b in zip(vectors[0], vectors[2], strict=True)]
    assert results(received) == {
        "h3": [(2 | 4, [])], "h0": [(1 | 2 | 4, scattered)], "h2": [(2 | 4, [])],
    }  # fmt: skip
    counted = job_counters(controller)
    of_job = {switch: one for (address, switch), one in counted.items() if address == job.address}
    assert {switch: (one.contributions, one.results) for switch, one in of_job.items()} == {
        "spine1": (4, 2), "leaf1": (4, 2), "leaf0": (2, 2),
    }  # fmt: skip
    assert of_job["leaf1"].resent_results == 1
    assert sum(one.duplicates + one.late + one.malformed for one in counted.values()) == 0
    assert counted[other.address, "spine0"].contributions == 0
    before = of_job["leaf1"]
    assert (job_counters(controller)[job.address, "leaf1"] - before).results == 0


def test_what_the_switches_made_shorter_or_longer_is_counted_with_its_own_bytes(
    network: tuple[Dataplane, Controller],
) -> None:
    """The owner's packet without values comes last: the sums that it completes have values."""
    dataplane, controller = network
    hosts = ["h0", "h1", "h2", "h3"]
    job = AggregationJob("239.255.0.0", hosts, 5, 4, 0)
    controller.apply(fabric_plan(SMALL, aggregation=[job]))
    before = controller.read_counters()
    for rank in (3, 2, 1, 0):
        packet = contribution(SMALL.host(rank), job, 0, [9] * VALUES if rank else [], owner=0)
        received = send(SMALL, dataplane, hosts[rank], [packet])
    after = controller.read_counters()
    sent = {ends: (after[ends] - before[ends]).tx_bytes for ends in after}
    bare, full = 86, 86 + 4 * VALUES
    assert {host: len(received[host][0]) for host in hosts} == {
        "h0": full, "h1": bare, "h2": bare, "h3": bare,
    }  # fmt: skip
    assert {ends: size_bytes for ends, size_bytes in sent.items() if size_bytes} == {
        ("h0", "leaf0"): bare, ("h1", "leaf0"): full, ("h2", "leaf1"): full, ("h3", "leaf1"): full,
        ("leaf0", "spine0"): full, ("leaf1", "spine0"): full,
        ("spine0", "leaf0"): full, ("spine0", "leaf1"): bare,
        ("leaf0", "h0"): full, ("leaf0", "h1"): bare, ("leaf1", "h2"): bare, ("leaf1", "h3"): bare,
    }  # fmt: skip


def test_a_new_epoch_empties_the_rows_of_a_job_that_crashed(
    network: tuple[Dataplane, Controller],
) -> None:
    dataplane, controller = network
    crashed = AggregationJob("239.255.0.0", ["h0", "h2"], 1, 4, 0)
    controller.apply(fabric_plan(SMALL, aggregation=[crashed]))
    old = contribution(SMALL.host("h0"), crashed, 0, [7] * VALUES)
    assert send(SMALL, dataplane, "h0", [old]) == {}
    job = replace(crashed, epoch=2)
    controller.apply(fabric_plan(SMALL, aggregation=[job]))
    assert send(SMALL, dataplane, "h0", [old]) == {}
    for host in ("h0", "h2"):
        packet = contribution(SMALL.host(host), job, 0, [1] * VALUES)
        received = send(SMALL, dataplane, host, [packet])
    assert results(received) == {host: [(1 | 2, [2] * VALUES)] for host in ("h0", "h2")}
    assert job_counters(controller)[job.address, "leaf0"].other_epoch == 1


def test_planner_and_program_agree_on_rows_jobs_and_counters() -> None:
    source = (FABRIC.parent / "include" / "aggregation.p4").read_text()
    numbers = dict(re.findall(r"#define (AGGREGATION_\w+) (\d+)", source))
    assert int(numbers["AGGREGATION_ROWS"]) == fabric.size("row_epoch")
    assert int(numbers["AGGREGATION_JOBS"]) == fabric.size("aggregation_job")
    counters = re.findall(r"counter\(AGGREGATION_JOBS, [\w.:]+\) (\w+);", source)
    assert counters == [field.name for field in dataclasses.fields(AggregationCounters)]
