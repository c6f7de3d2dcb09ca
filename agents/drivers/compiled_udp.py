"""Many datagrams a system call: recvmmsg, sendmmsg and ppoll of Linux, called from compiled code
without the GIL; and the loops of progress-engine threads, from a source of packets into a receive
worker.

These loops return to Python when a sink is whole, when the source has no more, or when they are
told to stop (`stop[0]` is not 0).

`messages` are rows of `MessageHeader` as an array of int64, each with addresses of a sockaddr_in
and of rows of `IoVector`.
"""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import sink_layout as at_sink
from weft.agents.transport.kernels.receive import receive_chunks
from weft.agents.wire.compiled import compiled, entry, internal
from weft.agents.wire.crc import swap16, swap32
from weft.base.jit import (
    Table,
    Words,
    load8,
    load16,
    load32,
    load64_signed,
    store8,
    store16,
    store32,
)
from weft.base.system_calls import (
    EAGAIN,
    EINTR,
    MSG_DONTWAIT,
    POLLIN,
    IoVector,
    MessageHeader,
    errno_location,
    ppoll,
    recvmmsg,
    sendmmsg,
)

NAME_BYTES = 16
CONTROL_BYTES = 64
STACK_BYTES = 28
"""IPv4 and UDP headers; and the room for them."""
STACK_ROOM = 32
_AF_INET = 2
_IP_TOS = 1
_IP_PKTINFO = 8
_CONTROL_HEADER_BYTES = 16


@internal
def _outcome(done: int) -> int:
    """Return how many datagrams a system call has done, or minus the errno."""
    return -int(np.int64(load32(errno_location()))) if done < 0 else int(np.int64(done))


@compiled
def receive_many(descriptor: int, rows: int, messages: Words, own_address: int) -> int:
    """Fill a batch from a socket; return how many datagrams came, or minus the errno.

    The destination is that of IP_PKTINFO (`own_address` where there is none), the TOS that of
    IP_RECVTOS.
    """
    batch = at.Batch(rows)
    for index in range(batch.capacity):
        message = MessageHeader(messages.ctypes.data, index)
        message.name_length = NAME_BYTES
        message.control_bytes = CONTROL_BYTES
        message.flags = 0
    count = _outcome(
        recvmmsg(
            np.int32(descriptor), messages.ctypes.data, np.uint32(batch.capacity),
            np.int32(MSG_DONTWAIT), 0,
        )
    )  # fmt: skip
    for index in range(count):
        message = MessageHeader(messages.ctypes.data, index)
        name = message.name
        size = np.uint32(message.length & 0xFFFFFFFF)
        source = swap32(np.int64(load32(name + 4)))
        source_port = swap16(np.int64(load16(name + 2)))
        destination = own_address
        tos = 0
        control = message.control
        end = control + message.control_bytes
        while control + _CONTROL_HEADER_BYTES <= end:
            length = load64_signed(control)
            if length < _CONTROL_HEADER_BYTES:
                break
            kind = np.int64(load32(control + 12))
            if load32(control + 8) == 0:
                if kind == _IP_PKTINFO:
                    destination = swap32(np.int64(load32(control + 24)))
                elif kind == _IP_TOS:
                    tos = np.int64(load8(control + 16))
            control += (length + 7) & -8
        store32(batch.length + 4 * index, size)
        store32(batch.source + 4 * index, np.uint32(source))
        store32(batch.destination + 4 * index, np.uint32(destination))
        store16(batch.source_port + 2 * index, np.uint16(source_port))
        store8(batch.tos + index, np.uint8(tos))
    return count


@compiled
def run_length(rows: int, first: int, count: int) -> int:
    """Return how many datagrams from row `first` on leave by one socket: same source port and
    TOS."""
    batch = at.Batch(rows)
    port, service = load16(batch.source_port + 2 * first), load8(batch.tos + first)
    index = first + 1
    while (
        index < count
        and load16(batch.source_port + 2 * index) == port
        and load8(batch.tos + index) == service
    ):
        index += 1
    return index - first


@compiled
def unicast_run(rows: int, first: int, count: int) -> int:
    """Return how many datagrams from row `first` on are not for multicast groups."""
    batch = at.Batch(rows)
    index = first
    while index < count and load32(batch.destination + 4 * index) >> 28 != 0xE:
        index += 1
    return index - first


@internal
def _put_stack(stack: int, batch: at.Batch, row: int, udp_port: int) -> None:
    """Write the IPv4 and UDP headers of a datagram, as Linux makes them for a UDP socket with DF;
    the kernel fills in length and checksum of the IPv4 header."""
    size = np.int64(load32(batch.length + 4 * row))
    tos = np.int64(load8(batch.tos + row))
    source_port = np.int64(load16(batch.source_port + 2 * row))
    store32(stack, np.uint32(0x45 | (tos << 8)))
    store32(stack + 4, np.uint32(swap16(0x4000) << 16))
    store32(stack + 8, np.uint32(64 | (17 << 8)))
    store32(stack + 12, np.uint32(swap32(np.int64(load32(batch.source + 4 * row)))))
    store32(stack + 16, np.uint32(swap32(np.int64(load32(batch.destination + 4 * row)))))
    store16(stack + 20, np.uint16(swap16(source_port)))
    store16(stack + 22, np.uint16(swap16(udp_port)))
    store16(stack + 24, np.uint16(swap16(size + 8)))
    store16(stack + 26, np.uint16(0))


@compiled
def send_many(
    descriptor: int, rows: int, first: int, count: int, messages: Words, udp_port: int, raw: bool
) -> int:
    """Send rows `first` to `first + count - 1`; return how many the socket took, or minus the
    errno. From a raw socket each leaves from its own source port, with its own TOS."""
    batch = at.Batch(rows)
    count = min(count, len(messages))
    for index in range(count):
        row = first + index
        message = MessageHeader(messages.ctypes.data, index)
        name = message.name
        store16(name, np.uint16(_AF_INET))
        store16(name + 2, np.uint16(0 if raw else swap16(udp_port)))
        store32(name + 4, np.uint32(swap32(np.int64(load32(batch.destination + 4 * row)))))
        message.name_length = NAME_BYTES
        message.flags = 0
        vector = message.vectors
        if raw:
            _put_stack(load64_signed(vector), batch, row, udp_port)
            vector += 16
        IoVector(vector).address = batch.data + row * batch.stride
        IoVector(vector).length = np.int64(load32(batch.length + 4 * row))
    return _outcome(
        sendmmsg(
            np.int32(descriptor), messages.ctypes.data, np.uint32(count), np.int32(MSG_DONTWAIT)
        )
    )


@compiled
def wait_ready(watched: Words, count: int, timeout: Words) -> int:
    """Wait until one of `count` descriptors is ready or the time is over; what ppoll returns.

    `watched` are pollfd; `timeout` is (s, ns), or (-1, 0) for no end.
    """
    limit = timeout.ctypes.data if timeout[0] >= 0 else 0
    return int(np.int64(ppoll(watched.ctypes.data, np.uint64(count), limit, 0)))


@entry
def carry_ring(
    state: int, packets: int, batch_at_hand: int, first: int, end: int, batch: int, stop: Words
) -> int:
    """Receive rows `first` to `end - 1` of a ring of packets, `batch` at a time; returns the row
    after the last. The worker's state and the packets are at addresses, and so is a copy of the
    packets' `Batch`, which is written to."""
    worker, ring, part = at_sink.WorkerState(state), at.Batch(packets), at.Batch(batch_at_hand)
    while first < end and stop[0] == 0 and worker.endpoint.events == 0:
        count = min(batch, end - first)
        part.data = ring.data + first * ring.stride
        part.length = ring.length + 4 * first
        part.source = ring.source + 4 * first
        part.destination = ring.destination + 4 * first
        part.source_port = ring.source_port + 2 * first
        part.tos = ring.tos + first
        receive_chunks(state, batch_at_hand, count, 0)
        first += count
    return first


@entry
def carry_sockets(
    state: int,
    descriptors: Words,
    groups: Words,
    batch: int,
    messages: Table,
    watched: Words,
    timeout: Words,
    stop: Words,
) -> int:
    """Receive from sockets, each bound to one group; returns 0, or minus the errno of one.

    `watched` are their pollfd and, last, that of a descriptor which can be read from when `stop` is
    set. `timeout` is (s, ns), or (-1, 0) for no end: how long nothing may come.
    """
    worker = at_sink.WorkerState(state)
    while stop[0] == 0 and worker.endpoint.events == 0:
        received = 0
        for index in range(len(descriptors)):
            count = receive_many(descriptors[index], batch, messages, groups[index])
            if count > 0:
                receive_chunks(state, batch, count, 0)
                received += count
            elif count not in (0, -EAGAIN, -EINTR):
                return count
        if received == 0 and worker.endpoint.events == 0:
            for index in range(len(descriptors)):
                watched[index] = descriptors[index] | POLLIN << 32
            watched[len(watched) - 1] = (watched[len(watched) - 1] & 0xFFFFFFFF) | POLLIN << 32
            if wait_ready(watched, len(watched), timeout) == 0:
                return 0
    return 0
