"""The shape of the network that is asked for, and which of its hosts are ranks and servers."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from weft.agents.collectives.names import MAX_HOSTS
from weft.base.errors import refuse
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.networks import network_from
from weft.experiments.scenario.placement import Placement, place, place_among, servers_on_leaf
from weft.topo import clos
from weft.topo.figures import with_priority_queues


# A scenario asks for its network dozens of times, and a large one takes a third of a second.
def _kept(make: Callable[..., clos.Topology]) -> Callable[..., clos.Topology]:
    """Return what makes a network with some queues at its ports, and keeps the last ones."""

    @lru_cache(maxsize=4)
    def kept(queues: tuple[Any, ...], *what: Any, **figures: Any) -> clos.Topology:
        found = make(*what, **figures)
        return with_priority_queues(found, *queues) if any(queues) else found

    return kept


_from_description = _kept(network_from)
_single = _kept(clos.single)
_leaf_spine = _kept(clos.leaf_spine)
_fat_tree = _kept(clos.fat_tree)
_pods = _kept(clos.pods)


def _queues(asked: Asked) -> tuple[Any, ...]:
    """Return what is asked of queues, as `with_priority_queues` takes it."""
    return (
        asked.priority_queues, asked.queue_weights, asked.queue_rates, asked.queue_depths_bytes,
    )  # fmt: skip


def with_queues_asked(asked: Asked, network: clos.Topology) -> clos.Topology:
    """Return a network with the queues that are asked for. Raises `InputError` for what cannot
    be."""
    return with_priority_queues(network, *queues) if any(queues := _queues(asked)) else network


def network_of(asked: Asked) -> clos.Topology:
    """Return the network that is asked for. Raises `InputError` if there is no such network."""
    if asked.is_own_network:
        return _from_description(_queues(asked), asked.graph)
    if asked.topology == "single":
        assert asked.hosts_per_leaf is not None
        refuse(
            asked.oversubscription is not None,
            "oversubscription means nothing for --topology single, which has no uplinks: "
            "leave it out, or choose leaf-spine, fat-tree or pods",
        )
        _refuse_core_rates(asked, there=False)
        return _single(
            _queues(asked),
            asked.hosts_per_leaf + asked.dedicated_servers,
            rate_bps=asked.rate_bps,
            delay_ns=asked.delay_ns,
            queue_bytes=asked.queue_bytes,
        )
    if asked.topology == "leaf-spine":
        assert asked.leaves is not None and asked.spines is not None
        assert asked.hosts_per_leaf is not None
        on_leaf = asked.hosts_per_leaf + servers_on_leaf(asked.dedicated_servers, asked.leaves)
        hosts = asked.leaves * on_leaf
        _refuse_core_rates(asked, there=False)
        refuse(
            hosts > MAX_HOSTS,
            f"{asked.leaves} leaves with {on_leaf} hosts each are {hosts} "
            f"hosts: at most {MAX_HOSTS}; lower leaves or hosts-per-leaf",
        )
        return _leaf_spine(
            _queues(asked),
            asked.leaves,
            asked.spines,
            on_leaf,
            rate_bps=asked.rate_bps,
            fabric_rate_bps=_fabric_rate_bps(asked, asked.hosts_per_leaf, asked.spines),
            delay_ns=asked.delay_ns,
            queue_bytes=asked.queue_bytes,
        )
    if asked.topology == "pods":
        return _network_of_pods(asked)
    assert asked.k is not None and asked.tiers is not None
    half = asked.k // 2
    _refuse_core_rates(asked, there=asked.tiers == 3)
    fabric_rate_bps = _fabric_rate_bps(asked, half, half)
    return _fat_tree(
        _queues(asked),
        asked.k,
        asked.tiers,
        rate_bps=asked.rate_bps,
        fabric_rate_bps=fabric_rate_bps,
        core_rate_bps=_core_rate_bps(asked, fabric_rate_bps, half, half),
        delay_ns=asked.delay_ns,
        queue_bytes=asked.queue_bytes,
    )


def _network_of_pods(asked: Asked) -> clos.Topology:
    assert asked.pods is not None and asked.leaves is not None and asked.spines is not None
    assert asked.uplinks is not None and asked.hosts_per_leaf is not None
    leaves = asked.pods * asked.leaves
    on_leaf = asked.hosts_per_leaf + servers_on_leaf(asked.dedicated_servers, leaves)
    refuse(
        leaves * on_leaf > MAX_HOSTS,
        f"{asked.pods} pods with {asked.leaves} leaves with {on_leaf} hosts each are "
        f"{leaves * on_leaf} hosts: at most {MAX_HOSTS}; lower pods, leaves or hosts-per-leaf",
    )
    fabric_rate_bps = _fabric_rate_bps(asked, asked.hosts_per_leaf, asked.spines)
    return _pods(
        _queues(asked),
        asked.pods,
        asked.leaves,
        asked.spines,
        asked.uplinks,
        on_leaf,
        rate_bps=asked.rate_bps,
        fabric_rate_bps=fabric_rate_bps,
        core_rate_bps=_core_rate_bps(asked, fabric_rate_bps, asked.leaves, asked.uplinks),
        delay_ns=asked.delay_ns,
        queue_bytes=asked.queue_bytes,
    )


def _refuse_core_rates(asked: Asked, *, there: bool) -> None:
    """Raise InputError if something is asked of links to core switches, and there are none."""
    refuse(
        asked.core_oversubscription is not None and not there,
        f"core-oversubscription means nothing for --topology {asked.topology}, which has no core "
        "switches here: leave it out, or choose pods, or a fat-tree of 3 tiers",
    )


def _fabric_rate_bps(asked: Asked, hosts_on_leaf: int, uplinks: int) -> int | None:
    """Return the rate of leaves' uplinks that gives the oversubscription asked for, that is, what a
    leaf's hosts can send over what its uplinks carry. None means that all links have one rate.

    Raises:
        InputError: there is no such rate.
    """
    wanted = asked.oversubscription
    return _rate_bps("oversubscription", wanted, asked.rate_bps * hosts_on_leaf, uplinks)


def _core_rate_bps(asked: Asked, below_bps: int | None, links: int, uplinks: int) -> int | None:
    """Return the rate of links to core switches that gives the oversubscription asked for, that is,
    what the links of an aggregation switch to its leaves carry over what those to cores do."""
    wanted = asked.core_oversubscription
    sent_bps = (below_bps or asked.rate_bps) * links
    return _rate_bps("core-oversubscription", wanted, sent_bps, uplinks)


def _rate_bps(name: str, wanted: float | None, sent_bps: int, uplinks: int) -> int | None:
    if wanted is None:
        return None
    rate_bps = round(sent_bps / (uplinks * wanted))
    refuse(
        rate_bps < 100_000,
        f"{name} {wanted:g} makes links of {rate_bps} bit/s for the {sent_bps} that come from "
        "below: at least 100 kbit/s are needed; raise rate, or lower it",
    )
    return rate_bps


def placement_of(asked: Asked, network: clos.Topology) -> Placement:
    """Return which hosts of the network are ranks, and which are servers. Raises `InputError` if
    ranks or servers cannot be spread evenly, or a host is not there."""
    if asked.hosts or asked.is_own_network:
        return place_among(
            network,
            asked.hosts,
            jobs=asked.jobs,
            servers=asked.needs.servers,
            dedicated=not asked.needs.on_ranks,
            order=asked.rank_placement,
            seed=asked.seed,
        )
    leaves = len({host.leaf for host in network.hosts})
    return place(
        leaves,
        len(network.hosts) // leaves,
        jobs=asked.jobs,
        servers=asked.needs.servers,
        dedicated=not asked.needs.on_ranks,
        order=asked.rank_placement,
        seed=asked.seed,
    )


def default_servers(asked: Asked) -> int:
    """Return how many reduction servers there are by default: as many as ranks; in a fat tree,
    whose number of hosts is given, half of each leaf's hosts. Where ranks' hosts are named there
    are at most as many as other hosts, and in a network of one's own, half of all hosts."""
    if asked.hosts or asked.is_own_network:
        total = len(network_of(asked).hosts)
        ranks = len(asked.hosts) or total // 2
        if asked.needs.on_ranks:
            return len(asked.hosts) or total
        return max(1, min(ranks, total - ranks))
    if asked.topology == "single":
        return asked.hosts_per_leaf or 1
    if asked.topology == "leaf-spine":
        return (asked.leaves or 1) * (asked.hosts_per_leaf or 1)
    if asked.topology == "pods":
        return (asked.pods or 1) * (asked.leaves or 1) * (asked.hosts_per_leaf or 1)
    leaves = {host.leaf for host in clos.fat_tree(asked.k or 4, asked.tiers or 3).hosts}
    return len(leaves) * ((asked.k or 4) // 4) or 1


def hosts_and_places(asked: Asked) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Return, for each rank, the name of its host, and the pod and the switch where that is."""
    network = network_of(asked)
    hosts = [network.hosts[host] for host in placement_of(asked, network).jobs[0]]
    pods = {switch.name: switch.pod or 0 for switch in network.switches}
    return (
        tuple(host.name for host in hosts),
        tuple((pods[host.leaf], host.leaf) for host in hosts),
    )
