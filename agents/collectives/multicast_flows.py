"""The multicasts of a graph of flows: one rank's part of them.

A multicast leaves by its group, at the rate of the link. When all of it has left, its source says
so to every destination (`Kind.SENT`). A destination that misses some of it waits until no more
comes, reads the rest from the source's memory by RDMA READ, and answers when it has everything
(`Kind.GOT`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.fetch import MAX_READS
from weft.agents.collectives.flow_columns import FlowMulticast
from weft.agents.collectives.operation import Posts, Ticket
from weft.agents.collectives.overheads import UD_OVERHEAD_BYTES
from weft.agents.collectives.requests import Request
from weft.agents.collectives.timing import (
    QUIET_CHUNKS,
    QUIET_MIN_NS,
    frames_bytes,
    send_time_ns,
)
from weft.agents.transport.queue_pairs import UdQueuePair
from weft.agents.transport.sink import ChunkSink
from weft.agents.transport.types import Gap, MemoryRegion
from weft.base.errors import ProtocolError, refuse

MULTICAST_RUN = "a multicast to leave"


@dataclass
class _Incoming:
    """A multicast comes to this rank."""

    cast: FlowMulticast
    sink: ChunkSink
    address: int = 0
    """Where its bytes are at the source, once that has sent all of them..."""
    rkey: int = 0
    check_ns: int | None = None
    """... and when this rank looks again whether more has come."""
    missing: int = 0
    """How many chunks were missing when it looked last."""
    reads: deque[Gap] = field(default_factory=deque)
    """Runs of chunks that are to be read from the source."""
    reading: int = 0


class MulticastFlows:
    """One rank's part of the multicasts of a graph.

    Raises:
        InputError: the communicator lacks a multicast group.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        regions: Sequence[MemoryRegion],
        posts: Posts,
    ) -> None:
        assert request.flows is not None
        graph, rank = request.flows, communicator.rank
        endpoint = communicator.endpoint
        self._communicator, self._number, self._posts = communicator, request.number, posts
        self._regions = regions
        self._packet_bytes = endpoint.path_mtu
        self._rate_bps = request.pace_bps or endpoint.rate_bps
        packet = frames_bytes(self._packet_bytes, self._packet_bytes, UD_OVERHEAD_BYTES)
        packet_ns = send_time_ns(packet, self._rate_bps) if self._rate_bps else 0
        self._quiet_ns = max(QUIET_MIN_NS, QUIET_CHUNKS * packet_ns)
        self._graph = graph
        self._own = {
            number: cast for number, cast in enumerate(graph.multicasts) if cast.source == rank
        }
        self._unsent = {number: len(cast.flows) for number, cast in self._own.items()}
        """How many flows of each own multicast have not begun."""
        self._unacknowledged: set[tuple[int, int]] = set()
        """(multicast, destination) that must still say that it has everything."""
        self._first: list[list[int]] = []
        """By group, the number of the first chunk of each multicast."""
        self._pairs: dict[int, UdQueuePair] = {}
        self._incoming: dict[int, _Incoming] = {}
        self._looked_after: set[int] = set()
        """Multicasts all of which have left, and that are not whole here."""
        self.sinks: list[ChunkSink] = []
        self.whole: set[int] = set()
        """Flows to this rank all of whose bytes are there."""
        self._feeds: list[tuple[UdQueuePair, ChunkSink]] = []
        self.received_bytes = 0
        self.chunks_fetched = 0
        self.chunks_read_twice = 0
        by_group: list[list[FlowMulticast]] = [[] for _ in graph.groups]
        for cast in graph.multicasts:
            by_group[cast.group].append(cast)
        for group, (members, casts) in enumerate(zip(graph.groups, by_group, strict=True)):
            chunks = [-(-cast.size_bytes // self._packet_bytes) for cast in casts]
            self._first.append([*accumulate(chunks, initial=0)])
            if rank not in members:
                continue
            refuse(
                group not in communicator.groups,
                f"flows: rank {rank} has no queue pair for multicast group {group}",
            )
            self._pairs[group] = communicator.groups[group]
            if rank != members[0]:
                self._expect(group, casts, request.number)

    def _expect(self, group: int, casts: Sequence[FlowMulticast], number: int) -> None:
        """Make room for the multicasts of a group that come to this rank."""
        rank, graph = self._communicator.rank, self._graph
        flows = [cast.flows[cast.destinations.index(rank)] for cast in casts]
        sink = ChunkSink(
            self._regions[1], number, self._packet_bytes,
            [cast.size_bytes for cast in casts],
            [int(graph.target_bytes[flow]) for flow in flows],
            senders=[self._communicator.addresses[cast.source] for cast in casts],
        )  # fmt: skip
        self.sinks.append(sink)
        self._feeds.append((self._pairs[group], sink))
        numbers = [graph.multicast[flow] for flow in flows]
        self._incoming |= {
            each: _Incoming(cast, sink) for each, cast in zip(numbers, casts, strict=True)
        }

    @property
    def missing(self) -> bool:
        """Return whether something is not there yet, or not known to be there elsewhere."""
        return bool(self._incoming or self._unacknowledged)

    @property
    def awaits_chunks(self) -> bool:
        """Return whether single chunks that arrive may make a multicast whole."""
        return any(not self._is_read(number) for number in self._looked_after)

    def attach(self) -> None:
        """Receive from now on."""
        for pair, sink in self._feeds:
            pair.attach(sink)

    def detach(self) -> None:
        """Receive nothing more."""
        for pair, sink in self._feeds:
            pair.detach(sink)

    def begin(self, flow: int) -> None:
        """Take note that a flow has begun; the last one of a multicast lets it go."""
        number = self._graph.multicast[flow]
        self._unsent[number] -= 1
        if self._unsent[number]:
            return
        cast = self._own[number]
        self._unacknowledged |= {(number, each) for each in cast.destinations}
        places = self._graph.places
        assert places is not None
        self._pairs[cast.group].post_chunks(
            self._regions[places.memory[flow]], 0, -(-cast.size_bytes // self._packet_bytes),
            self._packet_bytes, self._number << 24 | self._first[cast.group][cast.shard],
            self._rate_bps, self._posts.ticket(MULTICAST_RUN, number),
            offset=places.offset[flow], length=cast.size_bytes,
        )  # fmt: skip

    def completed(self, ticket: Ticket) -> None:
        """Take note that a multicast has left, or that an RDMA READ is complete."""
        if ticket.what == MULTICAST_RUN:
            assert isinstance(ticket.detail, int)
            self._tell_sent(ticket.detail)
        elif isinstance(ticket.detail, _Read):
            number, gap = ticket.detail
            incoming = self._incoming[number]
            fresh = incoming.sink.mark(gap.first_chunk, gap.count)
            self.chunks_fetched += fresh
            self.chunks_read_twice += gap.count - fresh
            incoming.reading -= 1
            self._read(number, incoming)

    def _tell_sent(self, number: int) -> None:
        cast, places = self._own[number], self._graph.places
        assert places is not None
        region = self._regions[places.memory[cast.flows[0]]]
        sent = Control(
            Kind.SENT, self._number, rank=number,
            address=region.address + places.offset[cast.flows[0]], rkey=region.rkey,
        )  # fmt: skip
        for destination in cast.destinations:
            self._posts.send(destination, sent)

    def sent(self, peer: int, message: Control, now_ns: int) -> None:
        """Hear that all of a multicast has left its source."""
        incoming = self._incoming.get(message.rank)
        if incoming is None or incoming.cast.source != peer or incoming.check_ns is not None:
            raise ProtocolError(f"SENT of multicast {message.rank}, which is not due")
        incoming.address, incoming.rkey = message.address, message.rkey
        incoming.check_ns = now_ns + self._quiet_ns
        incoming.missing = incoming.sink.missing_in(incoming.cast.shard)
        self._looked_after.add(message.rank)

    def got(self, peer: int, message: Control) -> int:
        """Hear that a destination has all of a multicast, and return the flow that went there."""
        place = (message.rank, peer)
        if place not in self._unacknowledged:
            raise ProtocolError(f"GOT of multicast {message.rank}, which is not due")
        self._unacknowledged.remove(place)
        cast = self._own[message.rank]
        return cast.flows[cast.destinations.index(peer)]

    def deadline(self) -> int | None:
        """Return when to look whether more of a multicast has come, or None."""
        checks = (self._incoming[number].check_ns for number in self._looked_after)
        times = (
            check_ns
            for number, check_ns in zip(self._looked_after, checks, strict=True)
            if check_ns is not None and not self._is_read(number)
        )
        return min(times, default=None)

    def _is_read(self, number: int) -> bool:
        incoming = self._incoming[number]
        return bool(incoming.reading or incoming.reads)

    def look(self, now_ns: int) -> list[int]:
        """Look after multicasts that have left their sources: read what does not come any more.
        Return the flows to this rank that are whole now."""
        found = []
        for number in sorted(self._looked_after):
            incoming = self._incoming[number]
            missing = incoming.sink.missing_in(incoming.cast.shard)
            if not missing and not self._is_read(number):
                found.append(self._end(number))
            elif self._is_read(number) or now_ns < (incoming.check_ns or 0):
                continue
            elif missing < incoming.missing:
                incoming.missing, incoming.check_ns = missing, now_ns + self._quiet_ns
            else:
                incoming.reads += incoming.sink.gaps(incoming.cast.shard)
                self._read(number, incoming)
        return found

    def _end(self, number: int) -> int:
        incoming = self._incoming.pop(number)
        self._looked_after.remove(number)
        cast = incoming.cast
        self._posts.send(cast.source, Control(Kind.GOT, self._number, rank=number))
        self.received_bytes += cast.size_bytes
        flow = cast.flows[cast.destinations.index(self._communicator.rank)]
        self.whole.add(flow)
        return flow

    def _read(self, number: int, incoming: _Incoming) -> None:
        while incoming.reads and incoming.reading < MAX_READS:
            gap = incoming.reads.popleft()
            incoming.reading += 1
            self._posts.read(
                incoming.cast.source, self._regions[1], gap.offset, gap.length,
                incoming.address + gap.shard_offset, incoming.rkey, _Read(number, gap),
            )  # fmt: skip


class _Read(NamedTuple):
    """The detail of an RDMA READ's ticket says which chunks of which multicast it brings."""

    number: int
    gap: Gap
