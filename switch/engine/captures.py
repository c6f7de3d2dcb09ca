"""The ring of captured frames: the packet loop writes, a thread of Python reads, nobody waits.

The loop appends records and moves HEAD; the reader copies them out as packets of pcap files and
moves TAIL. A frame that finds no room is counted as lost to the capture; packets never wait for it.
A record is [length in bytes | file << 32, time in ns, the frame's words]; one that would go over
the ring's end begins at its start, behind a word that says so.
"""

from __future__ import annotations

from weft.switch.engine.layout import (
    CAPTURE,
    P_LENGTH,
    Octets,
    Words,
)
from weft.switch.engine.native import fence, int64_view, jit, uint8_view
from weft.switch.engine.queues import copy_bytes, copy_departing, packet_row

# Words of the ring's control block.
(
    C_HEAD,  # words ever written
    C_TAIL,  # words ever read
    C_WORDS,  # of the ring
    C_RECORDS,  # its address
    C_COUNTS,  # address of int64[files, 2]: captured, lost
    C_FILES,
    C_PENDING,  # HEAD once the record being written is whole
) = range(7)
CAPTURE_WORDS = 8

SKIP = -1
PCAP_PACKET_BYTES = 16


@jit
def reserve_record(context: Words, file: int, time_ns: int, length: int) -> int:
    """Begin a record; the address of its frame's bytes, or 0 if the ring is full."""
    ring = int64_view(context[CAPTURE], CAPTURE_WORDS)
    size = ring[C_WORDS]
    head = ring[C_HEAD]
    needed = 2 + (length + 7) // 8
    at = head % size
    skipped = size - at if at + needed > size else 0
    counts = int64_view(ring[C_COUNTS], 2 * ring[C_FILES])
    if head + skipped + needed - ring[C_TAIL] > size:
        counts[2 * file + 1] += 1
        return 0
    counts[2 * file] += 1
    records = int64_view(ring[C_RECORDS], size)
    if skipped:
        records[at] = SKIP
        at = 0
    records[at] = length | (file << 32)
    records[at + 1] = time_ns
    ring[C_PENDING] = head + skipped + needed
    return ring[C_RECORDS] + (at + 2) * 8  # type: ignore[no-any-return]


@jit
def publish_record(context: Words) -> None:
    """Let the reader see the record that was begun."""
    ring = int64_view(context[CAPTURE], CAPTURE_WORDS)
    fence()
    ring[C_HEAD] = ring[C_PENDING]


@jit
def capture_bytes(context: Words, file: int, time_ns: int, address: int, length: int) -> None:
    """Capture the frame at an address."""
    target = reserve_record(context, file, time_ns, length)
    if target != 0:
        copy_bytes(address, target, length)
        publish_record(context)


@jit
def capture_departure(context: Words, file: int, time_ns: int, packet: int) -> None:
    """Capture a deparsed packet as it leaves."""
    length = packet_row(context, packet)[P_LENGTH]
    target = reserve_record(context, file, time_ns, length)
    if target != 0:
        copy_departing(context, packet, target)
        publish_record(context)


@jit
def put32(out: Octets, place: int, value: int) -> None:
    """Write 32 bits, least significant byte first."""
    for i in range(4):
        out[place + i] = (value >> (8 * i)) & 0xFF


@jit
def drain(ring: Words, file: int, until: int, offset_ns: int, out: Octets) -> int:
    """Copy a file's records up to ``until`` (of HEAD) into ``out`` as a pcap file has them; how
    many bytes that were. ``offset_ns`` is added to each time. The ring stays as it is.
    """
    size = ring[C_WORDS]
    records = int64_view(ring[C_RECORDS], size)
    position = ring[C_TAIL]
    used = 0
    while position < until:
        at = position % size
        if records[at] == SKIP:
            position += size - at
            continue
        length = records[at] & 0xFFFFFFFF
        if records[at] >> 32 == file:
            time_ns = records[at + 1] + offset_ns
            put32(out, used, time_ns // 1_000_000_000)
            put32(out, used + 4, time_ns % 1_000_000_000)
            put32(out, used + 8, length)
            put32(out, used + 12, length)
            used += PCAP_PACKET_BYTES
            frame = uint8_view(ring[C_RECORDS] + (at + 2) * 8, length)
            for i in range(length):
                out[used + i] = frame[i]
            used += length
        position += 2 + (length + 7) // 8
    return used
