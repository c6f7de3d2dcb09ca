"""Congestion marks: switches mark packets once so many packets wait in a queue (RFC 3168)."""

from weft.base.errors import InputError
from weft.controller.counters import LinkCells, LinkCounters
from weft.controller.entities import Action, DefaultAction, Entity
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.program_names import ProgramNames
from weft.topo.clos import Topology

MAX_THRESHOLD = (1 << 19) - 1
"""v1model's queue depths have 19 bits."""


class Congestion(Feature):
    """Marks on packets that meet a long queue. Callers say how many packets make it long, as
    `plan_marking` takes it."""

    name = "congestion"
    counters = ("ecn_marked",)

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return demand.ecn_threshold_packets

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        threshold = planning.wants.get(self.name, 0)
        return Planned(plan_marking(planning.names, planning.topology, threshold))

    def share(self, cells: LinkCells) -> LinkCounters:
        """See `Feature.share`."""
        return LinkCounters(marked_packets=cells.at_source("ecn_marked")[0])


def plan_marking(
    names: ProgramNames, topology: Topology, threshold_packets: int
) -> dict[str, list[Entity]]:
    """Return the marking threshold of every switch, by its name.

    A packet of a transport that understands marks is marked if ``threshold_packets`` or more
    packets wait in the egress queue when it comes there; with 0 no packet is marked. Raises
    InputError for a number that v1model's queue depths cannot have.
    """
    if not 0 <= threshold_packets <= MAX_THRESHOLD:
        raise InputError(
            f"ECN threshold of {threshold_packets} packets: it is 1 to {MAX_THRESHOLD}, "
            "or 0 for no marks"
        )
    if not threshold_packets:
        return {}
    action = Action.of(names.name("mark_from"), packets=threshold_packets)
    return {switch.name: [DefaultAction(names.name("ecn"), action)] for switch in topology.switches}
