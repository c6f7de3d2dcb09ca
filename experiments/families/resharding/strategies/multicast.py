"""Multicast: the sender sends the slice once, and the switches bring it to all hosts that need it.
What is lost is read from the sender (`weft.agents.collectives.multicast_flows`). The paper, MLSys
2023, arXiv 2211.05322, could not have it."""

from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.experiments.families.resharding.strategies.broadcast import Broadcast, shared
from weft.experiments.families.resharding.strategy import Delivery, Flows, Strategy, Transfer


class MulticastStrategy(Strategy):
    """The strategy ``multicast``; see the module. To a single host it is one flow."""

    name = "multicast"
    about = "once, copied by the switches"
    position = 1
    colours = ("#0072b2", "#5aaae6")
    multicasts = True

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """See `Strategy`."""
        if len(transfer.needs) == 1:
            return Broadcast().add(flows, transfer)
        size_bytes = transfer.size_bytes
        copies = {need.host: flows.room(need.host, size_bytes) for need in transfer.needs}
        numbers = flows.builder.multicast(
            transfer.source, copies, size_bytes, transfer.memory, transfer.offset, transfer.after
        )
        received = {
            host: ((number, RECEIVED),) for host, number in zip(copies, numbers, strict=True)
        }
        free = tuple((number, DONE) for number in numbers)
        there = shared(flows, transfer, received)
        return Delivery({host: (copies[host],) for host in copies}, free, received, there)


STRATEGIES = (MulticastStrategy(),)
