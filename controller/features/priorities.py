"""Priorities: the queue of its egress port that a packet waits in, where ports have several."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from weft.agents.wire.headers import Opcode
from weft.controller.entities import Action, Entity, entry
from weft.controller.features.aggregation import address_of_job
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control.entities import Key, Ternary
from weft.switch.priority_queues import MOST_FABRIC_PRIORITIES
from weft.topo.network import Topology

OF_ACKNOWLEDGEMENTS, OF_JOBS, OF_DSCP = 3, 2, 1
"""Priorities of entries: which of them counts where several match."""
SELECTOR_MASK = 0b111000
"""The bits of a DSCP that are a class selector (RFC 2474, section 4.2.2)."""


@dataclass(frozen=True)
class Classes:
    """Which packets have which priority."""

    jobs: Sequence[tuple[Sequence[str], int]] = ()
    """By job, its hosts and the priority of what they send, and of what switches add for it."""
    ack_priority: int | None = None


class Priorities(Feature):
    """Priorities of packets. Callers say those of jobs and of acknowledgements (`Classes`); other
    packets have that of their DSCP's class selector, as far as there are queues."""

    name = "priorities"

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        if topology.priority_queues == 1:
            return None
        jobs = zip(demand.jobs, cycle(demand.priorities), strict=False) if demand.priorities else ()
        return Classes(list(jobs), demand.ack_priority)

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        topology = planning.topology
        if topology.priority_queues == 1:
            return Planned()
        classes = planning.wants.get(self.name) or Classes()
        entities = list(_entries(planning.names, topology, classes))
        return Planned({switch.name: entities for switch in topology.switches})


def _entries(names: ProgramNames, topology: Topology, classes: Classes) -> Iterator[Entity]:
    """Yield the entries of every switch."""
    table = names.name("traffic_class")
    dscp, opcode = names.name("ipv4.dscp"), names.name("bth.opcode")
    source, destination = names.name("ipv4.src_addr"), names.name("ipv4.dst_addr")

    def made(field: str, key: Key, priority: int, rank: int) -> Entity:
        action = Action.of(names.name("set_priority"), priority=priority)
        return entry(table, {field: key}, action, rank)

    if classes.ack_priority is not None:
        key = Ternary(Opcode.RC_ACKNOWLEDGE, 0xFF)
        yield made(opcode, key, classes.ack_priority, OF_ACKNOWLEDGEMENTS)
    for job, (hosts, priority) in enumerate(classes.jobs):
        yield made(destination, Ternary(address_of_job(job), 0xFFFFFFFF), priority, OF_JOBS)
        for host in hosts:
            for interface in topology.host(host).interfaces:
                if interface.address:
                    yield made(source, Ternary(interface.address, 0xFFFFFFFF), priority, OF_JOBS)
    greatest = min(topology.priority_queues, MOST_FABRIC_PRIORITIES) - 1
    for selector in range(1, MOST_FABRIC_PRIORITIES):
        key = Ternary(selector << 3, SELECTOR_MASK)
        yield made(dscp, key, min(selector, greatest), OF_DSCP)
