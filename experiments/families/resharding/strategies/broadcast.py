"""Broadcast: a chain over the receiving hosts, each of which passes on the blocks that come, while
more of them come (MLSys 2023, arXiv 2211.05322, section 3.1: t + A t / K for A hosts and K
blocks)."""

from collections.abc import Mapping, Sequence

from weft.agents.collectives.flow_columns import FlowPlace
from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.experiments.families.resharding.strategy import Delivery, Event, Flows, Strategy, Transfer


class Broadcast(Strategy):
    """The strategy ``broadcast``; see the module."""

    name = "broadcast"
    about = "a pipelined chain over the hosts"
    position = 0
    colours = ("#d55e00", "#f08c3c")

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """See `Strategy`."""
        size_bytes = transfer.size_bytes
        copies = {need.host: flows.room(need.host, size_bytes) for need in transfer.needs}
        first, *others = (need.host for need in transfer.needs)
        flow = flows.flow(transfer, first, copies[first], 0, size_bytes)
        received: dict[int, tuple[Event, ...]] = {first: ((flow, RECEIVED),)}
        passed_on: dict[int, tuple[Event, ...]] = {}
        free = ((flow, DONE),)
        here = first
        for other in others:
            where = FlowPlace(1, copies[here], copies[other])
            flow = flows.builder.flow(here, other, size_bytes, place=where, follows=flow)
            received[other] = ((flow, RECEIVED),)
            passed_on[here] = ((flow, DONE),)
            here = other
        there = shared(flows, transfer, received)
        freed = {host: (*events, *passed_on.get(host, ())) for host, events in received.items()}
        return Delivery({host: (copies[host],) for host in copies}, free, freed, there)


def shared(
    flows: Flows, transfer: Transfer, received: Mapping[int, Sequence[Event]]
) -> dict[int, tuple[Event, ...]]:
    """Add the copying inside each host of a slice that comes once, block by block, and return its
    end by host."""
    return {
        need.host: flows.copied_as_it_comes(
            need.host, transfer.size_bytes, need.devices - 1, received[need.host]
        )
        for need in transfer.needs
    }


STRATEGIES = (Broadcast(),)
