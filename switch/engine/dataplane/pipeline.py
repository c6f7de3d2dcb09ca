"""A packet's way through a switch: ingress, replication, egress, in BMv2's order of precedence.

See docs/simple_switch.md of p4lang/behavioral-model, "after-ingress" and "after-egress pseudocode".
As in BMv2, all metadata that a field list does not keep is 0 in a clone and in a packet that is
resubmitted or recirculated, ``ingress_port`` included.
"""

from weft.base.jit import memcpy
from weft.switch.engine.dataplane.hooks import ARRIVED
from weft.switch.engine.dataplane.image_layout import (
    REPLICATION_WORDS,
    EntryRecord,
    ImageHead,
    ReplicaRecord,
    ReplicationRecord,
)
from weft.switch.engine.dataplane.layout import (
    CLEAR_METADATA,
    DROPS_EGRESS,
    DROPS_INGRESS,
    DROPS_NO_PORT,
    DROPS_NO_PROGRAM,
    DROPS_PRIORITY,
    DROPS_REPEATS,
    DROPS_TOO_LONG,
    EGRESS_CLONE,
    HEADROOM,
    INGRESS_CLONE,
    KEEP_FIELDS,
    NONE,
    NORMAL,
    RECIRCULATED,
    REPLICATION,
    REQUEST_END,
    REQUEST_START,
    RESUBMITTED,
    RUN_DEPARSER,
    RUN_EGRESS,
    RUN_INGRESS,
    RUN_PARSER,
    SLACK,
    Context,
    Frame,
    Octets,
    Packet,
    PhvHead,
    PortRecord,
    SwitchRecord,
)
from weft.switch.engine.dataplane.pool import (
    append,
    copy_departing,
    copy_packet,
    drop,
    drop_buffer,
    phv_head,
    phv_row,
    release,
    take_buffer,
    take_first,
    take_in,
)
from weft.switch.engine.dataplane.queues import enqueue, land, note_drop, put_on_link
from weft.switch.engine.dataplane.runtime import lookup_word
from weft.switch.engine.dataplane.scheduling import next_start, queue_of, reschedule, take_waiting
from weft.switch.engine.dataplane.trace_layout import PRIORITY_DROP
from weft.switch.engine.native.compiled import (
    address_of,
    call_pipeline,
    entry,
    inline,
    int64_view,
    jit,
)

DEPARSED = 1

REPEAT_LIMIT = 256
"""How often one packet may be resubmitted and recirculated before it is dropped."""


@inline
def set_length(phv: PhvHead, length: int) -> None:
    """Set the length with which a packet begins its way."""
    phv.packet_length = length
    phv.r_length = length
    phv.r_ingress_length = length


@inline
def run(context: Context, switch: int, operation: int, packet: int, other: int) -> int:
    """Have a switch's program do one operation on a packet; return DEPARSED if its deparser has
    run at the end of ingress, or of egress."""
    deparsed: int = call_pipeline(
        SwitchRecord(context.switches, switch).pipeline,
        context.address,
        operation,
        switch,
        packet,
        other,
    )
    return deparsed


@jit
def clear_phv(context: Context, packet: int, fields: int, length: int, instance_type: int) -> None:
    """Start a packet's PHV: everything 0, the packet's length and type set.

    The fields of a wide header keep what they have until something is stored in them: clearing
    them would cost every packet of every program that has such a header. P4 leaves the fields of a
    header that was only made valid undefined.
    """
    words = phv_row(context, packet)
    for i in range(fields):
        words[i] = 0
    phv = phv_head(context, packet)
    set_length(phv, length)
    phv.r_fields = fields
    phv.instance_type = instance_type


@jit
def deny(context: Context, switch: int, packet: int) -> None:
    """Drop a packet whose priority has no queue; Python is told of the first one, and of greater
    priorities."""
    priority = phv_head(context, packet).priority
    note_drop(context, switch, packet, PRIORITY_DROP, priority, context.priorities, 0)
    row = SwitchRecord(context.switches, switch)
    if priority > row.denied_priority:
        row.denied_priority = priority
        context.events_wait = 1
    drop(context, switch, DROPS_PRIORITY, packet)


@jit
def to_port(
    context: Context, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue of an egress port.

    As on BMv2, a packet to a port that does not exist goes through egress all the same (where it
    may be cloned or recirculated) and is dropped then; and a packet whose priority has no queue is
    dropped here.
    """
    phv = phv_head(context, packet)
    if phv.priority < 0 or phv.priority >= context.priorities:
        deny(context, switch, packet)
        return
    ports = context.port_count
    if port >= 0 and port < ports and PortRecord(context.ports, switch * ports + port).up != 0:
        enqueue(context, switch, port, packet, size_bytes, now_ns)
        return
    words = Packet(context.packets, packet)
    words.switch = switch
    words.port = port
    words.queue_bytes = NONE
    phv.enq_timestamp = (now_ns - SwitchRecord(context.switches, switch).epoch_ns) // 1000
    phv.enq_qdepth = 0
    append(context, context.again, packet)


@jit
def replicate(
    context: Context, switch: int, packet: int, directory: int, group: int, now: int
) -> None:
    """Enqueue the copies that a multicast group or a clone session makes; the packet stays."""
    row = SwitchRecord(context.switches, switch)
    image = int64_view(row.image, row.image_words)
    entry = lookup_word(image, directory, group)
    if entry < 0:
        return
    record = EntryRecord(address_of(image, entry)).record
    head = ReplicationRecord(address_of(image, record))
    rows = address_of(image, record + REPLICATION_WORDS)
    count = head.replicas
    keep = head.keep
    context.passes += count
    for i in range(count):
        copy = copy_packet(context, packet)
        if copy == NONE:
            context.no_buffer += count - i - 1
            return
        words = phv_row(context, copy)
        for place in range(REQUEST_START, REQUEST_END):
            words[place] = 0
        phv = phv_head(context, copy)
        replica = ReplicaRecord(rows, i)
        phv.egress_rid = replica.instance
        if keep > 0:
            Packet(context.packets, copy).keep = keep
        to_port(context, switch, replica.port, copy, phv.r_length, now)


@jit
def send_clones(
    context: Context, switch: int, packet: int, copy: int, instance_type: int, now: int
) -> None:
    """Enqueue the copies of a session, with the fields that the list keeps, as ``copy`` is."""
    phv = phv_head(context, packet)
    run(context, switch, CLEAR_METADATA, copy, 0)
    run(context, switch, KEEP_FIELDS, copy, (phv.r_clone_list << 32) | packet)
    phv_head(context, copy).instance_type = instance_type
    directory = ImageHead(SwitchRecord(context.switches, switch).image).clone
    replicate(context, switch, copy, directory, phv.r_clone - 1, now)
    release(context, copy)


@jit
def clone_ingress(context: Context, switch: int, packet: int, now: int) -> None:
    """Make copies of the packet as ingress got it, parsed anew, with the fields that the list
    keeps."""
    copy = copy_packet(context, packet)
    if copy == NONE:
        return
    length = Packet(context.packets, packet).frame_length
    clear_phv(context, copy, SwitchRecord(context.switches, switch).fields, length, NORMAL)
    phv_head(context, copy).ingress_port = phv_head(context, packet).ingress_port
    run(context, switch, RUN_PARSER, copy, 0)
    send_clones(context, switch, packet, copy, INGRESS_CLONE, now)


@jit
def clone_egress(context: Context, switch: int, packet: int, now: int) -> None:
    """Make copies of the packet as egress leaves it, for egress again."""
    copy = copy_packet(context, packet)
    if copy != NONE:
        send_clones(context, switch, packet, copy, EGRESS_CLONE, now)


@jit
def join_frame(context: Context, packet: int) -> bool:
    """Make a departing packet one frame in a buffer of its own; return whether there is room."""
    words = Packet(context.packets, packet)
    stride = context.buffer_stride
    header_length = min(words.header_length, words.length)
    if HEADROOM + words.length + SLACK > stride:
        SwitchRecord(context.switches, words.switch).drops[DROPS_TOO_LONG] += 1
        return False
    old = words.buffer
    references = int64_view(context.buffer_references, context.buffer_count)
    if references[old] == 1 and words.payload >= header_length:
        start = words.payload - header_length
        header = context.headers + packet * context.header_stride
        memcpy(context.buffers + old * stride + start, header, header_length)
        words.frame = start
    else:
        new = take_buffer(context) if context.free_buffer_count > context.reserve else NONE
        if new == NONE:
            context.no_buffer += 1
            return False
        copy_departing(context, packet, context.buffers + new * stride + HEADROOM)
        words.buffer = new
        words.frame = HEADROOM
        drop_buffer(context, old)
    words.frame_length = words.length
    words.payload = words.frame
    words.payload_length = words.length
    words.header_length = 0
    return True


@jit
def join_deparsed(context: Context, packet: int) -> bool:
    """Make what a deparser has written, and the payload, the frame that the packet is; return
    whether there is room."""
    words = Packet(context.packets, packet)
    words.length = words.header_length + words.payload_length
    if not join_frame(context, packet):
        return False
    set_length(phv_head(context, packet), words.length)
    return True


@jit
def run_ingress(context: Context, switch: int, packet: int, now: int) -> None:
    """Run ingress, again for as long as the packet is resubmitted, and do what it decided."""
    row = SwitchRecord(context.switches, switch)
    words = Packet(context.packets, packet)
    phv = phv_head(context, packet)
    row.now_ns = now
    while True:
        context.passes += 1
        deparsed = run(context, switch, RUN_INGRESS, packet, 0)
        if phv.r_clone != 0:
            clone_ingress(context, switch, packet, now)
            phv.r_clone = 0
        if phv.r_resubmit == 0:
            break
        words.repeats += 1
        if words.repeats > REPEAT_LIMIT:
            drop(context, switch, DROPS_REPEATS, packet)
            return
        run(context, switch, CLEAR_METADATA, packet, (phv.r_resubmit << 32) | packet)
        phv.instance_type = RESUBMITTED
        set_length(phv, words.frame_length)
        if context.passes >= context.passes_end:
            words.queue_bytes = 0
            append(context, context.again, packet)
            return
    group = phv.mcast_grp
    goes_on = group != 0 or phv.egress_spec != context.drop
    if deparsed == DEPARSED and goes_on and not join_deparsed(context, packet):
        release(context, packet)
        return
    if group != 0:
        phv.instance_type = REPLICATION
        replicate(context, switch, packet, ImageHead(row.image).multicast, group, now)
        release(context, packet)
        return
    if phv.egress_spec == context.drop:
        drop(context, switch, DROPS_INGRESS, packet)
        return
    phv.instance_type = NORMAL
    to_port(context, switch, phv.egress_spec, packet, phv.r_length, now)


@jit
def ingest(context: Context, switch: int, port: int, packet: int, now_ns: int) -> None:
    """Let a frame arrive: ``frame`` and ``frame_length`` of its `Packet` say where it is.

    Takes the packet over. Call ``advance`` afterwards.
    """
    row = SwitchRecord(context.switches, switch)
    words = Packet(context.packets, packet)
    length = words.frame_length
    if port >= 0 and port < context.port_count:
        arrived = PortRecord(context.ports, switch * context.port_count + port)
        arrived.counted.rx_packets += 1
        arrived.counted.rx_bytes += length
        if arrived.watcher != 0:
            where, watcher = switch * context.port_count + port, arrived.watcher
            if call_pipeline(watcher, context.address, ARRIVED, where, packet, now_ns) != 0:
                return
    if row.pipeline == 0:
        drop(context, switch, DROPS_NO_PROGRAM, packet)
        return
    words.payload = words.frame
    words.payload_length = length
    words.switch = switch
    clear_phv(context, packet, row.fields, length, NORMAL)
    phv = phv_head(context, packet)
    phv.ingress_port = port
    phv.ingress_global_timestamp = (now_ns - row.epoch_ns) // 1000
    run_ingress(context, switch, packet, now_ns)


@jit
def run_egress(context: Context, port_index: int, packet: int, start_ns: int) -> None:
    """Run egress and the deparser as the port's link takes the packet, and send it.

    ``port_index`` NONE: to a port that does not exist.
    """
    words = Packet(context.packets, packet)
    switch = words.switch
    row = SwitchRecord(context.switches, switch)
    phv = phv_head(context, packet)
    row.now_ns = start_ns
    context.passes += 1
    timestamp = (start_ns - row.epoch_ns) // 1000
    phv.egress_global_timestamp = timestamp
    phv.deq_timedelta = timestamp - phv.enq_timestamp
    phv.deq_qdepth = (
        queue_of(context, port_index, phv.priority).packets if port_index != NONE else 0
    )
    phv.qid = phv.priority
    phv.egress_port = words.port
    phv.egress_spec = (context.drop + 1) & 0x1FF
    phv.packet_length = phv.r_length
    if row.pipeline == 0:
        drop(context, switch, DROPS_NO_PROGRAM, packet)
        return
    deparsed = run(context, switch, RUN_EGRESS, packet, 0)
    if deparsed == DEPARSED and phv.r_clone != 0 and not join_deparsed(context, packet):
        release(context, packet)
        return
    if phv.r_clone != 0:
        clone_egress(context, switch, packet, start_ns)
        phv.r_clone = 0
    if phv.egress_spec == context.drop:
        drop(context, switch, DROPS_EGRESS, packet)
        return
    if deparsed != DEPARSED:
        run(context, switch, RUN_DEPARSER, packet, 0)
    length = words.header_length + words.payload_length
    if words.keep != 0:
        length = min(length, words.keep)
    words.length = length
    if phv.r_recirculate != 0:
        again(context, switch, packet)  # whole: truncate() is for what is sent
        return
    if phv.r_truncate != 0:
        words.length = min(length, phv.r_truncate - 1)
    if port_index == NONE:
        drop(context, switch, DROPS_NO_PORT, packet)
        return
    put_on_link(context, port_index, packet, start_ns)


@jit
def again(context: Context, switch: int, packet: int) -> None:
    """Put a deparsed packet on the list of those that start over at the parser."""
    words = Packet(context.packets, packet)
    phv = phv_head(context, packet)
    words.repeats += 1
    if words.repeats > REPEAT_LIMIT:
        drop(context, switch, DROPS_REPEATS, packet)
        return
    if not join_frame(context, packet):
        release(context, packet)
        return
    run(context, switch, CLEAR_METADATA, packet, (phv.r_recirculate << 32) | packet)
    phv.instance_type = RECIRCULATED
    set_length(phv, words.length)
    words.queue_bytes = 0
    append(context, context.again, packet)


@jit
def go_on(context: Context, now_ns: int) -> None:
    """Take the first packet of the list on: through the parser again, or through the egress of a
    port that does not exist."""
    packet = take_first(context, context.again)
    words = Packet(context.packets, packet)
    if words.queue_bytes == NONE:
        run_egress(context, NONE, packet, now_ns)
    else:
        run_ingress(context, words.switch, packet, now_ns)


@jit
def serve_port(context: Context, port_index: int, now_ns: int) -> None:
    """Do what is due at one port: links take packets from queues, frames reach far ends.

    What is left when the driver's turn ends stays due: a packet may be cloned by egress to the very
    queue that it came from, without end.
    """
    while context.passes < context.passes_end:
        start = next_start(context, port_index)
        if start == NONE or start > now_ns:
            break
        run_egress(context, port_index, take_waiting(context, port_index, start), start)
    land(context, port_index, now_ns)
    reschedule(context, port_index)


@entry
def receive_frame(context: Context, switch: int, port: int, frame: Frame, now_ns: int) -> None:
    """Copy a frame (uint8 array) into the pool and ``ingest`` it; too long or no room: drop."""
    packet = take_in(context, switch, frame)
    if packet != NONE:
        ingest(context, switch, port, packet, now_ns)


@entry
def send_frame(context: Context, switch: int, port: int, frame: Frame, now_ns: int) -> None:
    """Copy a frame (uint8 array) into the pool and put it on the link of a port, as one that has
    been through all programs and queues; too long or no room: drop."""
    packet = take_in(context, switch, frame)
    if packet == NONE:
        return
    words = Packet(context.packets, packet)
    words.payload = words.frame
    words.length = words.payload_length = words.frame_length
    words.header_length = words.trace_number = 0
    words.switch = switch
    words.port = port
    port_index = switch * context.port_count + port
    start_ns = max(now_ns, PortRecord(context.ports, port_index).free_ns)
    put_on_link(context, port_index, packet, start_ns)
    reschedule(context, port_index)


@entry
def copy_frame(context: Context, packet: int, frame: Octets) -> int:
    """Copy a departing frame into ``frame`` (uint8 array, long enough); return its length in
    bytes."""
    copy_departing(context, packet, frame.ctypes.data)
    return Packet(context.packets, packet).length
