"""Aggregation in the switches: this module plans a tree of switches for each job, and the entries
of each switch in it.

A job is one communicator: its ranks send vectors to an IPv4 multicast address, every switch of the
job's tree adds what its children send, and the root sends the sum down again. The tree is that of
multicast (`weft.controller.features.multicast`), with a direction: its root is a switch from which
the farthest host is least far away, and jobs are spread over these by their numbers. A switch's
children are the ports of the tree that lead away from the root, numbered in the order of the ranks
that they lead to.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from weft.base.errors import InputError, refuse
from weft.controller.counters import LinkCells, LinkCounters
from weft.controller.entities import Action, Entity, PlannedMulticast, entry
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.features.multicast import host_link, max_groups, roots_of
from weft.controller.plan import Plan
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control.entities import Exact
from weft.topo.network import Topology
from weft.topo.reach import Reach

JOB_BASE_ADDRESS = 239 << 24 | 255 << 16
SWITCH_BASE_ADDRESS = 10 << 24 | 254 << 16
"""A switch adds its device id to this: the sum is the source address of packets that it makes
itself."""
MAX_CHILDREN = 64
"""The most children of one switch: its mask of the children that it has seen has so many bits."""
MAX_EPOCH = (1 << 32) - 1
TABLE = "aggregation_job"
"""The table of jobs; its size is the number of jobs that there can be."""
FRAME_BYTES = 14 + 20 + 8 + 12 + 8 + 4 + 16 + 4
"""Frame bytes of a packet without values: Ethernet to the aggregation header, and ICRC."""


@dataclass(frozen=True)
class AggregationJob:
    """A communicator that switches add for. The planner checks whether the switches have
    room for it.

    Raises:
        InputError: there are no hosts or one twice, or a number is out of range.
    """

    address: str
    """It is 239.255.0.0 plus the job's number."""
    hosts: Sequence[str]
    """Names of the ranks' hosts, in the order of the ranks."""
    epoch: int
    """A number from 1 to 2^32 - 1 that differs between all jobs that ever use the same rows."""
    slots: int
    """How many rounds may be under way at the same time: a power of 2. Each takes two rows."""
    pool_base: int
    """The first of the job's rows, on every switch of its tree."""
    root: str = ""
    """The switch that is to be the tree's root as long as it can be; empty: one by the number."""

    def __post_init__(self) -> None:
        if not self.hosts:
            raise InputError(f"{self}: it has no hosts; name that of every rank")
        host, times = Counter(self.hosts).most_common(1)[0]
        refuse(
            times > 1,
            f"{self}: host {host!r} is named {times} times; a host has one rank",
        )
        if not 0 < self.epoch <= MAX_EPOCH:
            raise InputError(f"{self}: epoch {self.epoch} is out of range: 1 to {MAX_EPOCH}")
        refuse(
            self.slots < 1 or self.slots & self.slots - 1,
            f"{self}: slots {self.slots} is no power of 2, such as 64",
        )

    def __str__(self) -> str:
        return f"aggregation job {self.address}"

    @property
    def number(self) -> int:
        """Return the job's number, from 0. It is part of the address, so it stays while other jobs
        come and go."""
        return int(IPv4Address(self.address)) - JOB_BASE_ADDRESS

    @property
    def rows(self) -> range:
        """Return the rows of the switches' registers that belong to the job."""
        return range(self.pool_base, self.pool_base + 2 * self.slots)


def address_of_job(job: int) -> int:
    """Return the IPv4 address that the ranks of a run's job send their vectors to."""
    return JOB_BASE_ADDRESS + 1 + job


@dataclass(frozen=True)
class AggregationNode:
    """One switch of a job's tree. Ports are those of this switch, by number."""

    children: tuple[int, ...]
    """The ports of child 0, child 1 and so on."""
    parent: int | None
    """The port to the parent; None at the root."""
    owners: Mapping[int, int]
    """The port that leads to each rank below the switch, by rank."""


@dataclass(frozen=True)
class AggregationTree:
    """The switches of a job's tree."""

    job: AggregationJob
    root: str
    nodes: Mapping[str, AggregationNode]
    """The switches by name: the root comes first, and every parent before its children."""


class Aggregation(Feature):
    """Addition by switches. Callers ask this feature for jobs; it provides their trees."""

    name = "aggregation"
    counters = ("port_egress_headers", "port_egress_values")

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return [
            AggregationJob(
                str(IPv4Address(address_of_job(job))),
                tuple(hosts),
                epoch=demand.epoch,
                slots=demand.slots,
                pool_base=2 * demand.slots * job,
            )
            for job, hosts in enumerate(demand.jobs if demand.slots else ())
        ]

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        names, topology = planning.names, planning.topology
        jobs = planning.wants.get(self.name, ())
        trees = plan_aggregation(names, planning.reach, jobs)
        return Planned(aggregation_entries(names, topology, trees), trees)

    def share(self, cells: LinkCells) -> LinkCounters:
        """See `Feature.share`. The packets that aggregation made longer or shorter are counted by
        their two kinds, since a port's counter does not know their bytes."""
        bare, _ = cells.at_source("port_egress_headers")
        full, _ = cells.at_source("port_egress_values")
        if not bare + full:
            return LinkCounters()
        values = cells.names.size("row_values") // cells.names.size("row_epoch")
        return LinkCounters(bare + full, (bare + full) * FRAME_BYTES + full * 4 * values)


def room(names: ProgramNames) -> tuple[int, int]:
    """Return how many jobs there can be, and how many rows they share; zeros for a program without
    aggregation."""
    return (names.size(TABLE), names.size("row_epoch")) if TABLE in names else (0, 0)


def trees_of(plan: Plan) -> tuple[AggregationTree, ...]:
    """Return the trees of the jobs that the switches of a plan add for."""
    return tuple(plan.provided.get(Aggregation.name, ()))


def plan_aggregation(
    names: ProgramNames, reach: Reach, jobs: Iterable[AggregationJob]
) -> tuple[AggregationTree, ...]:
    """Plan the tree of every job over the links of ``reach``.

    Raises InputError for a program without aggregation; an unknown host; an address that no job can
    have or that two jobs have; rows that a switch does not have, or that two jobs have on one
    switch; a switch with more than 64 children; and a job whose hosts no switch reaches over the
    links that are up.
    """
    jobs = tuple(jobs)
    if not jobs:
        return ()
    refuse(
        TABLE not in names,
        f"the switches' program has no table {TABLE!r}: it was compiled without aggregation in the "
        "switch; compile p4/fabric.p4 with it, or plan no jobs",
    )
    for job in jobs:
        _check_room(names, job)
    trees = tuple(_tree(reach, job) for job in jobs)
    for one, other in itertools.combinations(trees, 2):
        _check_apart(one, other)
    return trees


def aggregation_entries(
    names: ProgramNames, topology: Topology, trees: Iterable[AggregationTree]
) -> dict[str, list[Entity]]:
    """Return the entries of every switch of the trees, by its name."""
    found: dict[str, list[Entity]] = {}
    for tree in trees:
        for name, node in tree.nodes.items():
            address = SWITCH_BASE_ADDRESS + topology.switch(name).device_id
            found.setdefault(name, []).extend(_entities(names, tree.job, node, address))
    return found


def children_group(names: ProgramNames, job: AggregationJob) -> int:
    """Return the id of a job's multicast group on every switch; multicast's own groups count from
    1."""
    return max_groups(names) + 1 + job.number


def _tree(reach: Reach, job: AggregationJob) -> AggregationTree:
    able = roots_of(reach, job.hosts)
    if not able:
        raise InputError(
            f"{job}: no switch reaches all of its {len(job.hosts)} hosts by the links that are up"
        )
    names = [switch.name for switch in able]
    root = job.root if job.root in names else names[job.number % len(able)]
    links = [host_link(reach.topology, host) for host in job.hosts]
    entered = reach.tree(root, [link.source.node for link in links])
    owners: dict[str, dict[int, int]] = {}
    for rank, link in enumerate(links):
        owners.setdefault(link.source.node, {})[rank] = link.source.number
        here = link.source.node
        while here != root:
            owners.setdefault(entered[here].source.node, {})[rank] = entered[here].source.number
            here = entered[here].source.node
    parents = {root: None, **{name: each.destination.number for name, each in entered.items()}}
    nodes = {}
    for name, parent in parents.items():
        children = tuple(dict.fromkeys(owners[name].values()))
        refuse(
            len(children) > MAX_CHILDREN,
            f"{job}: {name} would have {len(children)} children; a switch adds for at most "
            f"{MAX_CHILDREN}: use fewer hosts below it",
        )
        nodes[name] = AggregationNode(children, parent, owners[name])
    return AggregationTree(job, root, nodes)


def _check_room(names: ProgramNames, job: AggregationJob) -> None:
    """Raise InputError for an address that no job can have, or for rows that a switch does not
    have."""
    numbers, rows = names.size(TABLE), names.size("row_epoch")
    try:
        known = 0 <= job.number < numbers
    except AddressValueError:
        known = False
    if not known:
        raise InputError(
            f"aggregation job {job.address!r}: a job's address is "
            f"{IPv4Address(JOB_BASE_ADDRESS)} to {IPv4Address(JOB_BASE_ADDRESS + numbers - 1)}"
        )
    refuse(
        job.pool_base < 0 or job.rows.stop > rows,
        f"{job}: {job.slots} slots are {2 * job.slots} rows, from {job.pool_base} on; "
        f"a switch has rows 0 to {rows - 1}: lower slots or pool_base",
    )


def _check_apart(one: AggregationTree, other: AggregationTree) -> None:
    """Raise InputError where two jobs cannot be told apart."""
    first, second = one.job, other.job
    refuse(
        first.number == second.number,
        f"two aggregation jobs have the address {first.address}: each needs one",
    )
    shared = [name for name in one.nodes if name in other.nodes]
    rows, others = first.rows, second.rows
    if shared and rows.start < others.stop and others.start < rows.stop:
        raise InputError(
            f"{first} has rows {rows.start} to {rows.stop - 1} and {second} rows {others.start} to "
            f"{others.stop - 1}, both on {shared[0]}: give them pools that do not overlap"
        )


def _entities(
    names: ProgramNames, job: AggregationJob, node: AggregationNode, switch_address: int
) -> list[Entity]:
    group = children_group(names, job)
    destination = {names.name("dst_addr"): Exact(int(IPv4Address(job.address)))}
    found: list[Entity] = [
        PlannedMulticast(group, tuple(sorted(node.children))),
        entry(
            names.name(TABLE),
            destination,
            Action.of(
                names.name("job"),
                job=job.number,
                epoch=job.epoch,
                pool_base=job.pool_base,
                pool_mask=2 * job.slots - 1,
                children=(1 << len(node.children)) - 1,
                is_root=int(node.parent is None),
                parent_port=node.parent or 0,
                children_group=group,
                switch_address=switch_address,
            ),
        ),
    ]
    from_parent = Action(names.name("from_parent"))
    senders = [
        *(
            (port, Action.of(names.name("from_child"), child=child))
            for child, port in enumerate(node.children)
        ),
        *([(node.parent, from_parent)] if node.parent is not None else []),
    ]
    found += [
        entry(
            names.name("aggregation_port"),
            destination | {names.name("ingress_port"): Exact(port)},
            action,
        )
        for port, action in senders
    ]
    found += [
        entry(
            names.name("aggregation_owner"),
            destination | {names.name("owner"): Exact(rank)},
            Action.of(names.name("owner_port"), port=port),
        )
        for rank, port in node.owners.items()
    ]
    return found
