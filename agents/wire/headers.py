"""RoCEv2 headers as the InfiniBand specification (volume 1, chapter 9) lays them out, and a plain
packet class.

`Packet` is for tests, traces and tools; compiled code in `weft.agents.wire.packets` does the same
per row of a batch.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from weft.base.errors import ProtocolError, refuse

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
MULTICAST_QPN = 0xFFFFFF

SYNDROME_ACK = 0x1F
SYNDROME_PSN_SEQUENCE_ERROR = 0x60
SYNDROME_INVALID_REQUEST = 0x61
SYNDROME_REMOTE_ACCESS_ERROR = 0x62
SYNDROME_REMOTE_OPERATIONAL_ERROR = 0x63


class Opcode(enum.IntEnum):
    """The opcodes that Weft speaks."""

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


class MalformedPacket(ProtocolError):
    """Bytes that are no RoCEv2 packet of an opcode known here, or whose ICRC is wrong."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet's fields; those that its opcode does not carry are zero. Numbers in host order.

    `congested` is the BTH's BECN bit. `begins_message` is the lowest of its seven reserved bits
    beside the acknowledge request, which others send as zero and ignore: where every packet of an
    RDMA WRITE is a WRITE ONLY (selective repeat), it is set in the first.
    """

    opcode: Opcode
    queue_pair: int
    psn: int
    acknowledge_request: bool = False
    remote_address: int = 0
    rkey: int = 0
    dma_length: int = 0
    qkey: int = 0
    source_queue_pair: int = 0
    syndrome: int = 0
    message_sequence: int = 0
    immediate: int = 0
    payload: bytes = b""
    congested: bool = False
    begins_message: bool = False

    def encode(self, source: int, destination: int, source_port: int) -> bytes:
        """Return the datagram: from BTH to ICRC."""
        has = PROPERTIES[self.opcode]
        pad = -len(self.payload) % 4
        parts = [
            struct.pack(
                ">BBHII",
                self.opcode,
                pad << 4,
                PARTITION_KEY,
                self.congested << 30 | self.queue_pair,
                self.acknowledge_request << 31 | self.begins_message << 24 | self.psn,
            )
        ]
        if has & HAS_DETH:
            parts.append(struct.pack(">II", self.qkey, self.source_queue_pair))
        if has & HAS_RETH:
            parts.append(struct.pack(">QII", self.remote_address, self.rkey, self.dma_length))
        if has & HAS_AETH:
            parts.append(struct.pack(">I", self.syndrome << 24 | self.message_sequence))
        if has & HAS_IMMEDIATE:
            parts.append(struct.pack(">I", self.immediate))
        from weft.agents.wire.crc import icrc  # numba comes with it, which headers do without

        data = b"".join([*parts, self.payload, bytes(pad)])
        return data + struct.pack("<I", icrc(data, source, destination, source_port))

    @staticmethod
    def decode(
        data: bytes, source: int = 0, destination: int = 0, source_port: int | None = None
    ) -> Packet:
        """Return the packet in a datagram; checks the ICRC if `source_port` is given.
        MalformedPacket if it is none."""
        refuse(
            len(data) < BTH_BYTES + ICRC_BYTES,
            f"{len(data)} bytes are too few for BTH and ICRC",
            MalformedPacket,
        )
        if source_port is not None:
            from weft.agents.wire.crc import icrc

            expected = icrc(data[:-4], source, destination, source_port)
            found = int.from_bytes(data[-4:], "little")
            if found != expected:
                raise MalformedPacket(f"ICRC {found:#010x} instead of {expected:#010x}")
        code, flags, _, queue_pair, psn = struct.unpack(">BBHII", data[:BTH_BYTES])
        try:
            opcode = Opcode(code)
        except ValueError:
            raise MalformedPacket(f"opcode {code:#04x} is not spoken here") from None
        has = PROPERTIES[opcode]
        at = BTH_BYTES
        values: dict[str, int] = {}

        def take(layout: str, *names: str) -> None:
            nonlocal at
            size = struct.calcsize(layout)
            if at + size + ICRC_BYTES > len(data):
                raise MalformedPacket(f"{len(data)} bytes are too few for {opcode.name}")
            values.update(zip(names, struct.unpack_from(layout, data, at), strict=True))
            at += size

        if has & HAS_DETH:
            take(">II", "qkey", "source_queue_pair")
        if has & HAS_RETH:
            take(">QII", "remote_address", "rkey", "dma_length")
        if has & HAS_AETH:
            take(">BBH", "syndrome", "high", "low")
            values["message_sequence"] = values.pop("high") << 16 | values.pop("low")
        if has & HAS_IMMEDIATE:
            take(">I", "immediate")
        end = len(data) - ICRC_BYTES - (flags >> 4 & 3)
        if end < at or (end > at and not has & HAS_PAYLOAD):
            raise MalformedPacket(f"{len(data)} bytes do not fit {opcode.name}")
        return Packet(
            opcode,
            queue_pair & PSN_MASK,
            psn & PSN_MASK,
            bool(psn >> 31),
            payload=data[at:end],
            congested=bool(queue_pair >> 30 & 1),
            begins_message=bool(psn >> 24 & 1),
            **values,
        )
