"""Send/recv: the sender sends the slice to every device by itself, also to several devices of one
host (MLSys 2023, arXiv 2211.05322, section 3.1: A x B x t for A hosts of B devices)."""

from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.experiments.families.resharding.strategy import (
    Delivery,
    Event,
    Flows,
    Strategy,
    Transfer,
    parts,
)


class SendRecv(Strategy):
    """The strategy ``send-recv``; see the module."""

    name = "send-recv"
    about = "a copy for each device"
    position = 2
    colours = ("#e69f00", "#f3bd4a")

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """See `Strategy`."""
        copies: dict[int, tuple[int, ...]] = {}
        sent: list[Event] = []
        received: dict[int, tuple[Event, ...]] = {}
        size_bytes = transfer.size_bytes
        for need in transfer.needs:
            copies[need.host] = tuple(
                flows.room(need.host, size_bytes) for _ in range(need.devices)
            )
            numbers = [
                flows.flow(transfer, need.host, target, 0, size_bytes)
                for target in copies[need.host]
            ]
            sent += [(number, DONE) for number in numbers]
            received[need.host] = tuple((number, RECEIVED) for number in numbers)
        return Delivery(copies, tuple(sent), received, received)


class SendRecvAllgather(Strategy):
    """The strategy ``send-recv+allgather``: every device of a host gets a part of the slice, and
    the devices of the host gather the rest from each other (A x t)."""

    name = "send-recv+allgather"
    about = "a part for each device of a host, gathered inside the host"
    position = 3
    colours = ("#cc79a7", "#e09cc2")

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """See `Strategy`."""
        copies: dict[int, tuple[int, ...]] = {}
        sent: list[Event] = []
        received: dict[int, tuple[Event, ...]] = {}
        there: dict[int, tuple[Event, ...]] = {}
        for need in transfer.needs:
            target = flows.room(need.host, transfer.size_bytes)
            copies[need.host] = (target,)
            numbers = [
                flows.flow(transfer, need.host, target + first, first, size)
                for first, size in parts(transfer.size_bytes, need.devices)
            ]
            sent += [(number, DONE) for number in numbers]
            events = received[need.host] = tuple((number, RECEIVED) for number in numbers)
            more_bytes = (need.devices - 1) * transfer.size_bytes
            there[need.host] = flows.copied(need.host, more_bytes, events)
        return Delivery(copies, tuple(sent), received, there)


STRATEGIES = (SendRecv(), SendRecvAllgather())
