"""Inputs of a run: what a scenario's ranks do, and what its switches hold."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from weft.agents.collectives.communicator import Lane, SwitchJob
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4_text
from weft.agents.participant import Cast, Team, TeamMember
from weft.agents.ranks import OperationConfig
from weft.agents.transport.congestion.control import control_of
from weft.agents.transport.types import TransportOptions
from weft.base.errors import InputError
from weft.controller import Plan, fabric_plan
from weft.controller.fabric_planner import wants_of
from weft.controller.features import aggregation, multicast
from weft.controller.features.feature import Demand
from weft.controller.features.program import featured_program
from weft.controller.program_names import ProgramNames
from weft.experiments.scenario.kinds import kinds_of, own_values, scheme_in
from weft.experiments.scenario.longest_path import WINDOW_BYTES, LongestPath, emulated_burst_ns
from weft.experiments.scenario.losses import repetitions
from weft.experiments.scenario.requests import request_of
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.lanes import ALTERNATES, PathAssignment, assignment_of
from weft.switch.commands.switch_options import check_program
from weft.switch.compiler import ProgramFiles, compile_cached
from weft.topo.faults import LinkLoss
from weft.topo.faults.schedule import known_from_start
from weft.topo.network import Topology
from weft.topo.reach import Reach
from weft.topo.worlds.registry import has_real_time

FREEZE_TIMEOUTS = 8
"""For how many timeouts REPS keeps to paths that it knows to work. If there were fewer, it would
try others before it has heard of these."""
ProgramKind = tuple[int, bool]
MAX_GROUPS = 16
"""The most multicast groups of a run. A Linux socket may join 20
(net.ipv4.igmp_max_memberships)."""


def operation_of(scenario: Scenario, algorithm: str, seed: int) -> OperationConfig:
    """Return what a run of the scenario does. ``seed`` is that of its data."""
    return scenario.family.operation(scenario, algorithm, seed)


def paced_request(scenario: Scenario, algorithm: str, **more: Any) -> Request:
    """Return the request of one operation of a scenario's collective."""
    return request_of(
        scenario,
        scenario.ranks,
        scenario.collective,
        algorithm,
        pace_bps=_pace_bps(scenario),
        lanes=_assignment(scenario, algorithm).pieces,
        **more,
    )


def flows_request(
    scenario: Scenario, algorithm: str, graph: FlowGraph, at_once: int = 1, **more: Any
) -> Request:
    """Return the request of flows that carry tensors, or what ranks compute.

    Args:
        at_once: how many ranks may multicast to a host at the same time.
    """
    return request_of(
        scenario,
        scenario.ranks,
        FLOWS,
        GIVEN,
        pace_bps=_pace_of_groups_bps(scenario, graph.groups) // at_once,
        lanes=_assignment(scenario, algorithm).pieces,
        flows=graph,
        dtype="uint8",
        counts=0,
        **more,
    )


def _pace_of_groups_bps(scenario: Scenario, groups: Sequence[Sequence[int]]) -> int:
    """Return the rate of the slowest link of the trees of multicast groups of ranks."""
    network = scenario.network()
    reach = Reach(network)
    hosts = [network.hosts[host].name for host in scenario.placement.jobs[0]]
    members = {tuple(hosts[rank] for rank in group) for group in groups}
    return min((_slowest_bps(network, reach, names) for names in members), default=0)


def _slowest_bps(network: Topology, reach: Reach, names: Sequence[str]) -> int:
    """Return the rate of the slowest link of the trees of a multicast group, given by its hosts."""
    links = [multicast.host_link(network, name) for name in names]
    for root in multicast.roots_of(reach, names):
        links += reach.tree(root.name, [each.source.node for each in links]).values()
    return min(each.link.rate_bps for each in links)


def _pace_bps(scenario: Scenario) -> int:
    """Return the rate of the slowest link that what is multicast goes over, where links have rates
    of their own; 0: it is that of every host's link."""
    network = scenario.network()
    if network.clos or not scenario.multicasting:
        return 0
    reach = Reach(network)
    return min(
        _slowest_bps(network, reach, [network.hosts[host].name for host in hosts])
        for hosts in scenario.placement.jobs
    )


def program_of(scenario: Scenario) -> ProgramFiles:
    """Return the program of a scenario's switches, compiled."""
    return featured_program(*program_kind(scenario))


def program_kind(scenario: Scenario) -> ProgramKind:
    """Return what scenarios with the same program have in common: how many values it takes in an
    aggregation packet, and whether it gives packets priorities."""
    queues = scenario.priority_queues or 1
    if queues == 1 and scenario.is_own_network:
        queues = scenario.network().priority_queues
    return scenario.program_values, queues > 1


def own_programs(
    network: Topology,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> dict[str, ProgramFiles]:
    """Return the compiled programs of the switches that do not run the fabric's, by switch;
    folders for includes and macros are as for `compile_cached`. Raises InputError for a program
    that is not there or is wrong."""
    paths = {switch.name: switch.program for switch in network.switches if switch.program}
    for path in set(paths.values()):
        check_program(Path(path))
    compiled = {
        path: compile_cached(Path(path), include_dirs=include_dirs, defines=defines)
        for path in set(paths.values())
    }
    return {name: compiled[path] for name, path in paths.items()}


def cast_of(
    scenario: Scenario, network: Topology, plan: Plan, algorithm: str = "", epoch: int = 1
) -> Cast:
    """Return what runs on which host of a scenario's network: teams of ranks, and reduction
    servers. It also says along which paths an algorithm's ranks send, if that is decided for them,
    and what multicast groups they join, if it multicasts. `epoch` is the run's own on its network.
    """
    placement = scenario.placement
    ips = [host.ip for host in network.hosts]
    kinds = kinds_of(scenario.collective, algorithm) if algorithm else ()
    at_once = any(each.all_at_once for each in kinds)
    # Where switches or servers add, groups come before queue pairs whose numbers packets carry.
    grouped = not algorithm or scenario.family.has_places or bool(placement.servers)
    grouped |= any(each.multicasts or each.adds for each in kinds)
    switch_jobs = [
        SwitchJob(tree.job.address, tree.job.epoch, tree.job.slots, scenario.program_values)
        for tree in aggregation.trees_of(plan)
    ]
    teams = tuple(
        Team(
            tuple(ips[host] for host in hosts),
            servers=tuple(ips[host] for host in placement.servers),
            groups=_groups(scenario, plan, job) if grouped else (),
            group_members=_group_members(scenario, algorithm),
            aggregation=switch_jobs[job] if switch_jobs else None,
            turns_from_next=scenario.family.meets_at_hosts or at_once,
            epoch=epoch,
        )
        for job, hosts in enumerate(placement.jobs)
    )
    roles: dict[int, list[TeamMember]] = {
        host: [(job, rank)]
        for job, hosts in enumerate(placement.jobs)
        for rank, host in enumerate(hosts)
    }
    for server, host in enumerate(placement.servers):
        members = [(job, placement.ranks + server) for job in range(len(teams))]
        roles.setdefault(host, []).extend(members)
    return Cast(
        teams,
        tuple((host, tuple(members)) for host, members in roles.items()),
        _lanes_of(scenario, algorithm),
        transport_of(scenario),
    )


def _lanes_of(scenario: Scenario, algorithm: str) -> dict[int, dict[int, tuple[Lane, ...]]]:
    """Return the lanes of every rank, by its process and by peer."""
    found: dict[int, dict[int, tuple[Lane, ...]]] = {}
    jobs = scenario.placement.jobs
    ranks = {host: rank for hosts in jobs for rank, host in enumerate(hosts)}
    processes = {host: process for process, host in enumerate(chain(*jobs))}
    for (source, destination), lanes in _assignment(scenario, algorithm).lanes.items():
        found.setdefault(processes[source], {})[ranks[destination]] = lanes
    return found


def transport_of(scenario: Scenario) -> TransportOptions:
    """Return the options of every host's transport."""
    scheme = scheme_in(scenario)
    path = LongestPath.of(scenario.network(), scenario.mtu)
    assert scenario.retransmit_timeout_ns is not None and scenario.congestion is not None
    burst_ns = emulated_burst_ns(scenario.rate_bps) if has_real_time(scenario.world) else 0
    options: dict[str, Any] = {
        "congestion": scenario.congestion,
        "congestion_options": own_values(scenario, control_of(scenario.congestion)),
        "recovery": scenario.recovery,
        "reorder_packets": scenario.reorder_packets,
        "entropy": scheme.entropy,
        "port_seed": scenario.seed,
        "alternates": ALTERNATES if scheme.assigned else 1,
        "first_timeout_ns": scenario.retransmit_timeout_ns,
        "minimum_timeout_ns": scenario.retransmit_timeout_ns,
        "control_timeout_ns": scenario.control_timeout_ns,
        "retries": repetitions(scenario),
        # A packet must not wait to be acknowledged for longer than what is sent takes.
        "acknowledge_interval_ns": min(1_000_000, path.of_link_ns(WINDOW_BYTES)),
        "burst_ns": burst_ns,
        # What bursts hold back at both ends and on the way is under way, too.
        "window_bytes": WINDOW_BYTES + 4 * burst_ns * scenario.rate_bps // (8 * 10**9),
        "explore_packets": math.ceil(path.bdp_packets),
        "freeze_ns": FREEZE_TIMEOUTS * scenario.retransmit_timeout_ns,
    }
    return TransportOptions(**options)


def _group_members(scenario: Scenario, algorithm: str) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of each multicast group, if it is not all of them."""
    if not scenario.family.has_places or not algorithm:
        return ()
    return scenario.flow_graph(algorithm).groups


def _groups(scenario: Scenario, plan: Plan, job: int) -> tuple[str, ...]:
    """Return a job's multicast groups.

    If the job multicasts while switches make sums, these are the groups whose trees have another
    root than the sums' tree, which is full, as long as there are enough of them.
    """
    trees = multicast.trees_of(plan)
    each = len(trees) // len(scenario.placement.jobs)
    trees = trees[job * each : (job + 1) * each]
    sums = aggregation.trees_of(plan)
    if scenario.family.sums_apart and sums:
        apart = tuple(tree for tree in trees if tree.root != sums[job].root)
        workers = scenario.needs.workers
        if len(apart) >= workers:
            trees = apart[: len(apart) // workers * workers]
    return tuple(ipv4_text(tree.address) for tree in trees)


def plan_of(
    names: ProgramNames,
    scenario: Scenario,
    network: Topology,
    more: Sequence[LinkLoss] = (),
    epoch: int = 1,
    without: Collection[str] = (),
    algorithm: str = "",
) -> Plan:
    """Return all the entries of a scenario.

    There are multicast groups of each job's hosts: one for each top switch of a Clos, or for each
    switch of another network that can be a root, and as many for each worker. Where switches add,
    there are also the entries for each job. Hosts of a network that is no Clos which do not all
    reach each other have no groups, and nothing adds for them.

    Args:
        names: names of the program that the switches run.
        more: links that lose packets now, beside those of the scenario.
        epoch: the epoch of the aggregation jobs, a new one for every run on the same network.
        without: names of links that are known to have failed.
        algorithm: the algorithm whose flows' paths are pinned, if the scenario's paths are.
    """
    jobs = [[network.hosts[host].name for host in hosts] for hosts in scenario.placement.jobs]
    roots = _roots(network, jobs, without)
    groups = min(roots, len(jobs[0]), MAX_GROUPS)
    workers = scenario.needs.workers
    groups = max(1, groups // workers) * workers if roots else 0
    if scenario.family.has_places:
        groups = 0
    demand = Demand(
        jobs,
        groups,
        [[jobs[0][rank] for rank in each] for each in _group_members(scenario, algorithm)],
        slots=scenario.needs.slots if roots else 0,
        epoch=epoch,
        plan_routes=scheme_in(scenario).plan_routes,
        pins=_assignment(scenario, algorithm, without).pins if algorithm else (),
        ecn_threshold_packets=scenario.ecn_threshold_packets or 0,
        loss=scenario.loss,
        losses=[*scenario.losses, *more],
        priorities=scenario.job_priorities,
        ack_priority=scenario.ack_priority,
    )
    return fabric_plan(
        names,
        network,
        seed=scenario.seed,
        without=without,
        wants=wants_of(demand, network),
        options=vars(scenario),
    )


def planner_of(
    names: ProgramNames, scenario: Scenario, network: Topology, without: Collection[str] = ()
) -> Callable[[Mapping[str, Any]], Plan]:
    """Return what makes the plan of a network's routes together with what else is wanted of
    features, by their names."""
    demand = Demand(
        [], 0, [], slots=0, epoch=1, plan_routes=scheme_in(scenario).plan_routes, pins=(),
        ecn_threshold_packets=scenario.ecn_threshold_packets or 0, loss=scenario.loss,
        losses=list(scenario.losses),
    )  # fmt: skip
    always = wants_of(demand, network)

    def plan(wants: Mapping[str, Any]) -> Plan:
        return fabric_plan(
            names, network, seed=scenario.seed, without=without, wants={**always, **wants},
            options=vars(scenario),
        )  # fmt: skip

    return plan


def pace_bps(network: Topology) -> int:
    """Return the rate of the slowest link that a multicast to all hosts may go over."""
    return _slowest_bps(network, Reach(network), [host.name for host in network.hosts])


def _roots(network: Topology, jobs: Sequence[Sequence[str]], without: Collection[str]) -> int:
    """Return how many switches can be the root of a tree to each job's hosts."""
    if network.clos and not network.unmanaged:
        top = max(switch.level for switch in network.switches)
        return sum(switch.level == top for switch in network.switches)
    reach = Reach(network, without)
    return min(len(multicast.roots_of(reach, hosts)) for hosts in jobs)


def _assignment(
    scenario: Scenario, algorithm: str, without: Collection[str] = ()
) -> PathAssignment:
    """Return the paths of the flows as an operation starts, or around links that have
    failed since."""
    known = known_from_start(scenario.injected, scenario.network(), scenario.notice_delay_ns)
    return assignment_of(scenario, algorithm, frozenset(known), frozenset(without) - {*known})


def plan_at_start(
    names: ProgramNames,
    scenario: Scenario,
    network: Topology,
    epoch: int = 1,
    algorithm: str = "",
    failed: Collection[str] = (),
) -> Plan:
    """Return `plan_of` for the start of an operation, without the links that are known to have
    failed then, and those that had ``failed`` before."""
    known = [*known_from_start(scenario.injected, network, scenario.notice_delay_ns), *failed]
    return plan_around(names, scenario, network, known, epoch=epoch, algorithm=algorithm)


def plan_around(
    names: ProgramNames,
    scenario: Scenario,
    network: Topology,
    without: Collection[str],
    lost: Sequence[str] = (),
    epoch: int = 1,
    algorithm: str = "",
) -> Plan:
    """Return a plan that leads around links, as far as that can be done.

    If the remaining links do not serve (as when no switch has all of a multicast group below it any
    more), everything stays where it is.

    Args:
        without: names of links that are known to have failed.
        lost: directions of links on which everything is lost now.
    """
    more = [LinkLoss(each, 1.0) for each in lost]
    try:
        return plan_of(names, scenario, network, more, epoch, without, algorithm)
    except InputError:
        if not without:
            raise
        return plan_of(names, scenario, network, more, epoch, algorithm=algorithm)
