"""Networks of one's own that several tests use."""

from __future__ import annotations

from typing import Any

import weft


def ring_of_switches(switches: int = 4, **figures: Any) -> weft.Network:
    """Switches in a ring, each with a host."""
    network = weft.Network("ring", **figures)
    for number in range(switches):
        network.host(f"h{number}")
        network.switch(f"s{number}")
        network.link(f"h{number}", f"s{number}")
    for number in range(switches if switches > 2 else switches - 1):
        network.link(f"s{number}", f"s{(number + 1) % switches}")
    return network
