"""Checks of a network that is none of Weft's own shapes; they also fill in its description."""

from dataclasses import fields, replace

from weft.base.entry_points import blamed
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import COUNTS, flag
from weft.experiments.scenario.networks import FILE_ENDING, NETWORKS, network_from
from weft.topo.network import Topology
from weft.topo.own import read_network


def with_own_network(asked: Asked) -> Asked:
    """Check and fill in the description of a network that is none of Weft's own shapes, and the
    rate of its slowest host link. Raises `InputError`."""
    for name in (*COUNTS, "oversubscription", "core_oversubscription"):
        if getattr(asked, name) is not None:
            raise InputError(
                f"{flag(name)} {shown(getattr(asked, name))} means nothing for topology "
                f"{asked.topology!r}, which says itself how large it is: leave it out"
            )
    graph = asked.graph or _document(asked)
    network = network_from(graph)
    rate_bps = slowest_host_bps(network, asked.hosts)
    for name, value, known in (
        ("rate", asked.rate_bps, (0, rate_bps)),
        ("delay", asked.delay_ns, (type(asked).delay_ns,)),
        ("queue", asked.queue_bytes, (type(asked).queue_bytes,)),
    ):
        refuse(
            value not in known,
            f"{name} {value} means nothing for topology {asked.topology!r}, whose links have "
            f"figures of their own: leave {name} out, or change the network",
        )
    return replace(asked, graph=graph, rate_bps=rate_bps)


def slowest_host_bps(network: Topology, hosts: tuple[str, ...] = ()) -> int:
    """Return the least rate, in bit/s, of the links by which ranks send, which are on some hosts,
    or on all of them."""
    some = [network.host(name) for name in hosts] or network.hosts
    return min(network.outward(host.name)[0].link.rate_bps for host in some)


def _document(asked: Asked) -> str:
    if asked.topology.endswith(FILE_ENDING):
        return read_network(asked.topology).document
    shape = NETWORKS[asked.topology]
    own = {each.name: getattr(asked, each.name) for each in fields(shape.options)}
    with blamed(shape, "topology"):
        network = shape.topology(shape.options(**own))
        document = getattr(network, "document", "")
        if not document:
            raise TypeError(
                f"{network!r} is no network that weft.Network or weft.from_networkx has made"
            )
    return str(document)
