"""Loss on purpose: this module turns probabilities of loss into fault entries of the switches.

A direction of a link loses packets at the ingress of its far end; hosts run no P4, so towards a
host the switch's egress decides. So every packet is exposed once per link.
"""

from collections.abc import Iterable, Mapping

from weft.base.errors import InputError, refuse
from weft.controller.counters import LinkCells, LinkCounters
from weft.controller.entities import Action, Entity, entry
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control.entities import Exact
from weft.topo.clos import Topology
from weft.topo.faults import LinkLoss

CERTAIN = 1 << 32
"""The threshold for probability 1, which 32 bits cannot hold; action lose_all stands for it."""


class Faults(Feature):
    """Losses of packets on purpose. Callers give the probabilities of loss, as `losses` returns
    them."""

    name = "faults"
    counters = ("ingress_lost",)
    host_counters = ("egress_lost",)

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return losses(topology, demand.loss, demand.losses)

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        wanted = planning.wants.get(self.name, {})
        return Planned(plan_faults(planning.names, planning.topology, wanted))

    def share(self, cells: LinkCells) -> LinkCounters:
        """See `Feature.share`. What a host loses is counted where it leaves the last switch."""
        packets, size_bytes = (
            cells.at_source("egress_lost")
            if cells.direction.tier == "host_down"
            else cells.at_destination("ingress_lost")
        )
        return LinkCounters(lost_packets=packets, lost_bytes=size_bytes)


def losses(
    topology: Topology, loss: float = 0.0, faults: Iterable[LinkLoss] = ()
) -> dict[tuple[str, str], float]:
    """Return the probability of loss of each direction, by its ends; it is ``loss`` where no fault
    says otherwise.

    Directions without loss are left out, and links between hosts, on which no switch could lose
    anything. Raises InputError for an unknown link, or a fault of a link between hosts.
    """
    found = {
        direction.ends: loss
        for direction in topology.directions
        if not topology.between_hosts(direction.link)
    }
    for fault in faults:
        chosen = topology.select(fault.link)
        refuse(
            topology.between_hosts(chosen[0].link),
            f"fault '{fault}': switches lose packets, and both ends of {chosen[0].link.name} are "
            "hosts: put a switch between",
        )
        found |= {direction.ends: fault.loss for direction in chosen}
    return {ends: probability for ends, probability in found.items() if probability}


def plan_faults(
    names: ProgramNames, topology: Topology, losses: Mapping[tuple[str, str], float]
) -> dict[str, list[Entity]]:
    """Return the fault entries of every switch that has any, by its name.

    ``losses`` has a probability from 0 to 1 for each direction, which is given by the names of its
    ends; it takes effect in steps of 2^-32. Raises InputError for another number or an unknown
    direction.
    """
    found: dict[str, list[Entity]] = {}
    for ends, probability in losses.items():
        direction = topology.direction(*ends)
        if not 0 <= probability <= 1:
            raise InputError(f"loss {probability} on {direction.name}: a probability is 0 to 1")
        threshold = round(probability * CERTAIN)
        if not threshold:
            continue
        into_host = topology.nodes[direction.destination.node].level == 0
        at = direction.source if into_host else direction.destination
        side = "egress" if into_host else "ingress"
        control = f"Fabric{side.capitalize()}.fault."
        action = (
            Action(names.name(control + "lose_all"))
            if threshold == CERTAIN
            else Action.of(names.name(control + "lose"), threshold=threshold)
        )
        match = {names.name(f"{side}_port"): Exact(at.number)}
        found.setdefault(at.node, []).append(entry(names.name(f"{side}_fault"), match, action))
    return found
