"""The layout of the memory that the packet loop works on: its own records, and the kernel's."""

from typing import Annotated

from weft.base.jit import Record, record, words_in
from weft.base.system_calls import Timespec
from weft.switch.engine.dataplane.layout import Chain, Words
from weft.switch.realtime.durations import Durations

BATCH = 64
"""The most frames of one recvmmsg or sendmmsg."""


@record
class ControlMessage(Record):
    """A control message that has a struct tpacket_auxdata (packet(7), PACKET_AUXDATA)."""

    head: Annotated[Words, 2]
    """The message's length, its level and its type."""
    status: int
    """The status, in the low half."""
    snapshot: int
    vlan: int
    """The tag's control information, then its protocol, in the low half."""


@record
class SocketRecord(Record):
    """The sockets of a port."""

    receiver: int
    """The descriptor of the socket that frames come in by."""
    sender: int
    """The descriptor of the socket that they leave by."""
    switch: int
    port: int
    waiting: Chain
    """The frames to send."""
    send_errors: int
    """How many frames the kernel did not take; they are lost."""
    queued: int
    """Whether frames go through the interface's queueing discipline: it has dropped what it
    refuses."""
    free_ns: int
    """When the port's link would have carried all that was received."""
    rate_bps: int
    """The rate of the link as it was configured: what comes in is not slower for a slowed port."""
    blocked: int
    """1 while the kernel takes no more: the port's packets stay in its queue, and the loop waits
    until the socket can be written to."""
    line: int
    """The port index over which what comes in goes first, for its delay, or NONE."""


@record
class LoopRecord(Record):
    """What the packet loop works on beside the switches."""

    poll: int
    """Address of pollfd[2]: of `readiness`, and of the event descriptor alone."""
    readiness: int
    """The epoll descriptor that knows which sockets have frames, and whether the event descriptor
    can be read: a wake-up costs the same for any number of sockets."""
    ready: int
    """Address of struct epoll_event[2 * socket_count + 1]."""
    numbers: int
    """Address of int64: of each descriptor the number of its port; that of the event descriptor has
    `socket_count`, and those that frames leave by are numbered from there on, plus 1."""
    watches: int
    """Address of socket_count rows of struct epoll_event: that a port's socket can be written
    to."""
    sockets: int
    """Address of socket_count rows of `SocketRecord`."""
    socket_count: int
    receive: int
    """Address of BATCH rows of `MessageHeader`."""
    receive_vectors: int
    """Address of BATCH rows of `IoVector`."""
    receive_buffers: int
    """Address of int64[BATCH]: the pool's buffer of each message, or NONE."""
    control: int
    """Address of BATCH rows of `ControlMessage`: what the kernel says of each frame."""
    send: int
    """Address of BATCH rows of `MessageHeader`."""
    send_vectors: int
    """Address of 2 * BATCH rows of `IoVector`: a header and a payload for each message."""
    pending: int
    """Address of int64[socket_count]: the sockets with frames to send."""
    pending_count: int
    coalesce_ns: int
    wake_ups: int
    times: int
    """Address of two rows of `Timespec`: the present, and how long to sleep."""
    events: int
    """The event descriptor of the thread that tells controllers of events."""
    one: int
    """Address of an int64 of 1."""
    lateness: Durations
    """How late frames left."""
    bursts: Durations
    """How far ahead of their links frames came."""
    sleep_ns: int
    """How long the loop meant to sleep when it last did."""
    stood_ns: int
    """How long it stood still all together: between two wake-ups it neither slept nor had so much
    to do."""
    rest_ns: int
    """How long frames may gather since the last wake-up."""


TIMESPEC_BYTES = 8 * words_in(Timespec)
CONTROL_BYTES = 8 * words_in(ControlMessage)
