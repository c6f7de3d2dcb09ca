"""Networks that are none of Weft's own shapes: those of files, of Python, and of other packages."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from weft.base.entry_points import blamed, brought
from weft.base.errors import refuse
from weft.base.registry import NoOptions
from weft.base.units import shown
from weft.experiments.scenario.choices import COUNTS, MAX_HOSTS, TOPOLOGIES, flag

if TYPE_CHECKING:
    from weft.experiments.scenario.asked import Asked
    from weft.topo.network import Topology

FILE_ENDING = ".toml"
GROUP = "weft.networks"


class NetworkShape:
    """Make a network of another package's own, for ``--topology NAME``.

    The package names an instance of a subclass by an entry point in the group ``weft.networks``.
    """

    name: str
    about = ""
    """What help says of it beside its name, in a few words."""
    options: type[Any] = NoOptions
    """Options of its own, as those of `weft.agents.collectives.algorithm.Algorithm`."""

    def topology(self, own: Any) -> "Topology":
        """Return the network: what `weft.topo.own.Network.topology` returns.

        ``own`` is what is asked of the options, an instance of `options`.
        """
        raise NotImplementedError


@cache
def _brought() -> Mapping[str, NetworkShape]:
    return brought(GROUP, "topology", "options", "about", taken=tuple(TOPOLOGIES))


def described_networks() -> dict[str, str]:
    """Return what help says of each network of another package, by its name."""
    return {name: shape.about for name, shape in _brought().items()}


def network_shape(name: str) -> NetworkShape:
    """Return the network of that name, one of `described_networks`."""
    return _brought()[name]


def with_own_network(asked: "Asked") -> "Asked":
    """Check and fill in the description of a network that is none of Weft's own shapes, and the
    rate of its slowest host link. Raises `InputError`."""
    for name in (*COUNTS, "oversubscription"):
        refuse(
            getattr(asked, name) is not None,
            f"{flag(name)} {shown(getattr(asked, name))} means nothing for topology "
            f"{asked.topology!r}, which says itself how large it is: leave it out",
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


def network_from(graph: str) -> "Topology":
    """Return the network of a description. Raises `InputError`."""
    from weft.topo.own import topology_from

    network = topology_from(graph)
    refuse(
        len(network.hosts) > MAX_HOSTS,
        f"network {network.name!r} has {len(network.hosts)} hosts: at most {MAX_HOSTS}",
    )
    return network


def slowest_host_bps(network: "Topology", hosts: tuple[str, ...] = ()) -> int:
    """Return the least rate, in bit/s, of the links by which ranks send, which are on some hosts,
    or on all of them."""
    some = [network.host(name) for name in hosts] or network.hosts
    return min(network.outward(host.name)[0].link.rate_bps for host in some)


def _document(asked: "Asked") -> str:
    if asked.topology.endswith(FILE_ENDING):
        from weft.topo.own import read_network

        return read_network(asked.topology).document
    shape = network_shape(asked.topology)
    own = {name: getattr(asked, name) for name in shape.options.__dataclass_fields__}
    with blamed(shape, "topology"):
        network = shape.topology(shape.options(**own))
        document = getattr(network, "document", "")
        refuse(
            not document,
            f"{network!r} is no network that weft.Network or weft.from_networkx has made",
            TypeError,
        )
    return str(document)
