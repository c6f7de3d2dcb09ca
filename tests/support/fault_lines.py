"""Faults by their lines."""

from collections.abc import Iterable

from weft.topo.faults import Fault
from weft.topo.network import Topology


def parse_faults(lines: Iterable[str], topology: Topology) -> list[Fault]:
    """Read several lines and check that they fit a topology."""
    faults = [Fault.parse(line) for line in lines]
    for fault in faults:
        fault.check(topology)
    return faults
