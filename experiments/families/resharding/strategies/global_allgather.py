"""Global all-gather: the slice is scattered over all devices of all hosts, which then gather it
from each other around a ring of the hosts (MLSys 2023, arXiv 2211.05322, section 3.1: about
2 t)."""

from collections.abc import Mapping, Sequence

from weft.agents.collectives.flow_columns import FlowPlace
from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.experiments.families.resharding.strategy import (
    Delivery,
    Event,
    Flows,
    Need,
    Strategy,
    Transfer,
    parts,
)


class GlobalAllgather(Strategy):
    """The strategy ``global-allgather``; see the module."""

    name = "global-allgather"
    about = "a part for each device, gathered by all"
    position = 4
    colours = ("#009e73", "#3fc79e")

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """See `Strategy`."""
        hosts = [need.host for need in transfer.needs]
        copies = {host: flows.room(host, transfer.size_bytes) for host in hosts}
        shares = _shares(transfer.size_bytes, transfer.needs)
        scattered: list[Event] = []
        own: list[list[int]] = []
        for need, (begin, size_bytes) in zip(transfer.needs, shares, strict=True):
            numbers = [
                flows.flow(transfer, need.host, copies[need.host] + begin + first, begin + first,
                           size)
                for first, size in parts(size_bytes, need.devices)
            ]  # fmt: skip
            own.append(numbers)
            scattered += [(number, RECEIVED) for number in numbers]
        received: dict[int, list[Event]] = {
            host: [(number, RECEIVED) for number in numbers]
            for host, numbers in zip(hosts, own, strict=True)
        }
        sent = [(number, DONE) for numbers in own for number in numbers]
        before = {host: _gathered(flows, host, scattered) for host in hosts}
        for place in range(len(hosts)):
            self._pass_around(flows, hosts, place, shares[place], copies, before, received)
        there = {
            need.host: flows.copied(
                need.host, (need.devices - 1) * transfer.size_bytes, received[need.host]
            )
            for need in transfer.needs
        }
        free = {host: tuple(events) for host, events in received.items()}
        return Delivery({host: (copies[host],) for host in hosts}, tuple(sent), free, there)

    def _pass_around(
        self, flows: Flows, hosts: Sequence[int], place: int, share: tuple[int, int],
        copies: Mapping[int, int], before: Mapping[int, Sequence[Event]],
        received: Mapping[int, list[Event]],
    ) -> None:  # fmt: skip
        """Send one host's share around the ring, each host passing on what comes."""
        begin, size_bytes = share
        followed = -1
        for step in range(len(hosts) - 1 if size_bytes else 0):
            here = hosts[(place + step) % len(hosts)]
            other = hosts[(place + step + 1) % len(hosts)]
            where = FlowPlace(1, copies[here] + begin, copies[other] + begin)
            followed = flows.builder.flow(
                here, other, size_bytes, () if step else before[here], place=where,
                follows=followed,
            )  # fmt: skip
            received[other].append((followed, RECEIVED))


def _shares(size_bytes: int, needs: Sequence[Need]) -> list[tuple[int, int]]:
    """Return (first, size) of the part of a slice that each host gets, by its devices."""
    devices = sum(need.devices for need in needs)
    ends = [0]
    for need in needs:
        ends.append(ends[-1] + need.devices)
    places = [size_bytes * end // devices for end in ends]
    return [(places[n], places[n + 1] - places[n]) for n in range(len(needs))]


def _gathered(flows: Flows, host: int, events: Sequence[Event]) -> tuple[Event, ...]:
    return ((flows.builder.wait(host, after=events), DONE),)


STRATEGIES = (GlobalAllgather(),)
