"""A host's network endpoint: memory regions, queue pairs, completions; sans-I/O.

The four verbs of every active thing: `receive`, `transmit`, `deadline`, and `poll` for what
happened. Whoever drives it calls `transmit` after every `receive` and every post, again until it
returns nothing, and at `deadline()`.

What happens per packet is compiled (`kernels`) and works on records in memory (`layout`); here are
the calls per operation.
"""

import random
import weakref
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams, ipv4_text
from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import board_layout as at_board
from weft.agents.transport import layout as at
from weft.agents.transport.aggregation import AggregationQueuePair, make_job
from weft.agents.transport.attached_relays import AttachedRelays
from weft.agents.transport.connections import make_connections, make_group_pairs
from weft.agents.transport.groups import MulticastGroups
from weft.agents.transport.kernels.chunks import NEVER
from weft.agents.transport.kernels.memory import free_pools
from weft.agents.transport.kernels.receive import receive_batch
from weft.agents.transport.kernels.transmit import deadline_of, transmit_batch
from weft.agents.transport.local import FIRST_LOCAL_NUMBER, LocalQueuePair
from weft.agents.transport.noted_sums import NotedSums
from weft.agents.transport.posting import Completion
from weft.agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from weft.agents.transport.receive_worker import ReceiveWorker
from weft.agents.transport.regions import MemoryRegions
from weft.agents.transport.settings import check_endpoint, first_number, set_control, set_times
from weft.agents.transport.source_ports import source_port
from weft.agents.transport.types import (
    MemoryRegion,
    RemoteQueuePair,
    Statistics,
    TransportMisuse,
    TransportOptions,
)
from weft.agents.wire.headers import HEADER_ROOM_BYTES
from weft.agents.wire.packets import Fields
from weft.base.errors import refuse
from weft.base.jit import Words, words_in, words_of
from weft.base.pages import zeroed

Table = npt.NDArray[np.void]

_MAXIMUM_QUEUE_PAIRS = 1 << 16


def _free_memory(state: at.EndpointState) -> None:
    """Give back what compiled code took for an endpoint that is gone."""
    if state.read_blocks.made or state.boards.made:
        free_pools(state.location)


class Endpoint:
    """An endpoint is one host's transport: its RC and UD queue pairs share an address and a link.

    `address` is the host's IPv4 address as an integer; `path_mtu` the RoCE payload of a packet
    (256, 512, 1024, 2048 or 4096 bytes), the same at every peer; `rate_bps` the host's link rate,
    which paces everything that it sends in frame bytes (0: unlimited); `seed` gives QP numbers,
    first PSNs and keys. Same calls at the same times, same packets. TransportMisuse for values
    that make no sense.

    `epoch`, from 1 on, is for a host that had an endpoint before, with the same seed: with another
    epoch there are other QP numbers, as far from all others as they can be (`first_number`), and
    other PSNs and keys. Within an endpoint no QP number is used twice. So nothing of a queue pair
    that is gone is taken by one that has come after it.
    """

    def __init__(
        self,
        address: int,
        path_mtu: int = 4096,
        rate_bps: int = 0,
        seed: int = 0,
        options: TransportOptions | None = None,
        epoch: int = 1,
    ) -> None:
        check_endpoint(path_mtu, rate_bps, epoch)
        self.address = address
        self.path_mtu = path_mtu
        self.rate_bps = rate_bps
        self.options = options or TransportOptions()
        self.draws = random.Random(f"{seed} {address}")
        number = first_number(self.draws, epoch)
        if epoch > 1:
            self.draws = random.Random(f"{seed} {address} {epoch}")
        self._pairs: Table = np.zeros(0, at.PairState.dtype)
        self._times: Words = np.zeros(0, np.int64)
        """The trees of times and the table of rows that changed."""
        self._regions = MemoryRegions(self.draws)
        self.memory_of, self.named_memory = self._regions.memory_of, self._regions.named
        self._events: Table = zeroed(256, at.Event.dtype)
        self._scratch = Fields.within(zeroed(words_in(Fields), np.int64))
        self.state = at.EndpointState.within(zeroed(words_in(at.EndpointState), np.int64))
        self.sums: NotedSums | None = None  # where they are noted, if data travel without bytes
        self._groups = MulticastGroups(self.state)
        self.sinks_of = self._groups.sinks_of
        self.state_address = self.state.location
        """Where it is, for compiled code that calls `receive_batch` and `transmit_batch` by itself,
        and then `take_events` if there are any."""
        self._queue_pairs: list[RcQueuePair | UdQueuePair | AggregationQueuePair] = []
        self._jobs: list[int] = []
        """The addresses of aggregation jobs."""
        self._relays = AttachedRelays(self.state)
        self.attach, self.detach = self._relays.attach, self._relays.detach
        self._completions: list[Completion] = []
        self._locals: list[LocalQueuePair] = []
        self._workers: list[tuple[ReceiveWorker, list[UdQueuePair]]] = []
        self._event_rows = 64 + 2 * self.options.batch_packets
        """How many events there may be in one transmit: what is here for each queue pair, and of
        the batch."""
        self._stale = True
        self.state.fill(
            address=address,
            path_mtu=path_mtu,
            rate_bps=rate_bps,
            first_number=number,
            was_idle=1,
            scratch=self._scratch.location,
        )
        set_times(self.state, self.options)
        self._make_rows(4)
        self.congestion = set_control(self.state, self.options, seed)
        self._echoes: Table = np.zeros(at.ECHO_ROOM if self.state.echo else 0, at.Echo.dtype)
        self.state.echo_table = self._echoes.ctypes.data if self.state.echo else 0
        self._held_rows = at_board.MAXIMUM_HELD_EVENTS if self.state.board_room else 0
        """How many more events there may be for what was kept ahead of gaps."""
        if self._held_rows:
            self._make_event_room(self._event_rows + self._held_rows)
        weakref.finalize(self, _free_memory, self.state).atexit = False

    def _set_tables(self) -> None:
        self.state.fill(
            queue_pair_table=self._pairs.ctypes.data,
            region_table=self._regions.table.ctypes.data,
            event_table=self._events.ctypes.data,
            event_room=len(self._events) - 1,
        )
        self._stale = True

    def register(self, buffer: npt.NDArray[np.uint8]) -> MemoryRegion:
        """Let peers that show the key read and write a C-contiguous uint8 buffer (of any size,
        also 0)."""
        region = self._regions.register(buffer)
        self.state.regions = self._regions.rows
        self._set_tables()
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Take a region back: later requests for it are refused. Posted operations on it must have
        completed."""
        self._regions.deregister(region)

    @property
    def maximum_window(self) -> int:
        """Return how many packets a queue pair has under way at most, and at first."""
        return self.state.maximum_window

    def create_rc(
        self, source_port: int | None = None, tos: int = 0, initial_psn: int | None = None
    ) -> RcQueuePair:
        """Make a new RC queue pair; its first PSN is drawn if it is not given.

        `source_port` is the UDP source port of its packets (path entropy; by default from its
        number).
        """
        return self._connections([source_port], tos, initial_psn)[0]

    def _connections(
        self, ports: Sequence[int | None], tos: int = 0, psn: int | None = None
    ) -> list[RcQueuePair]:
        made = make_connections(self, ports, tos, psn)
        self._queue_pairs += made
        return made

    def create_local(self) -> LocalQueuePair:
        """Make a new queue pair to another one of this endpoint; nothing of it becomes a packet."""
        pair = LocalQueuePair(self, FIRST_LOCAL_NUMBER + len(self._locals))
        self._locals.append(pair)
        return pair

    def local_pair(self, remote: RemoteQueuePair) -> LocalQueuePair:
        """Return the local queue pair that `remote` names, for a queue pair of this host. Raises
        TransportMisuse if there is none."""
        index = remote.number - FIRST_LOCAL_NUMBER
        if remote.address != self.address or not 0 <= index < len(self._locals):
            raise TransportMisuse(
                f"{ipv4_text(remote.address)} (QP {remote.number:#x}) is no local queue pair of "
                f"{ipv4_text(self.address)}"
            )
        return self._locals[index]

    def create_ud(
        self, group_address: int, qkey: int, source_port: int | None = None, tos: int = 0
    ) -> UdQueuePair:
        """Make a new UD queue pair on a multicast group. The driver joins `groups`."""
        return self.create_uds([group_address], qkey, source_port, tos)[0]

    def create_uds(
        self, group_addresses: Sequence[int], qkey: int, source_port: int | None = None,
        tos: int = 0,
    ) -> list[UdQueuePair]:  # fmt: skip
        """Make a UD queue pair on each of some multicast groups, as `create_ud` does."""
        made = make_group_pairs(self, self._groups, group_addresses, qkey, source_port, tos)
        self._queue_pairs += made
        self._set_tables()
        return made

    def create_aggregation(
        self,
        address: int,
        epoch: int,
        *,
        slots: int,
        values: int,
        ranks: int,
        rank: int,
        source_port: int | None = None,
        tos: int = 0,
        silence_ns: int | None = None,
        may_move: bool = False,
    ) -> AggregationQueuePair:
        """Make a new queue pair on an aggregation job in switches: this host is `rank` of `ranks`.

        The job's `address` is an IPv4 multicast address, its `epoch` positive (32 bits); `slots`
        (a power of 2) is N of its pool, `values` V of its packets. The driver joins `groups`. The
        job is given up when nothing has arrived of it for `silence_ns` (by default four times the
        time after which a connection is given up: who is silent may just wait for a slow worker).
        A job that `may_move` to other switches keeps what was sent last in each slot, twice.
        TransportMisuse for values that make no sense, or an address that has a job here already.
        """
        made = make_job(
            address, epoch, slots, values, ranks, rank, self.path_mtu,
            4 * self.options.give_up_ns if silence_ns is None else silence_ns, may_move,
        )  # fmt: skip
        if address in self._jobs:
            raise TransportMisuse(f"{ipv4_text(address)} is the address of another job here")
        index, number = self.new_rows(at_job.AGGREGATION, [source_port], tos)
        pair = AggregationQueuePair(self, index, number, address, epoch, made)
        row = self.row_of(index)
        pair.set_row(row)
        row.next_aggregation = self.state.first_aggregation
        self.state.first_aggregation = index + 1
        self._jobs.append(address)
        self._queue_pairs.append(pair)
        self._set_tables()
        return pair

    def forget(self, pair: UdQueuePair | AggregationQueuePair) -> None:
        """Take nothing more for a multicast group or an aggregation job; its address may be used
        anew. Whatever is under way on it must have ended."""
        if isinstance(pair, UdQueuePair):
            self._groups.leave(pair.group_index)
            return
        self._jobs.remove(pair.address)
        following = self.row_of(pair.row).next_aggregation
        if self.state.first_aggregation == pair.row + 1:
            self.state.first_aggregation = following
            return
        index = self.state.first_aggregation - 1
        while (row := self.row_of(index)).next_aggregation != pair.row + 1:
            index = row.next_aggregation - 1
        row.next_aggregation = following

    def hand_over(self, pairs: Sequence[UdQueuePair]) -> ReceiveWorker:
        """Make a receive worker for what arrives at some UD queue pairs, which another thread may
        run, with sockets of its own for their groups.

        Sinks are attached to the queue pairs as ever; completions come from `poll`, once the
        other thread has put whole sinks into the worker's `finished`. TransportMisuse if one has
        sinks or a worker already.
        """
        worker = ReceiveWorker(self.address, [(pair.group_address, pair.qkey) for pair in pairs])
        for group, pair in enumerate(pairs):
            pair.serve_by(worker, group)
            self._groups.leave(pair.group_index)
        self._workers.append((worker, list(pairs)))
        return worker

    @property
    def rows(self) -> Table:
        """Return the rows of the queue pairs, which are valid until the next one is made."""
        return self._pairs

    def new_rows(self, kind: int, source_ports: Sequence[int | None], tos: int) -> tuple[int, int]:
        """Take a row for each new queue pair, and return the first one and its number."""
        index = len(self._queue_pairs)
        number, end = self.state.first_number + index, index + len(source_ports)
        numbers = range(number, self.state.first_number + end)
        ports = [
            0xC000 | (each * 40503 >> 2 & 0x3FFF) if port is None else port
            for each, port in zip(numbers, source_ports, strict=True)
        ]
        for port in ports:
            if not 0 < port < 1 << 16:
                raise TransportMisuse(f"UDP source port {port}: it is 1 to 65535")
        if not 0 <= tos < 256:
            raise TransportMisuse(f"TOS {tos}: it is 0 to 255")
        refuse(
            end > _MAXIMUM_QUEUE_PAIRS,
            f"more than {_MAXIMUM_QUEUE_PAIRS} queue pairs",
            TransportMisuse,
        )
        if end > len(self._pairs):
            self._make_rows(1 << (end - 1).bit_length())
        rows = self._pairs[index:end]
        rows["kind"], rows["work_room"], rows["tos"] = kind, at.FIRST_WORK_ROOM, tos
        rows["number"], rows["source_port"] = numbers, ports
        self.state.queue_pairs = end
        # A connection can fail, a job can fail when operations without values have just ended, runs
        # of no chunks complete without a packet.
        each_has = {at.RC: 1, at_job.AGGREGATION: 2}.get(kind, at.MAXIMUM_WORK_ROOM)
        self._event_rows += len(ports) * each_has
        self._make_event_room(self._event_rows + self._held_rows)
        return index, number

    def expect_pairs(self, count: int) -> None:
        """Have room for so many more queue pairs, that are about to be made."""
        rows = 1 << (len(self._queue_pairs) + count - 1).bit_length()
        if rows > len(self._pairs):
            self._make_rows(rows)

    def _make_rows(self, rows: int) -> None:
        """Have room for so many queue pairs, a power of 2; what they have to do is found anew."""
        used = len(self._queue_pairs)
        pairs: Table = zeroed(rows, at.PairState.dtype)
        pairs[:used] = self._pairs[:used]
        self._is_changed = pairs["is_changed"]
        self._is_changed[:used] = 1
        self._first_rings = pairs["first_ring"].reshape(rows, at.FIRST_WORK_ROOM, -1)
        times: Words = np.full(9 * rows, NEVER, np.int64)
        times[8 * rows : 8 * rows + used] = np.arange(used)
        self._pairs, self._times, address = pairs, times, times.ctypes.data
        self.state.fill(
            tree_rows=rows,
            timer_tree=address,
            control_tree=address + 16 * rows,
            data_tree=address + 32 * rows,
            changed_table=address + 64 * rows,
            changed=used,
        )
        self._set_tables()

    def _make_event_room(self, rows: int) -> None:
        if rows >= len(self._events):
            before, self._events = self._events, np.zeros(rows + rows // 2 + 1, at.Event.dtype)
            self._events[: len(before)] = before  # compiled code may have found something already
            self._set_tables()

    def row_of(self, index: int) -> at.PairState:
        """Return the row of a queue pair, which is valid until the next queue pair is made."""
        row = at.PairState.at(self.state.queue_pair_table, index)
        row.memory = self._pairs
        return row

    def first_ring_of(self, index: int) -> Words:
        """Return the ring of posted work in the row of a queue pair, a row of words for each piece.
        It is valid for as long as the row (`row_of`)."""
        ring: Words = self._first_rings[index]
        return ring

    def changed(self, index: int) -> None:
        """Take note that the row of a queue pair is not what compiled code last saw."""
        self._stale = True
        if not self._is_changed[index]:
            self._is_changed[index] = 1
            count = self.state.changed
            self._times[8 * len(self._pairs) + count] = index
            self.state.changed = count + 1

    def expect_repathing(self) -> None:
        """Make room for one more queue pair that may change its path in a transmit."""
        self._event_rows += 1
        self._make_event_room(self._event_rows + self._held_rows)

    def complete(self, completion: Completion) -> None:
        """Take what a queue pair has for `poll`."""
        self._completions.append(completion)

    @property
    def groups(self) -> list[int]:
        """The multicast groups of the UD queue pairs and the addresses of the aggregation jobs,
        which the host must be a member of; groups that were handed over are their workers'."""
        used = dict.fromkeys([*self._groups.addresses, *self._jobs])
        return [group for group in used if group]

    def source_port_to(self, destination: int, number: int = 0) -> int:
        """Return the UDP source port, drawn by `TransportOptions.port_seed`, of queue pair `number`
        among those from here to a host; no two have the same."""
        return source_port(self.options.port_seed, self.address, destination, number)

    def create_rc_to(self, destination: int, number: int = 0) -> RcQueuePair:
        """Make a queue pair for a connection to a host, from the source ports to it that are drawn
        from `number` on, as many as `TransportOptions.alternates` says."""
        numbers = range(number, number + self.options.alternates)
        ports = [self.source_port_to(destination, each) for each in numbers]
        pair = self.create_rc(source_port=ports[0])
        if len(ports) > 1:
            pair.set_source_ports(ports)
            pair.move_acknowledgements()
        return pair

    def create_rcs_to(self, destinations: Sequence[int]) -> list[RcQueuePair]:
        """Make a queue pair for a connection to each of some hosts, as `create_rc_to` does."""
        if self.options.alternates > 1 or len(destinations) < 2:
            return [self.create_rc_to(each) for each in destinations]
        hosts = np.array(destinations, np.int64)
        ports = source_port(self.options.port_seed, np.int64(self.address), hosts, np.int64(0))
        return self._connections(ports.tolist())

    @property
    def source_ports(self) -> list[int]:
        """Return the UDP source ports that the queue pairs send from now; REPS draws others for
        data."""
        ports = self._pairs["source_port"][: len(self._queue_pairs)]
        return list(dict.fromkeys(ports.tolist()))

    @cached_property
    def outgoing(self) -> Datagrams:
        """The batch that `transmit` fills: nothing of it is there where compiled code sends."""
        return Datagrams.allocate(self.options.batch_packets, self.path_mtu + HEADER_ROOM_BYTES)

    def make_room(self, datagrams: int) -> None:
        """Have room for the events of so many datagrams that compiled code may receive."""
        relays = len(self._relays)
        self._make_event_room(2 * datagrams + 8 + relays + self._held_rows)

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived; the batch is not kept."""
        self.make_room(batch.count)
        receive_batch(self.state_address, batch.address, batch.count, now_ns)
        self._stale = True
        if self.state.events:
            self.take_events(batch)

    def transmit(self, now_ns: int, budget_bytes: int = at.UNLIMITED) -> Datagrams:
        """Return what to send now: at most `budget_bytes` of frames, at most one batch.

        Control (ACK, NAK, READ requests) goes first, then data, round robin over queue pairs. The
        batch belongs to the endpoint and is valid until the next `transmit`.
        """
        sending = self.outgoing
        sending.count = transmit_batch(self.state_address, sending.address, now_ns, budget_bytes)
        self._stale = False
        if self.state.events:
            self.take_events(sending)
        return sending

    def deadline(self) -> int | None:
        """Return when to call `transmit` if nothing arrives (ns; a time in the past means now), or
        None."""
        if self._stale:
            deadline_of(self.state_address)
            self._stale = False
        deadline = self.state.deadline
        return None if deadline >= NEVER else deadline

    @property
    def has_completions(self) -> bool:
        """Return whether `poll` has something, apart from what receive workers have found."""
        return bool(self._completions)

    def poll(self) -> list[Completion]:
        """Return what completed, failed or arrived since the last poll, in order."""
        for worker, pairs in self._workers:
            while worker.finished:
                sink = worker.finished.popleft()
                any(pair.take_whole(sink) for pair in pairs)
        completions, self._completions = self._completions, []
        return completions

    def take_events(self, batch: Datagrams) -> None:
        """Turn what compiled code found into completions. `batch`: what was received last."""
        self._stale = True
        count = self.state.events
        self.state.events = self.state.idle_events = self.state.room_awaited = 0
        for event in at.Event.copies(self._events[:count]):
            self._queue_pairs[event.queue_pair].take_event(event, batch)

    @property
    def statistics(self) -> Statistics:
        """Return a copy of the counters; those of the endpoint's receive workers are included."""
        counted = words_of(self.state.statistics).copy()
        for worker, _ in self._workers:
            counted += words_of(worker.state.endpoint.statistics)
        return Statistics(*counted.tolist())
