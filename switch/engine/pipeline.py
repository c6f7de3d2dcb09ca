"""A packet's way through a switch: ingress, replication, egress, in BMv2's order of precedence.

See docs/simple_switch.md of p4lang/behavioral-model, "after-ingress" and "after-egress pseudocode".
As in BMv2, all metadata that a field list does not keep is 0 in a clone and in a packet that is
resubmitted or recirculated, ``ingress_port`` included.
"""

from __future__ import annotations

from weft.switch.engine.layout import (
    AGAIN_HEAD,
    BUFFER_COUNT,
    BUFFER_REFERENCES,
    BUFFER_STRIDE,
    BUFFERS,
    CLEAR_METADATA,
    DEQ_QDEPTH,
    DEQ_TIMEDELTA,
    DROP,
    DROPS_EGRESS,
    DROPS_INGRESS,
    DROPS_NO_PORT,
    DROPS_NO_PROGRAM,
    DROPS_REPEATS,
    DROPS_TOO_LONG,
    EGRESS_CLONE,
    EGRESS_GLOBAL_TIMESTAMP,
    EGRESS_PORT,
    EGRESS_RID,
    EGRESS_SPEC,
    ENQ_QDEPTH,
    ENQ_TIMESTAMP,
    EPOCH_NS,
    FIELDS,
    FREE_BUFFER_COUNT,
    HEADER_STRIDE,
    HEADERS,
    HEADROOM,
    I_CLONE,
    I_MULTICAST,
    IMAGE,
    IMAGE_WORDS,
    INGRESS_CLONE,
    INGRESS_GLOBAL_TIMESTAMP,
    INGRESS_PORT,
    INSTANCE_TYPE,
    KEEP_FIELDS,
    MCAST_GRP,
    NO_BUFFER,
    NONE,
    NORMAL,
    NOW_NS,
    P_BUFFER,
    P_ENQUEUED_NS,
    P_FRAME,
    P_FRAME_LENGTH,
    P_HEADER_LENGTH,
    P_KEEP,
    P_LENGTH,
    P_PAYLOAD,
    P_PAYLOAD_LENGTH,
    P_PORT,
    P_QUEUE_BYTES,
    P_REPEATS,
    P_SWITCH,
    PACKET_LENGTH,
    PASSES,
    PASSES_END,
    PIPELINE,
    PORT_COUNT,
    PRIORITY,
    Q_BYTES,
    Q_FREE_NS,
    Q_HEAD,
    Q_PACKETS,
    Q_UP,
    R_CLONE,
    R_CLONE_LIST,
    R_FIELDS,
    R_INGRESS_LENGTH,
    R_LENGTH,
    R_RECIRCULATE,
    R_RESUBMIT,
    R_TRUNCATE,
    RECIRCULATED,
    REPLICATION,
    RESERVE,
    RESUBMITTED,
    RUN_DEPARSER,
    RUN_EGRESS,
    RUN_INGRESS,
    RUN_PARSER,
    S_RX_BYTES,
    S_RX_PACKETS,
    SLACK,
    Octets,
    Words,
)
from weft.switch.engine.native import call_pipeline, inline, int64_view, jit
from weft.switch.engine.queues import (
    append,
    copy_bytes,
    copy_departing,
    copy_packet,
    drop,
    drop_buffer,
    enqueue,
    land,
    packet_row,
    phv_row,
    port_row,
    put_on_link,
    release,
    reschedule,
    switch_row,
    take_buffer,
    take_first,
    take_packet,
)
from weft.switch.engine.runtime import E_RECORD, lookup_word

REPEAT_LIMIT = 256
"""How often one packet may be resubmitted and recirculated before it is dropped."""


@inline
def set_length(phv: Words, length: int) -> None:
    """A packet begins its way with a length."""
    phv[PACKET_LENGTH] = length
    phv[R_LENGTH] = length
    phv[R_INGRESS_LENGTH] = length


@inline
def run(context: Words, switch: int, operation: int, packet: int, other: int) -> None:
    """Have a switch's program do one operation on a packet."""
    pipeline = switch_row(context, switch)[PIPELINE]
    call_pipeline(pipeline, context.ctypes.data, operation, switch, packet, other)


@jit
def clear_phv(phv: Words, fields: int, length: int, instance_type: int) -> None:
    """Start a packet's PHV: everything 0, the packet's length and type set.

    The fields of a wide header keep what they have until something is stored in them: clearing
    them would cost every packet of every program that has such a header. P4 leaves the fields of a
    header that was only made valid undefined.
    """
    for i in range(fields):
        phv[i] = 0
    set_length(phv, length)
    phv[R_FIELDS] = fields
    phv[INSTANCE_TYPE] = instance_type


@jit
def to_port(
    context: Words, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue of an egress port.

    As on BMv2, a packet to a port that does not exist goes through egress all the same (where it
    may be cloned or recirculated) and is dropped then; and with its one queue per port, a packet
    with a priority is dropped.
    """
    phv = phv_row(context, packet)
    if phv[PRIORITY] != 0:
        drop(context, switch, DROPS_INGRESS, packet)
        return
    ports = context[PORT_COUNT]
    if port >= 0 and port < ports and port_row(context, switch * ports + port)[Q_UP] != 0:
        enqueue(context, switch, port, packet, size_bytes, now_ns)
        return
    words = packet_row(context, packet)
    words[P_SWITCH] = switch
    words[P_PORT] = port
    words[P_QUEUE_BYTES] = NONE
    phv[ENQ_TIMESTAMP] = (now_ns - switch_row(context, switch)[EPOCH_NS]) // 1000
    phv[ENQ_QDEPTH] = 0
    append(context, context, AGAIN_HEAD, packet)


@jit
def replicas(context: Words, switch: int, directory: int, identifier: int) -> int:
    """Offset in the image of a group's [count, (port, instance) ...], or NONE."""
    row = switch_row(context, switch)
    image = int64_view(row[IMAGE], row[IMAGE_WORDS])
    entry = lookup_word(image, directory, identifier)
    if entry < 0:
        return NONE
    return image[entry + E_RECORD]  # type: ignore[no-any-return]


@jit
def replicate(
    context: Words, switch: int, packet: int, directory: int, group: int, now: int
) -> None:
    """Enqueue the copies that a multicast group or a clone session makes; the packet stays."""
    record = replicas(context, switch, directory, group)
    if record == NONE:
        return
    row = switch_row(context, switch)
    image = int64_view(row[IMAGE], row[IMAGE_WORDS])
    count = image[record]
    keep = image[record + 1]
    context[PASSES] += count
    for i in range(count):
        copy = copy_packet(context, switch, packet)
        if copy == NONE:
            context[NO_BUFFER] += count - i - 1
            return
        phv = phv_row(context, copy)
        for register in range(R_CLONE, R_LENGTH):
            phv[register] = 0
        phv[EGRESS_RID] = image[record + 3 + 2 * i]
        if keep > 0:
            packet_row(context, copy)[P_KEEP] = keep
        to_port(context, switch, image[record + 2 + 2 * i], copy, phv[R_LENGTH], now)


@jit
def send_clones(
    context: Words, switch: int, packet: int, copy: int, instance_type: int, now: int
) -> None:
    """Enqueue the copies of a session, with the fields that the list keeps, as ``copy`` is."""
    phv = phv_row(context, packet)
    run(context, switch, CLEAR_METADATA, copy, 0)
    run(context, switch, KEEP_FIELDS, copy, (phv[R_CLONE_LIST] << 32) | packet)
    phv_row(context, copy)[INSTANCE_TYPE] = instance_type
    replicate(context, switch, copy, I_CLONE, phv[R_CLONE] - 1, now)
    release(context, copy)


@jit
def clone_ingress(context: Words, switch: int, packet: int, now: int) -> None:
    """Copies of the packet as ingress got it, parsed anew, with the fields that the list keeps."""
    copy = copy_packet(context, switch, packet)
    if copy == NONE:
        return
    other = phv_row(context, copy)
    length = packet_row(context, packet)[P_FRAME_LENGTH]
    clear_phv(other, switch_row(context, switch)[FIELDS], length, NORMAL)
    other[INGRESS_PORT] = phv_row(context, packet)[INGRESS_PORT]
    run(context, switch, RUN_PARSER, copy, 0)
    send_clones(context, switch, packet, copy, INGRESS_CLONE, now)


@jit
def clone_egress(context: Words, switch: int, packet: int, now: int) -> None:
    """Copies of the packet as egress leaves it, for egress again."""
    copy = copy_packet(context, switch, packet)
    if copy != NONE:
        send_clones(context, switch, packet, copy, EGRESS_CLONE, now)


@jit
def run_ingress(context: Words, switch: int, packet: int, now: int) -> None:
    """Run ingress, again for as long as the packet is resubmitted, and do what it decided."""
    row = switch_row(context, switch)
    words = packet_row(context, packet)
    phv = phv_row(context, packet)
    row[NOW_NS] = now
    while True:
        context[PASSES] += 1
        run(context, switch, RUN_INGRESS, packet, 0)
        if phv[R_CLONE] != 0:
            clone_ingress(context, switch, packet, now)
            phv[R_CLONE] = 0
        if phv[R_RESUBMIT] == 0:
            break
        words[P_REPEATS] += 1
        if words[P_REPEATS] > REPEAT_LIMIT:
            drop(context, switch, DROPS_REPEATS, packet)
            return
        run(context, switch, CLEAR_METADATA, packet, (phv[R_RESUBMIT] << 32) | packet)
        phv[INSTANCE_TYPE] = RESUBMITTED
        set_length(phv, words[P_FRAME_LENGTH])
        if context[PASSES] >= context[PASSES_END]:
            words[P_QUEUE_BYTES] = 0
            append(context, context, AGAIN_HEAD, packet)
            return
    group = phv[MCAST_GRP]
    if group != 0:
        phv[INSTANCE_TYPE] = REPLICATION
        replicate(context, switch, packet, I_MULTICAST, group, now)
        release(context, packet)
        return
    if phv[EGRESS_SPEC] == context[DROP]:
        drop(context, switch, DROPS_INGRESS, packet)
        return
    phv[INSTANCE_TYPE] = NORMAL
    to_port(context, switch, phv[EGRESS_SPEC], packet, phv[R_LENGTH], now)


@jit
def ingest(context: Words, switch: int, port: int, packet: int, now_ns: int) -> None:
    """A frame arrives: ``P_FRAME`` and ``P_FRAME_LENGTH`` of ``packet`` say where it is.

    Takes the packet over. Call ``advance`` afterwards.
    """
    row = switch_row(context, switch)
    words = packet_row(context, packet)
    length = words[P_FRAME_LENGTH]
    if port >= 0 and port < context[PORT_COUNT]:
        arrived = port_row(context, switch * context[PORT_COUNT] + port)
        arrived[S_RX_PACKETS] += 1
        arrived[S_RX_BYTES] += length
    if row[PIPELINE] == 0:
        drop(context, switch, DROPS_NO_PROGRAM, packet)
        return
    words[P_PAYLOAD] = words[P_FRAME]
    words[P_PAYLOAD_LENGTH] = length
    words[P_SWITCH] = switch
    phv = phv_row(context, packet)
    clear_phv(phv, row[FIELDS], length, NORMAL)
    phv[INGRESS_PORT] = port
    phv[INGRESS_GLOBAL_TIMESTAMP] = (now_ns - row[EPOCH_NS]) // 1000
    run_ingress(context, switch, packet, now_ns)


@jit
def join_frame(context: Words, packet: int) -> bool:
    """Make a departing packet one frame in a buffer of its own; False if there is no room."""
    words = packet_row(context, packet)
    stride = context[BUFFER_STRIDE]
    header_length = min(words[P_HEADER_LENGTH], words[P_LENGTH])
    if HEADROOM + words[P_LENGTH] + SLACK > stride:
        switch_row(context, words[P_SWITCH])[DROPS_TOO_LONG] += 1
        return False
    old = words[P_BUFFER]
    references = int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])
    if references[old] == 1 and words[P_PAYLOAD] >= header_length:
        start = words[P_PAYLOAD] - header_length
        header = context[HEADERS] + packet * context[HEADER_STRIDE]
        copy_bytes(header, context[BUFFERS] + old * stride + start, header_length)
        words[P_FRAME] = start
    else:
        new = take_buffer(context) if context[FREE_BUFFER_COUNT] > context[RESERVE] else NONE
        if new == NONE:
            context[NO_BUFFER] += 1
            return False
        copy_departing(context, packet, context[BUFFERS] + new * stride + HEADROOM)
        words[P_BUFFER] = new
        words[P_FRAME] = HEADROOM
        drop_buffer(context, old)
    words[P_FRAME_LENGTH] = words[P_LENGTH]
    words[P_PAYLOAD] = words[P_FRAME]
    words[P_PAYLOAD_LENGTH] = words[P_LENGTH]
    words[P_HEADER_LENGTH] = 0
    return True


@jit
def run_egress(context: Words, port_index: int, packet: int, start_ns: int) -> None:
    """Run egress and the deparser as the port's link takes the packet, and send it.

    ``port_index`` NONE: to a port that does not exist.
    """
    words = packet_row(context, packet)
    switch = words[P_SWITCH]
    row = switch_row(context, switch)
    phv = phv_row(context, packet)
    row[NOW_NS] = start_ns
    context[PASSES] += 1
    timestamp = (start_ns - row[EPOCH_NS]) // 1000
    phv[EGRESS_GLOBAL_TIMESTAMP] = timestamp
    phv[DEQ_TIMEDELTA] = timestamp - phv[ENQ_TIMESTAMP]
    phv[DEQ_QDEPTH] = port_row(context, port_index)[Q_PACKETS] if port_index != NONE else 0
    phv[EGRESS_PORT] = words[P_PORT]
    phv[EGRESS_SPEC] = (context[DROP] + 1) & 0x1FF
    phv[PACKET_LENGTH] = phv[R_LENGTH]
    if row[PIPELINE] == 0:
        drop(context, switch, DROPS_NO_PROGRAM, packet)
        return
    run(context, switch, RUN_EGRESS, packet, 0)
    if phv[R_CLONE] != 0:
        clone_egress(context, switch, packet, start_ns)
        phv[R_CLONE] = 0
    if phv[EGRESS_SPEC] == context[DROP]:
        drop(context, switch, DROPS_EGRESS, packet)
        return
    run(context, switch, RUN_DEPARSER, packet, 0)
    length = words[P_HEADER_LENGTH] + words[P_PAYLOAD_LENGTH]
    if words[P_KEEP] != 0:
        length = min(length, words[P_KEEP])
    words[P_LENGTH] = length
    if phv[R_RECIRCULATE] != 0:
        again(context, switch, packet)  # whole: truncate() is for what is sent
        return
    if phv[R_TRUNCATE] != 0:
        words[P_LENGTH] = min(length, phv[R_TRUNCATE] - 1)
    if port_index == NONE:
        drop(context, switch, DROPS_NO_PORT, packet)
        return
    put_on_link(context, port_index, packet, start_ns)


@jit
def again(context: Words, switch: int, packet: int) -> None:
    """Put a deparsed packet on the list of those that start over at the parser."""
    words = packet_row(context, packet)
    phv = phv_row(context, packet)
    words[P_REPEATS] += 1
    if words[P_REPEATS] > REPEAT_LIMIT:
        drop(context, switch, DROPS_REPEATS, packet)
        return
    if not join_frame(context, packet):
        release(context, packet)
        return
    run(context, switch, CLEAR_METADATA, packet, (phv[R_RECIRCULATE] << 32) | packet)
    phv[INSTANCE_TYPE] = RECIRCULATED
    set_length(phv, words[P_LENGTH])
    words[P_QUEUE_BYTES] = 0
    append(context, context, AGAIN_HEAD, packet)


@jit
def go_on(context: Words, now_ns: int) -> None:
    """Take the first packet of the list on: through the parser again, or through the egress of a
    port that does not exist."""
    packet = take_first(context, context, AGAIN_HEAD)
    words = packet_row(context, packet)
    if words[P_QUEUE_BYTES] == NONE:
        run_egress(context, NONE, packet, now_ns)
    else:
        run_ingress(context, words[P_SWITCH], packet, now_ns)


@jit
def serve_port(context: Words, port_index: int, now_ns: int) -> None:
    """Do what is due at one port: links take packets from queues, frames reach far ends.

    What is left when the driver's turn ends stays due: a packet may be cloned by egress to the very
    queue that it came from, without end.
    """
    port = port_row(context, port_index)
    while port[Q_HEAD] != NONE and context[PASSES] < context[PASSES_END]:
        packet = port[Q_HEAD]
        words = packet_row(context, packet)
        start = max(port[Q_FREE_NS], words[P_ENQUEUED_NS])
        if start > now_ns:
            break
        take_first(context, port, Q_HEAD)
        port[Q_PACKETS] -= 1
        port[Q_BYTES] -= words[P_QUEUE_BYTES]
        run_egress(context, port_index, packet, start)
    land(context, port_index, now_ns)
    reschedule(context, port_index)


@jit
def receive_frame(context: Words, switch: int, port: int, frame: Octets, now_ns: int) -> None:
    """Copy a frame (uint8 array) into the pool and ``ingest`` it; too long or no room: drop."""
    length = frame.size
    if HEADROOM + length + SLACK > context[BUFFER_STRIDE]:
        switch_row(context, switch)[DROPS_TOO_LONG] += 1
        return
    buffer = take_buffer(context)
    if buffer == NONE:
        context[NO_BUFFER] += 1
        return
    packet = take_packet(context, buffer)
    if packet == NONE:
        drop_buffer(context, buffer)
        context[NO_BUFFER] += 1
        return
    place = context[BUFFERS] + buffer * context[BUFFER_STRIDE] + HEADROOM
    copy_bytes(frame.ctypes.data, place, length)
    words = packet_row(context, packet)
    words[P_FRAME] = HEADROOM
    words[P_FRAME_LENGTH] = length
    ingest(context, switch, port, packet, now_ns)


@jit
def copy_frame(context: Words, packet: int, frame: Octets) -> int:
    """Copy a departing frame into ``frame`` (uint8 array, long enough); its length in bytes."""
    copy_departing(context, packet, frame.ctypes.data)
    return packet_row(context, packet)[P_LENGTH]  # type: ignore[no-any-return]
