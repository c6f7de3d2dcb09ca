"""A transport that looks at every row of the queue pair table at every call: what the one that
looks at active rows must equal, packet for packet."""

from __future__ import annotations

from weft.agents.datagrams import Datagrams
from weft.agents.transport import Endpoint
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.chunks import NEVER, chunk_time, send_chunk
from weft.agents.transport.kernels.echo import send_echo
from weft.agents.transport.kernels.frames import frame_size
from weft.agents.transport.kernels.memory import pair_at
from weft.agents.transport.kernels.requester import can_request, request_is_read, send_request
from weft.agents.transport.kernels.responder import (
    acknowledgement_waits,
    send_acknowledgement,
    send_response,
)
from weft.agents.transport.kernels.transmit import echo_waits, serve_timeout
from weft.agents.wire.compiled import compiled, internal


@internal
def scan_timers(endpoint: at.EndpointState, now: int) -> None:
    """Serve the timers of all rows."""
    for index in range(endpoint.queue_pairs):
        pair = pair_at(endpoint, index)
        if pair.kind == at.UD:
            if pair.chunks_idle and pair.first_work < pair.next_work:
                pair.chunks_idle = 0
                pair.chunk_due = max(pair.chunk_due, now)
            continue
        if pair.timer == 0 or pair.timer > now:
            continue
        serve_timeout(endpoint, pair, index, now)


@internal
def scan_deadline(endpoint: at.EndpointState) -> int:
    """The earliest that any row waits for."""
    control = 0 if echo_waits(endpoint) else NEVER
    data = NEVER
    for index in range(endpoint.queue_pairs):
        pair = pair_at(endpoint, index)
        if pair.kind == at.UD:
            if pair.first_work < pair.next_work:
                due = 0 if pair.chunks_idle else chunk_time(endpoint, pair)
                data = min(data, due)
            continue
        if pair.state != at.READY:
            continue
        if acknowledgement_waits(pair):
            control = 0
        if pair.reads:
            data = 0
        if can_request(endpoint, pair):
            if request_is_read(pair):
                control = 0
            else:
                data = 0
        if pair.timer:
            control = min(control, pair.timer)
    endpoint.data_time = data
    if data < NEVER and endpoint.rate_bps:
        data = max(data, endpoint.link_free)
    endpoint.deadline = min(control, data)
    return min(control, data)


@compiled
def scanned_deadline(state: int) -> int:
    """`deadline_of`, looking at all rows."""
    return scan_deadline(at.EndpointState(state))


@compiled
def scanned_transmit(state: int, rows: int, now: int, budget: int) -> int:
    """`transmit_batch`, looking at all rows."""
    endpoint, batch = at.EndpointState(state), at.Batch(rows)
    total = endpoint.queue_pairs
    room = batch.capacity
    count = 0
    scan_timers(endpoint, now)
    if endpoint.was_idle:
        endpoint.link_free = max(endpoint.link_free, now)
    full = False
    while echo_waits(endpoint) and not full:
        if count == room or budget < frame_size(16, 0):
            full = True
            break
        frame = send_echo(endpoint, batch, count, now)
        budget -= frame
        count += frame > 0
    for index in range(0 if full else total):
        pair = pair_at(endpoint, index)
        if pair.kind != at.RC or pair.state != at.READY:
            continue
        if acknowledgement_waits(pair):
            if count == room or budget < frame_size(16, 0):
                full = True
                break
            budget -= send_acknowledgement(endpoint, pair, batch, count, now)
            count += 1
        while can_request(endpoint, pair) and request_is_read(pair):
            frame = 0
            if count < room:
                frame = send_request(endpoint, pair, batch, count, budget, now)
            if frame == 0:
                full = True
                break
            budget -= frame
            count += 1
        if full:
            break
    turn = endpoint.rotation
    idle_turns = 0
    while not full and count < room and idle_turns < 2 * total:
        if endpoint.rate_bps and endpoint.link_free > now:
            break
        turn = turn + 1 if turn + 1 < 2 * total else 0
        idle_turns += 1
        index = turn >> 1
        pair = pair_at(endpoint, index)
        if pair.state != at.READY:
            continue
        frame = 0
        if pair.kind == at.UD:
            if turn & 1 or chunk_time(endpoint, pair) > now:
                continue
            frame = send_chunk(endpoint, pair, index, batch, count, budget, now)
        elif turn & 1:
            if pair.reads == 0:
                continue
            frame = send_response(endpoint, pair, batch, count, budget, now)
        else:
            if not can_request(endpoint, pair):
                continue
            frame = send_request(endpoint, pair, batch, count, budget, now)
        if frame == 0:
            turn = turn - 1 if turn > 0 else 2 * total - 1
            break
        idle_turns = 0
        if frame > 0:
            budget -= frame
            count += 1
    endpoint.rotation = turn
    scan_deadline(endpoint)
    endpoint.was_idle = 1 if endpoint.data_time > now else 0
    return count


class ScanningEndpoint(Endpoint):
    """An endpoint that looks at all its queue pairs whenever it is called."""

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 60) -> Datagrams:
        sending = self.outgoing
        sending.count = scanned_transmit(self.state_address, sending.address, now_ns, budget_bytes)
        if self.state.events:
            self.take_events(sending)
        return sending

    def deadline(self) -> int | None:
        found = int(scanned_deadline(self.state_address))
        return None if found >= NEVER else found
