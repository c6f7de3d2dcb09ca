"""What a resharding strategy is: how one unit task's slice gets from its sender to the hosts that
need it, as flows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.agents.collectives.flow_columns import FlowPlace
from weft.agents.collectives.flow_graph import DONE
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.tensors import Box, Piece

Event = tuple[int, int]
"""(task, `DONE` or `RECEIVED`), as a `GraphBuilder` takes it."""


class Need(NamedTuple):
    """Which devices of a host need a slice."""

    host: int
    devices: int
    """How many they are."""


class Transfer(NamedTuple):
    """A transfer brings one slice from a host to others."""

    source: int
    memory: int
    """Where the source has the slice: 0 in its buffer, 1 in its output."""
    offset: int
    size_bytes: int
    needs: tuple[Need, ...]
    """The hosts that it goes to, in the order in which a chain visits them."""
    after: tuple[Event, ...]
    """What must have happened before it begins."""


@dataclass(frozen=True)
class Delivery:
    """Where a strategy has put a slice, and when what is free again or there."""

    copies: Mapping[int, tuple[int, ...]]
    """By host, where in its output the slice is: once for all of its devices, or once for each."""
    sender_free: tuple[Event, ...]
    """What frees the sender's link."""
    receivers_free: Mapping[int, tuple[Event, ...]]
    """By host, what frees its link."""
    there: Mapping[int, tuple[Event, ...]]
    """By host, after what all of its devices have the slice."""


@dataclass
class Flows:
    """The flows that strategies add, and the memory that these take.

    Args:
        hosts: how many hosts there are.
        rate_bps: the rate of their links.
        local_factor: how many times as fast as its link a host copies between its devices.
        block_bytes: what a flow passes on at a time.
    """

    hosts: int
    rate_bps: int
    local_factor: float
    block_bytes: int
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    buffer_bytes: list[int] = field(default_factory=list)
    output_bytes: list[int] = field(default_factory=list)
    held: list[dict[tuple[int, Box], Piece]] = field(default_factory=list)
    """By host, the slices in its buffer, each once."""

    def __post_init__(self) -> None:
        self.buffer_bytes = [0] * self.hosts
        self.output_bytes = [0] * self.hosts
        self.held = [{} for _ in range(self.hosts)]

    def hold(self, host: int, tensor: int, box: Box, size_bytes: int) -> Piece:
        """Return where a host has a slice in its buffer."""
        key = (tensor, box)
        if key not in self.held[host]:
            self.held[host][key] = Piece(tensor, box, 0, self.buffer_bytes[host])
            self.buffer_bytes[host] += size_bytes
        return self.held[host][key]

    def room(self, host: int, size_bytes: int) -> int:
        """Return where there is room for so many bytes in a host's output."""
        offset = self.output_bytes[host]
        self.output_bytes[host] += size_bytes
        return offset

    def flow(
        self, transfer: Transfer, host: int, target: int, first: int, size_bytes: int,
        after: Iterable[Event] | None = None,
    ) -> int:  # fmt: skip
        """Add a flow of a part of a transfer's slice from its source, and return its number.

        Args:
            target: where the part goes in the host's output.
            first, size_bytes: which bytes of the slice they are.
            after: what it waits for; by default what the transfer does.
        """
        place = FlowPlace(transfer.memory, transfer.offset + first, target)
        events = transfer.after if after is None else after
        return self.builder.flow(transfer.source, host, size_bytes, events, place=place)

    def copied(self, host: int, size_bytes: int, after: Sequence[Event]) -> tuple[Event, ...]:
        """Add the copying of bytes between a host's devices, and return its end."""
        if not size_bytes:
            return tuple(after)
        return ((self.builder.wait(host, self._copying_ns(size_bytes), after), DONE),)

    def copied_as_it_comes(
        self, host: int, slice_bytes: int, copies: int, after: Sequence[Event]
    ) -> tuple[Event, ...]:
        """Add the copying of a slice to so many more of a host's devices, block by block while it
        comes over the link, and return its end.

        Args:
            after: that the whole slice is there.
        """
        if not copies:
            return tuple(after)
        # Copying begins with the first block, and ends no earlier than with the last.
        block_bytes = min(self.block_bytes, slice_bytes)
        coming_ns = (slice_bytes - block_bytes) * 8 * 10**9 // self.rate_bps
        copying_ns = max(
            self._copying_ns(copies * block_bytes),
            self._copying_ns(copies * slice_bytes) - coming_ns,
        )
        return ((self.builder.wait(host, copying_ns, after), DONE),)

    def _copying_ns(self, size_bytes: int) -> int:
        return round(size_bytes * 8e9 / (self.rate_bps * self.local_factor))


def parts(size_bytes: int, count: int) -> list[tuple[int, int]]:
    """Cut bytes into `count` parts as even as can be; return (first, size) of those that have
    any."""
    ends = [size_bytes * number // count for number in range(count + 1)]
    return [(ends[n], ends[n + 1] - ends[n]) for n in range(count) if ends[n + 1] > ends[n]]


class Strategy:
    """A strategy says how a slice gets from one host to others.

    Another package brings an instance by an entry point in the group
    ``weft.resharding_strategies``.
    """

    name: str
    about = ""
    """What help says of it beside its name, in a few words."""
    position = 100
    """Its place in lists."""
    colours: tuple[str, str] = ("#6a51a3", "#ab95dd")
    """Its colours in plots and pages, on white and on dark."""
    multicasts = False
    """Whether it needs multicast groups of the switches."""

    def add(self, flows: Flows, transfer: Transfer) -> Delivery:
        """Add the flows of one transfer."""
        raise NotImplementedError
