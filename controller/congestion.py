"""Marks of congestion: from how many waiting packets on the switches mark (RFC 3168)."""

from weft.base.errors import refuse
from weft.controller import fabric
from weft.controller.entities import Action, DefaultAction, Entity
from weft.topo.clos import Topology


def plan_marking(topology: Topology, threshold_packets: int) -> dict[str, list[Entity]]:
    """The marking threshold of every switch, by its name.

    ``threshold_packets``: a packet of a transport that understands marks is marked where so many
    or more wait in an egress queue as it comes there; 0: none is. Raises InputError for a number
    that v1model's queue depths do not have.
    """
    refuse(
        not 0 <= threshold_packets <= fabric.MAX_ECN_THRESHOLD,
        f"ECN threshold of {threshold_packets} packets: it is 1 to {fabric.MAX_ECN_THRESHOLD}, "
        "or 0 for no marks",
    )
    if not threshold_packets:
        return {}
    action = Action.of(fabric.name("mark_from"), packets=threshold_packets)
    return {
        switch.name: [DefaultAction(fabric.name("ecn"), action)] for switch in topology.switches
    }
