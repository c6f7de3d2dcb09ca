"""RoCEv2 headers as the InfiniBand specification (volume 1, chapter 9) lays them out.

Compiled code in `weft.agents.wire.packets` makes and reads them, per row of a batch.
"""

import enum

BTH_BYTES = 12
RETH_BYTES = 16
DETH_BYTES = 8
AETH_BYTES = 4
IMMEDIATE_BYTES = 4
ICRC_BYTES = 4
HEADER_ROOM_BYTES = 64
"""A packet never has more than this around its payload, pad and ICRC included."""

PSN_MASK = 0xFFFFFF
PARTITION_KEY = 0xFFFF
"""Of the default partition, as a full member."""
SEQUENCE_BITS = 39
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
"""Connections number packets by more bits than the PSN has: with each time that the PSN has come
round, the lower 15 bits of the P_Key fall by one (`packets.put_bth`). So what was said one round
before is not taken for what is due now."""
LAST_SEQUENCE = SEQUENCE_MASK - PSN_MASK
"""Nothing more is posted behind this: what is numbered after it could be taken for what was first
of all."""
MULTICAST_QPN = 0xFFFFFF
AGGREGATION_QKEY = 0x57454147
"""The Q_Key of packets that switches add."""

SYNDROME_ACK = 0x1F
SYNDROME_PSN_SEQUENCE_ERROR = 0x60
SYNDROME_INVALID_REQUEST = 0x61
SYNDROME_REMOTE_ACCESS_ERROR = 0x62


class Opcode(enum.IntEnum):
    """The opcodes of the BTH that Weft speaks (IBTA specification, volume 1, 9.2)."""

    RC_SEND_FIRST = 0x00
    RC_SEND_MIDDLE = 0x01
    RC_SEND_LAST = 0x02
    RC_SEND_LAST_WITH_IMMEDIATE = 0x03
    RC_SEND_ONLY = 0x04
    RC_SEND_ONLY_WITH_IMMEDIATE = 0x05
    RC_WRITE_FIRST = 0x06
    RC_WRITE_MIDDLE = 0x07
    RC_WRITE_LAST = 0x08
    RC_WRITE_LAST_WITH_IMMEDIATE = 0x09
    RC_WRITE_ONLY = 0x0A
    RC_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    RC_READ_REQUEST = 0x0C
    RC_READ_RESPONSE_FIRST = 0x0D
    RC_READ_RESPONSE_MIDDLE = 0x0E
    RC_READ_RESPONSE_LAST = 0x0F
    RC_READ_RESPONSE_ONLY = 0x10
    RC_ACKNOWLEDGE = 0x11
    UD_SEND_ONLY = 0x64
    UD_SEND_ONLY_WITH_IMMEDIATE = 0x65


HAS_RETH, HAS_DETH, HAS_AETH, HAS_IMMEDIATE, HAS_PAYLOAD = (1 << bit for bit in range(5))
IS_FIRST, IS_LAST, IS_SEND, IS_WRITE, IS_RESPONSE = (1 << bit for bit in range(5, 10))
"""A response is a READ response or an acknowledgement: for the requester side of a queue pair."""

_SEND = HAS_PAYLOAD | IS_SEND
_WRITE = HAS_PAYLOAD | IS_WRITE
_READ = HAS_PAYLOAD | IS_RESPONSE

PROPERTIES: dict[Opcode, int] = {
    Opcode.RC_SEND_FIRST: _SEND | IS_FIRST,
    Opcode.RC_SEND_MIDDLE: _SEND,
    Opcode.RC_SEND_LAST: _SEND | IS_LAST,
    Opcode.RC_SEND_LAST_WITH_IMMEDIATE: _SEND | IS_LAST | HAS_IMMEDIATE,
    Opcode.RC_SEND_ONLY: _SEND | IS_FIRST | IS_LAST,
    Opcode.RC_SEND_ONLY_WITH_IMMEDIATE: _SEND | IS_FIRST | IS_LAST | HAS_IMMEDIATE,
    Opcode.RC_WRITE_FIRST: _WRITE | IS_FIRST | HAS_RETH,
    Opcode.RC_WRITE_MIDDLE: _WRITE,
    Opcode.RC_WRITE_LAST: _WRITE | IS_LAST,
    Opcode.RC_WRITE_LAST_WITH_IMMEDIATE: _WRITE | IS_LAST | HAS_IMMEDIATE,
    Opcode.RC_WRITE_ONLY: _WRITE | IS_FIRST | IS_LAST | HAS_RETH,
    Opcode.RC_WRITE_ONLY_WITH_IMMEDIATE: _WRITE | IS_FIRST | IS_LAST | HAS_RETH | HAS_IMMEDIATE,
    Opcode.RC_READ_REQUEST: IS_FIRST | IS_LAST | HAS_RETH,
    Opcode.RC_READ_RESPONSE_FIRST: _READ | IS_FIRST | HAS_AETH,
    Opcode.RC_READ_RESPONSE_MIDDLE: _READ,
    Opcode.RC_READ_RESPONSE_LAST: _READ | IS_LAST | HAS_AETH,
    Opcode.RC_READ_RESPONSE_ONLY: _READ | IS_FIRST | IS_LAST | HAS_AETH,
    Opcode.RC_ACKNOWLEDGE: IS_RESPONSE | HAS_AETH,
    Opcode.UD_SEND_ONLY: HAS_PAYLOAD | HAS_DETH,
    Opcode.UD_SEND_ONLY_WITH_IMMEDIATE: HAS_PAYLOAD | HAS_DETH | HAS_IMMEDIATE,
}
"""What follows the BTH of each opcode, and what it is a part of."""
