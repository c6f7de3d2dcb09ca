"""The ring of captured frames: the packet loop writes, a thread of Python reads, nobody waits.

The loop appends records and moves HEAD; the reader copies them out as packets of pcap files and
moves TAIL. A frame that finds no room is counted as lost to the capture; packets never wait for it.
A record is [length in bytes | file << 32, time in ns, the frame's words]; one that would go over
the ring's end begins at its start, behind a word that says so.
"""

from __future__ import annotations

from typing import Any

from weft.switch.engine.layout import (
    BUFFER_STRIDE,
    BUFFERS,
    CAPTURE,
    HEADER_STRIDE,
    HEADERS,
    P_BUFFER,
    P_HEADER_LENGTH,
    P_LENGTH,
    P_PAYLOAD,
)
from weft.switch.engine.native import fence, int64_view, jit, uint8_view
from weft.switch.engine.queues import packet_row

# Words of the ring's control block.
C_HEAD = 0  # words ever written
C_TAIL = 1  # words ever read
C_WORDS = 2  # of the ring
C_RECORDS = 3  # its address
C_COUNTS = 4  # address of int64[files, 2]: captured, lost
C_FILES = 5
C_PENDING = 6  # HEAD once the record being written is whole
CAPTURE_WORDS = 8

SKIP = -1
PCAP_PACKET_BYTES = 16


@jit
def reserve_record(context: Any, file: int, time_ns: int, length: int) -> int:
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
def publish_record(context: Any) -> None:
    """Let the reader see the record that was begun."""
    ring = int64_view(context[CAPTURE], CAPTURE_WORDS)
    fence()
    ring[C_HEAD] = ring[C_PENDING]


@jit
def copy_bytes(source: int, target: int, length: int) -> None:
    """Copy bytes from one address to another."""
    read = uint8_view(source, length)
    written = uint8_view(target, length)
    for i in range(length):
        written[i] = read[i]


@jit
def capture_bytes(context: Any, file: int, time_ns: int, address: int, length: int) -> None:
    """Capture the frame at an address."""
    target = reserve_record(context, file, time_ns, length)
    if target != 0:
        copy_bytes(address, target, length)
        publish_record(context)


@jit
def capture_departure(context: Any, file: int, time_ns: int, packet: int) -> None:
    """Capture a deparsed packet as it leaves: its header row, then the payload in its buffer."""
    words = packet_row(context, packet)
    length = words[P_LENGTH]
    target = reserve_record(context, file, time_ns, length)
    if target == 0:
        return
    header_length = min(words[P_HEADER_LENGTH], length)
    copy_bytes(context[HEADERS] + packet * context[HEADER_STRIDE], target, header_length)
    payload = context[BUFFERS] + words[P_BUFFER] * context[BUFFER_STRIDE] + words[P_PAYLOAD]
    copy_bytes(payload, target + header_length, length - header_length)
    publish_record(context)


@jit
def put32(out: Any, place: int, value: int) -> None:
    """Write 32 bits, least significant byte first."""
    for i in range(4):
        out[place + i] = (value >> (8 * i)) & 0xFF


@jit
def drain(ring: Any, file: int, until: int, offset_ns: int, out: Any) -> int:
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
