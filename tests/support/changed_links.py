"""Networks of which one link differs from the others."""

from dataclasses import replace
from typing import Any

from weft.topo.network import Topology


def with_link(topology: Topology, name: str, **figures: Any) -> Topology:
    """Return the same network with figures of the link of that name changed: ``rate_bps``,
    ``delay_ns`` or ``queue_bytes``."""
    old = topology.link(name)
    new = replace(old, **figures)
    return replace(topology, links=tuple(new if link is old else link for link in topology.links))
