"""One worker of a host's progress engine: the receive path of its own multicast groups, with
nothing shared.

SC24 multicast Allgather, sections "Subgroups" and "SmartNIC offload": a buffer is cut over W
workers; worker w owns its groups, its bitmap and its staging ring. A worker here has words, events
and scratch of its own and runs the compiled receive path of `Endpoint`; so W of them may run in W
threads without a lock. What other threads may do meanwhile: attach and detach sinks, mark chunks
and ask sinks what is missing.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from weft.agents.datagrams import Datagrams, ipv4_text
from weft.agents.transport import layout as at
from weft.agents.transport import sink_layout as at_sink
from weft.agents.transport.groups import check_group
from weft.agents.transport.kernels.receive import receive_chunks, wait_for_batch
from weft.agents.transport.sink import PLACES, ChunkSink, in_its_place, own_lines
from weft.agents.transport.types import Statistics, TransportMisuse
from weft.agents.wire.packets import Fields
from weft.base.errors import refuse
from weft.base.jit import words_in, words_of

STAGING_SLOTS = 8192
"""The paper's queue depth."""
WINDOW = 128
"""Completions a poll, as the paper's."""
SLOT_BYTES = 4096
"""The largest payload of a RoCEv2 packet."""


class ReceiveWorker:
    """A receive worker receives the chunks of some groups, each an address and a Q_Key.

    `address` is the host's own (what it sent itself is dropped). `staged` says how payloads reach
    their sinks: straight from the packet, copied once, or through a ring of `slots` slots of
    `slot_bytes` whose completions are polled `window` at a time, copied twice. Both end with the
    same sinks and the same counters. TransportMisuse for values that make no sense.
    """

    def __init__(
        self,
        address: int,
        groups: Sequence[tuple[int, int]],
        *,
        staged: bool = False,
        slots: int = STAGING_SLOTS,
        slot_bytes: int = SLOT_BYTES,
        window: int = WINDOW,
    ) -> None:
        for name, value in (("slots", slots), ("slot_bytes", slot_bytes), ("window", window)):
            refuse(
                value < 1,
                f"a staging ring with {name} {value}: at least 1 is needed",
                TransportMisuse,
            )
        self.address = address
        self.groups = [group for group, _ in groups]
        self._slot_bytes = slot_bytes if staged else 0
        self.finished: deque[ChunkSink] = deque()
        """What the receiving thread polled, for the thread that waits for it."""
        self._sinks: list[dict[int, ChunkSink]] = [{} for _ in groups]
        rows = max(len(groups), 1)
        self._table = own_lines(rows * words_in(at.GroupRow)).view(at.GroupRow.dtype)
        room = PLACES * rows
        self._events = own_lines((room + 1) * words_in(at.Event)).view(at.Event.dtype)
        self._scratch = own_lines(words_in(Fields))
        self.state = at_sink.WorkerState.within(own_lines(words_in(at_sink.WorkerState)))
        """All state of the worker."""
        self.state_address = self.state.location
        """Where it is, for compiled code that calls `receive_chunks` by itself, and `poll` after
        it."""
        endpoint = self.state.endpoint
        endpoint.fill(
            address=address,
            group_table=self._table.ctypes.data,
            groups=len(groups),
            event_table=self._events.ctypes.data,
            event_room=room,
            scratch=self._scratch.ctypes.data,
        )
        for index, (group, qkey) in enumerate(groups):
            check_group(group)
            row = at.GroupRow.at(endpoint.group_table, index)
            row.fill(address=group, qkey=qkey, queue_pair=index)
        if staged:
            # Registered memory is pinned: no page is touched for the first time by a packet.
            self._staging = np.full((slots, slot_bytes), 0, np.uint8)
            self._completions = own_lines(slots * words_in(at_sink.Staged))
            self.state.fill(
                staging=self._staging.ctypes.data,
                completions=self._completions.ctypes.data,
                slots=slots,
                slot_bytes=slot_bytes,
                window=window,
            )

    @property
    def staged(self) -> bool:
        """Return whether payloads go through the staging ring."""
        return bool(self._slot_bytes)

    @property
    def statistics(self) -> Statistics:
        """Return a copy of the counters, those of an endpoint."""
        return Statistics(*words_of(self.state.endpoint.statistics).tolist())

    def attach(self, sink: ChunkSink, group: int = 0) -> None:
        """Receive the chunks of the sink's operation on group `group` (by its place in the list).

        TransportMisuse if a sink of an operation with the same lower 8 bits is there, or its chunks
        do not fit a slot.
        """
        attached = self._sinks[group].get(sink.place)
        if attached is not None and attached is not sink:
            raise TransportMisuse(
                f"operation {attached.operation} has a sink on {ipv4_text(self.groups[group])} "
                f"already{in_its_place(attached, sink)}"
            )
        refuse(
            self._slot_bytes and sink.chunk_bytes > self._slot_bytes,
            f"chunks of {sink.chunk_bytes} bytes do not fit the staging ring's slots of"
            f" {self._slot_bytes}",
            TransportMisuse,
        )
        sink.feed(self)
        self._sinks[group][sink.place] = sink
        self._table["sinks"][group, sink.place] = sink.state.location

    def detach(self, sink: ChunkSink, group: int = 0) -> None:
        """Receive no more into the sink from a group: its late chunks count as `wrong_operation`.

        Afterwards nobody writes the sink or its buffer: a batch that another thread is receiving
        at the moment is waited for.
        """
        if self._sinks[group].get(sink.place) is sink:
            self._table["sinks"][group, sink.place] = 0
            wait_for_batch(self.state_address)
            del self._sinks[group][sink.place]

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived; the batch is not kept."""
        receive_chunks(self.state_address, batch.address, batch.count, now_ns)

    def poll(self) -> list[ChunkSink]:
        """Return the sinks of which a packet brought the last missing chunk since the last poll, in
        order. For the thread that receives."""
        count = self.state.endpoint.events
        if not count:
            return []
        self.state.endpoint.events = 0
        events = at.Event.copies(self._events[:count])
        named = (self._sinks[event.queue_pair].get(event.value) for event in events)
        return [sink for sink in named if sink is not None and not sink.missing]
