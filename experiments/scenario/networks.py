"""Networks that are none of Weft's own shapes: those of files, of Python, and of other packages."""

from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import MAX_HOSTS
from weft.base.errors import refuse
from weft.base.registry import NoOptions, Registry
from weft.experiments.scenario.choices import TOPOLOGIES

if TYPE_CHECKING:
    from weft.topo.network import Topology

FILE_ENDING = ".toml"
HTSIM_ENDING = ".topo"


class NetworkShape:
    """A network of another package's own, for ``--topology NAME``.

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


NETWORKS: Registry[NetworkShape] = Registry(
    "weft.networks", needs=("topology", "options", "about"), taken=TOPOLOGIES
)
"""The networks of other packages, each a `NetworkShape`."""


def network_from(graph: str) -> "Topology":
    """Return the network of a description. Raises `InputError`."""
    from weft.topo.own import topology_from

    network = topology_from(graph)
    refuse(
        len(network.hosts) > MAX_HOSTS,
        f"network {network.name!r} has {len(network.hosts)} hosts: at most {MAX_HOSTS}",
    )
    return network
