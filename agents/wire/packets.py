"""Compiled reading and writing of packets in place, a row of a batch at a time, and a decoder of
whole batches."""

import numpy as np

from weft.agents.wire.compiled import internal
from weft.agents.wire.crc import icrc_at, swap16, swap32
from weft.agents.wire.headers import (
    AETH_BYTES,
    AGGREGATION_QKEY,
    BTH_BYTES,
    DETH_BYTES,
    HAS_AETH,
    HAS_DETH,
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    HAS_RETH,
    ICRC_BYTES,
    IMMEDIATE_BYTES,
    IS_SEND,
    PARTITION_KEY,
    PROPERTIES,
    PSN_MASK,
    RETH_BYTES,
    Opcode,
)
from weft.base.jit import (
    Record,
    Word,
    load8,
    load16,
    load32,
    load64,
    record,
    store8,
    store32,
    store64,
)


@record
class Fields(Record):
    """The fields of a packet."""

    opcode: int
    property_bits: int
    queue_pair: int
    psn: int
    """The PSN, and above it how often it has come round, as the P_Key says: `SEQUENCE_BITS`."""
    acknowledge_request: int
    remote_address: int
    rkey: int
    dma_length: int
    qkey: int
    source_queue_pair: int
    syndrome: int
    message_sequence: int
    immediate: int
    payload_offset: int
    payload_length: int
    congested: int
    """The BECN bit of the BTH."""
    begins_message: int
    """The lowest of the seven reserved bits beside the acknowledge request, which others send as
    zero and ignore: where every packet of an RDMA WRITE is a WRITE ONLY (selective repeat), it is
    set in the first."""
    marked: int
    """Not of `parse`: whether the packet came with ECN congestion experienced, and its source
    port."""
    source_port: int


_ADDED_OPCODE = int(Opcode.UD_SEND_ONLY_WITH_IMMEDIATE)
_ROUNDS_MASK = 0x7FFF
"""Of the P_Key: the highest bit says what kind of member the sender is."""

# What `parse` returns.
GOOD, TRUNCATED, BAD_ICRC, UNKNOWN_OPCODE = range(4)

_EXTENDED = (
    (HAS_DETH, DETH_BYTES), (HAS_RETH, RETH_BYTES), (HAS_AETH, AETH_BYTES),
    (HAS_IMMEDIATE, IMMEDIATE_BYTES),
)  # fmt: skip
_PROPERTIES = np.full(256, -1, np.int64)
HEADER_BYTES = np.zeros(256, np.int64)
"""Of BTH and extended headers, by opcode."""
for _opcode, _bits in PROPERTIES.items():
    _PROPERTIES[_opcode] = _bits
    HEADER_BYTES[_opcode] = BTH_BYTES + sum(size for has, size in _EXTENDED if _bits & has)


@internal
def swap64(value: Word) -> Word:
    """Return the eight bytes of a 64-bit number, reversed."""
    low = np.uint64(swap32(np.int64(value & np.uint64(0xFFFFFFFF))))
    return (low << np.uint64(32)) | np.uint64(swap32(np.int64(value >> np.uint64(32))))


CARRIED_BYTES = 16
"""What is behind the headers in place of data that travel without bytes
(`weft.agents.transport.payload_layout.Carried`)."""


@internal
def is_added(row: int, opcode: int) -> bool:
    """Return whether a packet at address `row` is one that switches add."""
    if opcode != _ADDED_OPCODE:
        return False
    return swap32(np.int64(load32(row + BTH_BYTES))) == AGGREGATION_QKEY


@internal
def covered_bytes(row: int, used: int) -> int:
    """Return how many bytes before the ICRC are there of a packet at address `row` whose headers
    and payload are `used` bytes, where data travel without bytes; those of SENDs are there, and of
    what switches add."""
    opcode = np.int64(load8(row))
    headers: int = max(BTH_BYTES, HEADER_BYTES[opcode])
    if used > headers and _PROPERTIES[opcode] & IS_SEND == 0 and not is_added(row, opcode):
        return headers + CARRIED_BYTES
    return used


@internal
def parse(
    row: int,
    size: int,
    source: int,
    destination: int,
    source_port: int,
    bare: bool,
    fields: Fields,
) -> int:
    """Check a datagram of `size` bytes at address `row` and find its fields; returns GOOD or what
    is wrong. Fields that the opcode does not carry are zero. `bare`: data travel without bytes."""
    if size < BTH_BYTES + ICRC_BYTES:
        return TRUNCATED
    covered = size - ICRC_BYTES
    if bare:
        covered = covered_bytes(row, covered)
    if np.int64(load32(row + covered)) != icrc_at(row, covered, source, destination, source_port):
        return BAD_ICRC
    fields.remote_address = fields.rkey = fields.dma_length = 0
    fields.qkey = fields.source_queue_pair = fields.syndrome = 0
    fields.message_sequence = fields.immediate = 0
    opcode = np.int64(load8(row))
    bits = _PROPERTIES[opcode]
    second = np.int64(load8(row + 1))
    if bits < 0 or second & 0xF:
        return UNKNOWN_OPCODE
    fields.opcode = opcode
    fields.property_bits = bits
    fields.queue_pair = swap32(np.int64(load32(row + 4))) & PSN_MASK
    last = swap32(np.int64(load32(row + 8)))
    key = swap16(np.int64(load16(row + 2)))
    fields.psn = last & PSN_MASK | ((PARTITION_KEY - key) & _ROUNDS_MASK) << 24
    fields.acknowledge_request = last >> 31
    fields.begins_message = last >> 24 & 1
    fields.congested = np.int64(load8(row + 4)) >> 6 & 1
    need = HEADER_BYTES[opcode] + ICRC_BYTES
    pad = (second >> 4) & 3
    if size < need + pad or (size > need and not bits & HAS_PAYLOAD):
        return TRUNCATED
    at = BTH_BYTES
    if bits & HAS_DETH:
        fields.qkey = swap32(np.int64(load32(row + at)))
        fields.source_queue_pair = swap32(np.int64(load32(row + at + 4))) & PSN_MASK
        at += DETH_BYTES
    if bits & HAS_RETH:
        fields.remote_address = np.int64(swap64(load64(row + at)))
        fields.rkey = swap32(np.int64(load32(row + at + 8)))
        fields.dma_length = swap32(np.int64(load32(row + at + 12)))
        at += RETH_BYTES
    if bits & HAS_AETH:
        word = swap32(np.int64(load32(row + at)))
        fields.syndrome = word >> 24
        fields.message_sequence = word & PSN_MASK
        at += AETH_BYTES
    if bits & HAS_IMMEDIATE:
        fields.immediate = swap32(np.int64(load32(row + at)))
    fields.payload_offset = HEADER_BYTES[opcode]
    fields.payload_length = size - need - pad
    return GOOD


@internal
def put_bth(
    row: int, opcode: int, payload_length: int, acknowledge_request: int, queue_pair: int, psn: int
) -> int:
    """Write a BTH at address `row`, and return the offset behind it. The P_Key has what is left of
    a `psn` of more than 24 bits."""
    pad = -payload_length & 3
    key = PARTITION_KEY - (psn >> 24 & _ROUNDS_MASK)
    store32(row, np.uint32(opcode | (pad << 12) | swap16(key) << 16))
    store32(row + 4, np.uint32(swap32(queue_pair)))
    store32(row + 8, np.uint32(swap32((psn & PSN_MASK) | (acknowledge_request << 31))))
    return BTH_BYTES


@internal
def set_congested(row: int) -> None:
    """Set BECN in the BTH at address `row`; the ICRC does not cover it."""
    store8(row + 4, np.uint8(np.int64(load8(row + 4)) | 0x40))


@internal
def set_begins_message(row: int) -> None:
    """Say in the BTH at address `row` that the packet begins a message."""
    store8(row + 8, np.uint8(np.int64(load8(row + 8)) | 1))


@internal
def put_word(row: int, at: int, value: int) -> int:
    """Write a 32-bit number, most significant byte first, and return the offset behind it."""
    store32(row + at, np.uint32(swap32(value)))
    return at + 4


@internal
def put_words(row: int, at: int, values: tuple[int, ...]) -> int:
    """Write 32-bit numbers, as `put_word` does each, and return the offset behind them."""
    for value in values:
        at = put_word(row, at, value)
    return at


@internal
def put_reth(row: int, at: int, remote_address: int, rkey: int, dma_length: int) -> int:
    """Write a RETH, and return the offset behind it."""
    store64(row + at, swap64(np.uint64(remote_address)))
    store32(row + at + 8, np.uint32(swap32(rkey)))
    store32(row + at + 12, np.uint32(swap32(dma_length)))
    return at + RETH_BYTES


@internal
def put_icrc(row: int, at: int, source: int, destination: int, source_port: int) -> int:
    """Write pad and ICRC behind headers and payload that end at offset `at`; returns the
    datagram's size."""
    while at & 3:
        store8(row + at, np.uint8(0))
        at += 1
    store32(row + at, np.uint32(icrc_at(row, at, source, destination, source_port)))
    return at + ICRC_BYTES
