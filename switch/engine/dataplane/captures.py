"""The ring of captured frames: the packet loop writes, a thread of Python reads, nobody waits.

The loop appends records and moves HEAD; the reader copies them out as packets of pcap files and
moves TAIL. A frame that finds no room is counted as lost to the capture; packets never wait for it.
A record is [length in bytes | file << 32, time in ns, the frame's words]; one that would go over
the ring's end begins at its start, behind a word that says so.
"""

import numpy as np

from weft.base.jit import Record, memcpy, record, store32
from weft.switch.engine.dataplane.layout import Context, Octets, Packet
from weft.switch.engine.dataplane.pool import copy_departing
from weft.switch.engine.native.compiled import entry, int64_view, jit, release_fence

SKIP = -1
PCAP_PACKET_BYTES = 16


@record
class CaptureRing(Record):
    """The state of a ring of captured frames."""

    head: int
    """How many words were ever written."""
    tail: int
    """How many words were ever read."""
    words: int
    """How many words the ring has."""
    records: int
    """Address of its words."""
    counts: int
    """Address of int64[files, 2]: frames captured, and lost."""
    files: int
    pending: int
    """What ``head`` is once the record being written is whole."""


@jit
def reserve_record(context: Context, file: int, time_ns: int, length: int) -> int:
    """Begin a record; return the address of its frame's bytes, or 0 if the ring is full."""
    ring = CaptureRing(context.capture)
    size = ring.words
    head = ring.head
    needed = 2 + (length + 7) // 8
    at = head % size
    skipped = size - at if at + needed > size else 0
    counts = int64_view(ring.counts, 2 * ring.files)
    if head + skipped + needed - ring.tail > size:
        counts[2 * file + 1] += 1
        return 0
    counts[2 * file] += 1
    records = int64_view(ring.records, size)
    if skipped:
        records[at] = SKIP
        at = 0
    records[at] = length | (file << 32)
    records[at + 1] = time_ns
    ring.pending = head + skipped + needed
    return ring.records + (at + 2) * 8


@jit
def publish_record(context: Context) -> None:
    """Let the reader see the record that was begun."""
    ring = CaptureRing(context.capture)
    release_fence()
    ring.head = ring.pending


@jit
def capture_bytes(context: Context, file: int, time_ns: int, address: int, length: int) -> None:
    """Capture the frame at an address."""
    target = reserve_record(context, file, time_ns, length)
    if target != 0:
        memcpy(target, address, length)
        publish_record(context)


@jit
def capture_departure(context: Context, file: int, time_ns: int, packet: int) -> None:
    """Capture a deparsed packet as it leaves."""
    target = reserve_record(context, file, time_ns, Packet(context.packets, packet).length)
    if target != 0:
        copy_departing(context, packet, target)
        publish_record(context)


@entry
def drain(address: int, file: int, until: int, offset_ns: int, out: Octets) -> int:
    """Copy a file's records up to ``until`` (of HEAD) into ``out`` as a pcap file has them; how
    many bytes that were. ``offset_ns`` is added to each time. The ring stays as it is.
    """
    ring = CaptureRing(address)
    size = ring.words
    records = int64_view(ring.records, size)
    position = ring.tail
    used = 0
    while position < until:
        at = position % size
        if records[at] == SKIP:
            position += size - at
            continue
        length = records[at] & 0xFFFFFFFF
        if records[at] >> 32 == file:
            time_ns = records[at + 1] + offset_ns
            place = out.ctypes.data + used
            store32(place, np.uint32(time_ns // 1_000_000_000))
            store32(place + 4, np.uint32(time_ns % 1_000_000_000))
            store32(place + 8, np.uint32(length))
            store32(place + 12, np.uint32(length))
            used += PCAP_PACKET_BYTES
            memcpy(place + PCAP_PACKET_BYTES, ring.records + (at + 2) * 8, length)
            used += length
        position += 2 + (length + 7) // 8
    return used
