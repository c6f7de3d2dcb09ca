"""A packet's way through a switch: ingress, replication, egress, in BMv2's order of precedence.

See docs/simple_switch.md of p4lang/behavioral-model, "after-ingress" and "after-egress pseudocode".
As in BMv2, all metadata that a field list does not keep is 0 in a clone and in a packet that is
resubmitted or recirculated, ``ingress_port`` included.
"""

from __future__ import annotations

from typing import Any

from weft.switch.engine.layout import (
    AGAIN_HEAD,
    AGAIN_TAIL,
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
    P_NEXT,
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
)
from weft.switch.engine.native import call_pipeline, int64_view, jit, uint8_view
from weft.switch.engine.queues import (
    copy_packet,
    drop_buffer,
    enqueue,
    land,
    next_deadline,
    packet_row,
    phv_row,
    port_row,
    put_on_link,
    release,
    reschedule,
    switch_row,
    take_buffer,
    take_packet,
)
from weft.switch.engine.runtime import E_RECORD, lookup_word

REPEAT_LIMIT = 256
"""How often one packet may be resubmitted and recirculated before it is dropped."""


@jit
def clear_phv(phv: Any, fields: int, length: int, instance_type: int) -> None:
    """Start a packet's PHV: everything 0, the packet's length and type set.

    The fields of a wide header keep what they have until something is stored in them: clearing
    them would cost every packet of every program that has such a header. P4 leaves the fields of a
    header that was only made valid undefined.
    """
    for i in range(fields):
        phv[i] = 0
    phv[PACKET_LENGTH] = length
    phv[R_LENGTH] = length
    phv[R_INGRESS_LENGTH] = length
    phv[R_FIELDS] = fields
    phv[INSTANCE_TYPE] = instance_type


@jit
def put_again(context: Any, packet: int) -> None:
    """Put a packet on the list of those that ``go_on`` takes on."""
    packet_row(context, packet)[P_NEXT] = NONE
    if context[AGAIN_HEAD] == NONE:
        context[AGAIN_HEAD] = packet
    else:
        packet_row(context, context[AGAIN_TAIL])[P_NEXT] = packet
    context[AGAIN_TAIL] = packet


@jit
def to_port(
    context: Any, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue of an egress port.

    As on BMv2, a packet to a port that does not exist goes through egress all the same (where it
    may be cloned or recirculated) and is dropped then; and with its one queue per port, a packet
    with a priority is dropped.
    """
    phv = phv_row(context, packet)
    if phv[PRIORITY] != 0:
        switch_row(context, switch)[DROPS_INGRESS] += 1
        release(context, packet)
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
    put_again(context, packet)


@jit
def replicas(context: Any, switch: int, directory: int, identifier: int) -> int:
    """Offset in the image of a group's [count, (port, instance) ...], or NONE."""
    row = switch_row(context, switch)
    image = int64_view(row[IMAGE], row[IMAGE_WORDS])
    entry = lookup_word(image, directory, identifier)
    if entry < 0:
        return NONE
    return image[entry + E_RECORD]  # type: ignore[no-any-return]


@jit
def replicate(context: Any, switch: int, packet: int, directory: int, group: int, now: int) -> None:
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
def clone_ingress(context: Any, switch: int, packet: int, now: int) -> None:
    """Copies of the packet as ingress got it, parsed anew, with the fields that the list keeps."""
    row = switch_row(context, switch)
    phv = phv_row(context, packet)
    copy = copy_packet(context, switch, packet)
    if copy == NONE:
        return
    other = phv_row(context, copy)
    clear_phv(other, row[FIELDS], packet_row(context, packet)[P_FRAME_LENGTH], NORMAL)
    other[INGRESS_PORT] = phv[INGRESS_PORT]
    address = context.ctypes.data
    call_pipeline(row[PIPELINE], address, RUN_PARSER, switch, copy, 0)
    call_pipeline(row[PIPELINE], address, CLEAR_METADATA, switch, copy, 0)
    fields = (phv[R_CLONE_LIST] << 32) | packet
    call_pipeline(row[PIPELINE], address, KEEP_FIELDS, switch, copy, fields)
    other[INSTANCE_TYPE] = INGRESS_CLONE
    replicate(context, switch, copy, I_CLONE, phv[R_CLONE] - 1, now)
    release(context, copy)


@jit
def clone_egress(context: Any, switch: int, packet: int, now: int) -> None:
    """Copies of the packet as egress leaves it, for egress again."""
    row = switch_row(context, switch)
    phv = phv_row(context, packet)
    copy = copy_packet(context, switch, packet)
    if copy == NONE:
        return
    other = phv_row(context, copy)
    call_pipeline(row[PIPELINE], context.ctypes.data, CLEAR_METADATA, switch, copy, 0)
    fields = (phv[R_CLONE_LIST] << 32) | packet
    call_pipeline(row[PIPELINE], context.ctypes.data, KEEP_FIELDS, switch, copy, fields)
    other[INSTANCE_TYPE] = EGRESS_CLONE
    replicate(context, switch, copy, I_CLONE, phv[R_CLONE] - 1, now)
    release(context, copy)


@jit
def run_ingress(context: Any, switch: int, packet: int, now: int) -> None:
    """Run ingress, again for as long as the packet is resubmitted, and do what it decided."""
    row = switch_row(context, switch)
    words = packet_row(context, packet)
    phv = phv_row(context, packet)
    address = context.ctypes.data
    row[NOW_NS] = now
    while True:
        context[PASSES] += 1
        call_pipeline(row[PIPELINE], address, RUN_INGRESS, switch, packet, 0)
        if phv[R_CLONE] != 0:
            clone_ingress(context, switch, packet, now)
            phv[R_CLONE] = 0
        if phv[R_RESUBMIT] == 0:
            break
        words[P_REPEATS] += 1
        if words[P_REPEATS] > REPEAT_LIMIT:
            row[DROPS_REPEATS] += 1
            release(context, packet)
            return
        fields = (phv[R_RESUBMIT] << 32) | packet
        call_pipeline(row[PIPELINE], address, CLEAR_METADATA, switch, packet, fields)
        phv[INSTANCE_TYPE] = RESUBMITTED
        phv[PACKET_LENGTH] = words[P_FRAME_LENGTH]
        phv[R_LENGTH] = words[P_FRAME_LENGTH]
        phv[R_INGRESS_LENGTH] = words[P_FRAME_LENGTH]
        if context[PASSES] >= context[PASSES_END]:
            words[P_QUEUE_BYTES] = 0
            put_again(context, packet)
            return
    group = phv[MCAST_GRP]
    if group != 0:
        phv[INSTANCE_TYPE] = REPLICATION
        replicate(context, switch, packet, I_MULTICAST, group, now)
        release(context, packet)
        return
    if phv[EGRESS_SPEC] == context[DROP]:
        row[DROPS_INGRESS] += 1
        release(context, packet)
        return
    phv[INSTANCE_TYPE] = NORMAL
    to_port(context, switch, phv[EGRESS_SPEC], packet, phv[R_LENGTH], now)


@jit
def ingest(context: Any, switch: int, port: int, packet: int, now_ns: int) -> None:
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
        row[DROPS_NO_PROGRAM] += 1
        release(context, packet)
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
def join_frame(context: Any, packet: int) -> bool:
    """Make a departing packet one frame in a buffer of its own; False if there is no room."""
    words = packet_row(context, packet)
    stride = context[BUFFER_STRIDE]
    header_length = min(words[P_HEADER_LENGTH], words[P_LENGTH])
    payload_length = words[P_LENGTH] - header_length
    if HEADROOM + words[P_LENGTH] + SLACK > stride:
        switch_row(context, words[P_SWITCH])[DROPS_TOO_LONG] += 1
        return False
    header_stride = context[HEADER_STRIDE]
    header = uint8_view(context[HEADERS] + packet * header_stride, header_stride)
    old = words[P_BUFFER]
    references = int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])
    if references[old] == 1 and words[P_PAYLOAD] >= header_length:
        buffer = uint8_view(context[BUFFERS] + old * stride, stride)
        start = words[P_PAYLOAD] - header_length
        for i in range(header_length):
            buffer[start + i] = header[i]
        words[P_FRAME] = start
    else:
        new = take_buffer(context) if context[FREE_BUFFER_COUNT] > context[RESERVE] else NONE
        if new == NONE:
            context[NO_BUFFER] += 1
            return False
        source = uint8_view(context[BUFFERS] + old * stride, stride)
        buffer = uint8_view(context[BUFFERS] + new * stride, stride)
        for i in range(header_length):
            buffer[HEADROOM + i] = header[i]
        start = words[P_PAYLOAD]
        for i in range(payload_length):
            buffer[HEADROOM + header_length + i] = source[start + i]
        words[P_BUFFER] = new
        words[P_FRAME] = HEADROOM
        drop_buffer(context, old)
    words[P_FRAME_LENGTH] = words[P_LENGTH]
    words[P_PAYLOAD] = words[P_FRAME]
    words[P_PAYLOAD_LENGTH] = words[P_LENGTH]
    words[P_HEADER_LENGTH] = 0
    return True


@jit
def run_egress(context: Any, port_index: int, packet: int, start_ns: int) -> None:
    """Run egress and the deparser as the port's link takes the packet, and send it.

    ``port_index`` NONE: to a port that does not exist.
    """
    words = packet_row(context, packet)
    switch = words[P_SWITCH]
    row = switch_row(context, switch)
    phv = phv_row(context, packet)
    address = context.ctypes.data
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
        row[DROPS_NO_PROGRAM] += 1
        release(context, packet)
        return
    call_pipeline(row[PIPELINE], address, RUN_EGRESS, switch, packet, 0)
    if phv[R_CLONE] != 0:
        clone_egress(context, switch, packet, start_ns)
        phv[R_CLONE] = 0
    if phv[EGRESS_SPEC] == context[DROP]:
        row[DROPS_EGRESS] += 1
        release(context, packet)
        return
    call_pipeline(row[PIPELINE], address, RUN_DEPARSER, switch, packet, 0)
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
        row[DROPS_NO_PORT] += 1
        release(context, packet)
        return
    put_on_link(context, port_index, packet, start_ns)


@jit
def again(context: Any, switch: int, packet: int) -> None:
    """Put a deparsed packet on the list of those that start over at the parser."""
    row = switch_row(context, switch)
    words = packet_row(context, packet)
    phv = phv_row(context, packet)
    words[P_REPEATS] += 1
    if words[P_REPEATS] > REPEAT_LIMIT:
        row[DROPS_REPEATS] += 1
        release(context, packet)
        return
    if not join_frame(context, packet):
        release(context, packet)
        return
    fields = (phv[R_RECIRCULATE] << 32) | packet
    call_pipeline(row[PIPELINE], context.ctypes.data, CLEAR_METADATA, switch, packet, fields)
    phv[INSTANCE_TYPE] = RECIRCULATED
    phv[PACKET_LENGTH] = words[P_LENGTH]
    phv[R_LENGTH] = words[P_LENGTH]
    phv[R_INGRESS_LENGTH] = words[P_LENGTH]
    words[P_QUEUE_BYTES] = 0
    put_again(context, packet)


@jit
def go_on(context: Any, now_ns: int) -> None:
    """Take the first packet of the list on: through the parser again, or through the egress of a
    port that does not exist."""
    packet = context[AGAIN_HEAD]
    words = packet_row(context, packet)
    context[AGAIN_HEAD] = words[P_NEXT]
    words[P_NEXT] = NONE
    if words[P_QUEUE_BYTES] == NONE:
        run_egress(context, NONE, packet, now_ns)
    else:
        run_ingress(context, words[P_SWITCH], packet, now_ns)


@jit
def serve_port(context: Any, port_index: int, now_ns: int) -> None:
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
        port[Q_HEAD] = words[P_NEXT]
        words[P_NEXT] = NONE
        port[Q_PACKETS] -= 1
        port[Q_BYTES] -= words[P_QUEUE_BYTES]
        run_egress(context, port_index, packet, start)
    land(context, port_index, now_ns)
    reschedule(context, port_index)


@jit
def receive_frame(context: Any, switch: int, port: int, frame: Any, now_ns: int) -> None:
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
    stride = context[BUFFER_STRIDE]
    data = uint8_view(context[BUFFERS] + buffer * stride, stride)
    for i in range(length):
        data[HEADROOM + i] = frame[i]
    words = packet_row(context, packet)
    words[P_FRAME] = HEADROOM
    words[P_FRAME_LENGTH] = length
    ingest(context, switch, port, packet, now_ns)


@jit
def copy_frame(context: Any, packet: int, frame: Any) -> int:
    """Copy a departing frame into ``frame`` (uint8 array, long enough); its length in bytes."""
    words = packet_row(context, packet)
    length = words[P_LENGTH]
    header_length = min(words[P_HEADER_LENGTH], length)
    header_stride = context[HEADER_STRIDE]
    header = uint8_view(context[HEADERS] + packet * header_stride, header_stride)
    stride = context[BUFFER_STRIDE]
    data = uint8_view(context[BUFFERS] + words[P_BUFFER] * stride, stride)
    for i in range(header_length):
        frame[i] = header[i]
    start = words[P_PAYLOAD]
    for i in range(length - header_length):
        frame[header_length + i] = data[start + i]
    return length  # type: ignore[no-any-return]


@jit
def deadline(context: Any) -> int:
    """``next_deadline``, for callers that import this module only."""
    return next_deadline(context)
