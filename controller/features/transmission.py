"""The counters of what links carry, which the fabric's program keeps whatever else it does."""

from weft.controller.counters import LinkCells, LinkCounters
from weft.controller.features.feature import Feature


class Transmission(Feature):
    """Counters of packets and bytes by port. What a host sends is counted where it arrives."""

    name = "transmission"
    counters = ("port_egress",)
    host_counters = ("port_ingress",)

    def share(self, cells: LinkCells) -> LinkCounters:
        """See `Feature.share`."""
        if cells.direction.tier == "host_up":
            return LinkCounters(*cells.at_destination("port_ingress"))
        return LinkCounters(*cells.at_source("port_egress"))
