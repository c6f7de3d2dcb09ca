"""The loop that serves a host on its sockets, in compiled code without Python's lock: receive,
transport, transmit, wait.

It comes back to Python only for what an agent must decide: when the endpoint has events, when the
agent is due, for every arrival while the agent is attentive; and for sockets that are to be made.
"""

import numpy as np

from weft.agents.drivers.compiled_udp import (
    receive_many,
    run_length,
    send_many,
    unicast_run,
    wait_ready,
)
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.chunks import NEVER
from weft.agents.transport.kernels.memory import has_news
from weft.agents.transport.kernels.receive import take_batch
from weft.agents.transport.kernels.transmit import fill_batch
from weft.agents.wire.compiled import entry, internal
from weft.base.jit import Record, Table, Words, load8, load16, load32, record
from weft.base.system_calls import (
    CLOCK_MONOTONIC,
    EAGAIN,
    ECONNREFUSED,
    EINTR,
    EMSGSIZE,
    POLLIN,
    POLLOUT,
    clock_gettime,
    read,
)

# Why the loop came back.
ATTEND = 1
"""There is something for the agent."""
ENDED = 2
"""The time is over, or the descriptor `wake` can be read."""
NEEDS_SOCKET = 3
"""Rows from `unsent_from` on leave from a source port, or with a TOS, that no socket has."""
INTERRUPTED = 4
"""A signal came."""
RECEIVE_FAILED = 5
"""The socket cannot be read; `error` is the errno."""
TOO_LONG = 6
"""The row `unsent_from` does not fit the link's MTU."""
LATENESS_BUCKETS = 1024
LATENESS_WORDS = LATENESS_BUCKETS + 2
"""Behind the buckets are the longest time, and the sum of those of `STOOD_NS` or more."""
STOOD_NS = 10_000_000
"""From this lateness on a host stood still. Schedulers are late by some ms now and then."""
LOOK_NS = 100_000_000
"""The longest that a host sleeps: who is woken much later stood still, whatever was due."""


_BILLION = 1_000_000_000


@record
class HostLoop(Record):
    """What the loop works on, and what it has found. Times are those of CLOCK_MONOTONIC, in ns."""

    endpoint: int
    """Addresses of the endpoint's state, and of the batches that are received and sent."""
    incoming: int
    outgoing: int
    own_address: int
    """The IPv4 address of the host."""
    udp_port: int
    receiver: int
    """Descriptors: of the socket that receives; of the raw socket that sends unicast, of what wakes
    the host, and of what its receive workers write to, or -1 for none."""
    raw: int
    wake: int
    workers: int
    until: int
    """When the loop ends."""
    due: int
    """When the agent, apart from its endpoint, must be looked after."""
    attentive: int
    """Whether the agent must be looked after whenever something arrives."""
    look_after: int
    """How long the host may sleep, in ns; receive workers may have found something meanwhile."""
    gather: int
    """How long the host lets datagrams gather after it has received some, in ns."""
    readable: int
    """Whether there may be something to receive."""
    large: int
    """How many bytes make a datagram one of a stream, for which more are let gather."""
    received: int
    """How many rows of the batch of what is received are for the agent to look at."""
    unsent: int
    """How many rows of the batch that is sent there are, or 0; which of them is next; the
    descriptor that takes no more of them now, or -1."""
    unsent_from: int
    blocked_on: int
    expected: int
    """When the host is to be called next, or 0: what lateness is counted from."""
    error: int
    datagrams_received: int
    datagrams_sent: int
    send_errors: int
    send_blocked: int
    system_calls: int
    wakeups: int


@internal
def _now(place: Words) -> int:
    """Return the time; `place` is room for a timespec."""
    clock_gettime(np.int32(CLOCK_MONOTONIC), place.ctypes.data)
    return int(place[0] * _BILLION + place[1])


@entry
def add_lateness(lateness: Words, late: int) -> None:
    """Count one time in ns; what is negative counts as 0. Its bucket is 16 times how many bits it
    is shifted to the right until it has four, plus what is left. See `LATENESS_WORDS`."""
    late = max(late, 0)
    shift = 0
    while late >> shift > 15:
        shift += 1
    lateness[shift << 4 | late >> shift] += 1
    lateness[LATENESS_BUCKETS] = max(lateness[LATENESS_BUCKETS], late)
    if late >= STOOD_NS:
        lateness[LATENESS_BUCKETS + 1] += late


@internal
def _sender_of(loop: HostLoop, batch: at.Batch, row: int, senders: Words) -> int:
    """Return the descriptor by which a row leaves that does not leave by the raw socket; -1 for
    none yet."""
    port = np.int64(load16(batch.source_port + 2 * row))
    tos = np.int64(load8(batch.tos + row))
    for index in range(len(senders)):
        if senders[index, 0] == port and senders[index, 1] == tos:
            return int(senders[index, 2])
    return -1


@internal
def _flush(loop: HostLoop, senders: Words, sending: Words, raw_sending: Words) -> int:
    """Hand the rest of the batch to the kernel; 0, or why it does not take all."""
    batch = at.Batch(loop.outgoing)
    while loop.unsent_from < loop.unsent:
        row = loop.unsent_from
        count = unicast_run(loop.outgoing, row, loop.unsent) if loop.raw >= 0 else 0
        if count > 0:
            descriptor = loop.raw
            sent = send_many(
                descriptor, loop.outgoing, row, count, raw_sending, loop.udp_port, True
            )
        else:
            descriptor = _sender_of(loop, batch, row, senders)
            if descriptor < 0:
                return NEEDS_SOCKET
            count = run_length(loop.outgoing, row, loop.unsent)
            sent = send_many(descriptor, loop.outgoing, row, count, sending, loop.udp_port, False)
        loop.system_calls += 1
        if sent == -EAGAIN:
            loop.send_blocked += 1
            loop.blocked_on = descriptor
            return EAGAIN
        if sent == -EINTR:
            continue
        if sent == -EMSGSIZE:
            return TOO_LONG
        if sent < 0:
            loop.send_errors += 1
            loop.unsent_from += 1
        else:
            loop.datagrams_sent += sent
            loop.unsent_from += sent
    loop.unsent = 0
    loop.blocked_on = -1
    return 0


@internal
def _sleep(
    loop: HostLoop, gathers: bool, until: int, now: int, watched: Words, timeout: Words
) -> int:
    """Wait until something can be received or sent, or somebody wakes the host, or the time has
    come; 0, or why the loop comes back. Where datagrams are to gather they do not end the wait."""
    count = 1
    watched[0] = loop.receiver | POLLIN << 32
    if gathers:
        watched[0] = 0xFFFFFFFF
        until = min(until, now + loop.gather)
    if loop.unsent:
        watched[count] = loop.blocked_on | POLLOUT << 32
        count += 1
    for descriptor in (loop.workers, loop.wake):
        if descriptor >= 0:
            watched[count] = descriptor | POLLIN << 32
            count += 1
    left = max(until - now, 0)
    timeout[0], timeout[1] = left // _BILLION, left % _BILLION
    if until >= NEVER:
        timeout[0] = -1
    loop.system_calls += 1
    loop.wakeups += 1
    ready = wait_ready(watched, count, timeout)
    loop.readable = 1 if gathers or (ready > 0 and watched[0] >> 48 != 0) else 0
    if ready < 0:
        return INTERRUPTED
    if loop.wake >= 0 and ready > 0 and watched[count - 1] >> 48 != 0:
        return ENDED
    if loop.workers >= 0:
        read(np.int32(loop.workers), timeout.ctypes.data, 8)
        return ATTEND
    return 0


@internal
def _has_large(batch: at.Batch, count: int, large: int) -> bool:
    """Return whether one of the datagrams that were received has so many bytes."""
    for row in range(count):  # noqa: SIM110 - numba knows no generators
        if np.int64(load32(batch.length + 4 * row)) >= large:
            return True
    return False


@entry
def serve_host(
    location: int,
    receiving: Table,
    sending: Table,
    raw_sending: Table,
    senders: Table,
    watched: Words,
    timeout: Words,
    lateness: Words,
    batches_a_round: int,
) -> int:
    """Carry a host's packets; returns why it came back, and at least one round is made.

    `location` is the address of the `HostLoop`. `receiving`, `sending` and `raw_sending` are
    mmsghdr, `senders` [n, 3] the source port, TOS and descriptor of each socket that sends,
    `watched` room for pollfd, `timeout` for a timespec, `lateness` counts as
    `add_lateness` has them.
    """
    loop = HostLoop(location)
    endpoint = at.EndpointState(loop.endpoint)
    incoming, outgoing = at.Batch(loop.incoming), at.Batch(loop.outgoing)
    while True:
        now = _now(timeout)
        received = 0
        if loop.readable:
            received = receive_many(loop.receiver, loop.incoming, receiving, loop.own_address)
            loop.system_calls += 1
            if received > 0:
                loop.datagrams_received += received
                take_batch(endpoint, incoming, received, now)
            elif received not in (0, -EAGAIN, -EINTR, -ECONNREFUSED):
                loop.error = -received
                return RECEIVE_FAILED
            loop.readable = 0  # before it receives again, a host sends
        if loop.expected and now >= loop.expected:
            add_lateness(lateness, now - loop.expected)
            loop.expected = 0
        if has_news(endpoint) or now >= loop.due or (loop.attentive and received > 0):
            loop.received = max(received, 0)
            return ATTEND
        busy = True
        for _ in range(batches_a_round):
            if loop.unsent == 0:
                loop.unsent = fill_batch(endpoint, outgoing, now, at.UNLIMITED)
                loop.unsent_from = 0
                if loop.unsent == 0:
                    busy = False
                    break
            stopped = _flush(loop, senders, sending, raw_sending)
            if stopped == EAGAIN:
                busy = False
                break
            if stopped:
                return stopped
        if has_news(endpoint):
            loop.received = 0
            return ATTEND
        deadline = loop.due if loop.unsent else min(loop.due, endpoint.deadline)
        now = _now(timeout)
        if now >= loop.until:
            return ENDED
        loop.expected = min(deadline, now + LOOK_NS) if now < deadline else 0
        if busy or received == incoming.capacity:
            loop.readable = 1
            continue
        until = min(min(deadline, loop.until), now + LOOK_NS)
        if loop.look_after:
            until = min(until, now + loop.look_after)
        gathers = loop.gather > 0 and _has_large(incoming, received, loop.large)
        stopped = _sleep(loop, gathers, until, now, watched, timeout)
        if stopped:
            loop.received = 0
            return stopped
