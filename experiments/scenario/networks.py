"""Networks that are none of Weft's own shapes: those of files, of Python, and of other packages."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from weft.base.entry_points import brought
from weft.base.errors import refuse
from weft.base.registry import NoOptions
from weft.experiments.scenario.choices import MAX_HOSTS, TOPOLOGIES

if TYPE_CHECKING:
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


def network_from(graph: str) -> "Topology":
    """Return the network of a description. Raises `InputError`."""
    from weft.topo.own import topology_from

    network = topology_from(graph)
    refuse(
        len(network.hosts) > MAX_HOSTS,
        f"network {network.name!r} has {len(network.hosts)} hosts: at most {MAX_HOSTS}",
    )
    return network
