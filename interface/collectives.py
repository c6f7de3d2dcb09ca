"""Collectives on a network that is up: what of the network a scenario says, and one run of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.units import listed, shown
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.networks import FILE_ENDING
from weft.experiments.scenario.options import by_key, field_of, read_option
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.shape import with_queues_asked
from weft.topo.labs import LAB_ENDINGS
from weft.topo.labs.lab_format import Programs
from weft.topo.labs.reading import is_lab, read_lab
from weft.topo.network import Topology
from weft.topo.own import Network, from_networkx, read_network

SHAPES = ("leaf_spine", "fat_tree", "pods", "single")
RUNS_OF_THEIR_OWN = ("repeat", "seeds", "out", "pcap", "trace")
"""Options of whole experiments, which a single run on a standing network has no use for."""


def shape_of(network: Topology) -> dict[str, Any]:
    """Return the fields of a scenario that asks for a network like this, as far as its name and
    counts tell."""
    uplink = network.directions_of("host_up")[0].link
    leaf = network.leaf_of(0).name
    on_leaf = len(network.hosts_of(leaf))
    uplinks = [each for each in network.outward(leaf) if each.upward]
    fields: dict[str, Any] = {
        "topology": network.name,
        "rate_bps": uplink.rate_bps,
        "delay_ns": uplink.delay_ns,
        "queue_bytes": uplink.queue_bytes,
    }
    if network.name == "fat-tree":
        cores = network.switches_of("core")
        fields |= {"k": 2 * on_leaf, "tiers": 3 if cores else 2}
    else:
        fields["hosts_per_leaf"] = on_leaf
        if network.name == "pods":
            fields |= _sizes_of_pods(network)
        if network.name == "leaf-spine":
            tiers = (("leaves", "leaf"), ("spines", "spine"))
            fields |= {name: len(network.switches_of(tier)) for name, tier in tiers}  # type: ignore[arg-type]
    if uplinks and uplinks[0].link.rate_bps != uplink.rate_bps:
        carried_bps = len(uplinks) * uplinks[0].link.rate_bps
        fields["oversubscription"] = uplink.rate_bps * on_leaf / carried_bps
    return fields


def _sizes_of_pods(network: Topology) -> dict[str, Any]:
    """Return the fields that say how large the pods of a network are, and how fast their links to
    core switches."""
    spine = network.switches_of("agg")[0].name
    links = network.outward(spine)
    up = [each.link.rate_bps for each in links if each.upward]
    down = [each.link.rate_bps for each in links if not each.upward]
    pods = len({switch.pod for switch in network.switches_of("leaf")})
    fields: dict[str, Any] = {
        "pods": pods,
        "leaves": len(down),
        "spines": len(network.switches_of("agg")) // pods,
        "uplinks": len(up),
    }
    if up[0] != down[0]:
        fields["core_oversubscription"] = sum(down) / sum(up)
    return fields


def scenario_on(
    network: Topology, collective: str, base: Scenario | None = None, **fields: Any
) -> Scenario:
    """Return the scenario of a collective on a network.

    Args:
        base: the scenario that the network came up for, if it is up.

    Raises:
        InputError: the network is one of Weft's own shapes that has been changed; a field makes no
            sense, or needs another network than the one that is up.
    """
    if network.document:
        shape = {"topology": network.name, "graph": network.document}
    else:
        shape = shape_of(network)
    refuse(
        fields.get("payload") == "none",
        f"{collective}: payload none is for weft run: on a network that is up, scripts see frames, "
        "which have their bytes; leave payload out",
    )
    scenario = Scenario(collective, **{**shape, **fields, "payload": "all"})
    for row in OPTIONS.values() if base is not None else ():
        if row.field in fields and row.of_network(scenario) != row.of_network(base):
            raise InputError(
                f"{collective}: {row.name} {shown(fields.get(row.field))} needs another network "
                "than the one that is up: say it to weft.up, or leave it out"
            )
    if scenario.dedicated_servers:
        raise InputError(
            f"{collective} by {' and '.join(scenario.algorithms)}: its "
            f"{scenario.dedicated_servers} servers need hosts of their own, and the network has "
            "hosts for ranks alone: let ranks' hosts serve (server_placement='ranks'), or say "
            "which hosts are ranks, and how many of the others serve (servers=1, hosts='h0,h1')"
        )
    if scenario.network() != with_queues_asked(scenario, network):
        raise InputError(
            f"network {network.describe()}: it is not as "
            f"{listed(map('weft.{}'.format, SHAPES), 'or')} makes it; make a network of your own "
            "with weft.Network"
        )
    return scenario


def network_of(network: Any, programs: Programs | None = None) -> Topology:
    """Return the network that somebody has given: a `Topology`, a `weft.Network`, the path of a
    network file, of another tool's, too, or a graph of networkx. Raises InputError.

    Args:
        programs: those of the switches of another tool's network file.
    """
    if isinstance(network, Topology):
        return network
    if isinstance(network, Network):
        return network.topology()
    if isinstance(network, (str, os.PathLike)) and Path(network).suffix == FILE_ENDING:
        return read_network(Path(network))
    if is_lab(network):
        return read_lab(network, programs)
    if not hasattr(network, "edges"):
        raise InputError(
            f"network {shown(network)}: give one that weft.leaf_spine, weft.fat_tree, "
            "weft.pods or weft.single makes, a weft.Network, a network file (NAME.toml, or one of "
            "another tool: "
            f"NAME{', NAME'.join(LAB_ENDINGS)}), or a graph of networkx"
        )
    return from_networkx(network)


def fields_of(collective: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that options of a collective set, which are given as on the command line
    or as the fields' own values.

    Raises InputError for an option that does not exist, or that only a whole experiment has.
    """
    given = by_key(options, collective)
    for name, value in given.items():
        if name in RUNS_OF_THEIR_OWN:
            raise InputError(
                f"{collective}: {name} {shown(value)} is for experiments of many runs, weft.run: "
                "here, call this once for each run"
            )
    fields = {field_of(name): read_option(name, value) for name, value in given.items()}
    algorithms = fields.get("algorithms", ())
    if len(algorithms) > 1:
        raise InputError(
            f"{collective}: algorithm {', '.join(algorithms)}: one at a time; call this once for "
            "each"
        )
    return fields
