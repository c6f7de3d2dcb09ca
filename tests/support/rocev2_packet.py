"""A RoCEv2 packet as a plain class, written apart from the compiled code that tests hold to it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.wire.compiled import compiled
from weft.agents.wire.crc import icrc_at
from weft.agents.wire.headers import (
    BTH_BYTES,
    HAS_AETH,
    HAS_DETH,
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    HAS_RETH,
    ICRC_BYTES,
    PARTITION_KEY,
    PROPERTIES,
    PSN_MASK,
    Opcode,
)
from weft.base.errors import ProtocolError, refuse


@compiled
def _icrc_of(data: npt.NDArray[np.uint8], source: int, destination: int, source_port: int) -> int:
    return icrc_at(data.ctypes.data, len(data), source, destination, source_port)


def icrc(data: bytes, source: int, destination: int, source_port: int) -> int:
    """Return the ICRC of a datagram without its own last 4 bytes (at least a BTH: ValueError if
    shorter).

    It is sent least significant byte first.
    """
    if len(data) < 12:
        raise ValueError(f"{len(data)} bytes are no datagram: a BTH alone has 12")
    return int(_icrc_of(np.frombuffer(data, np.uint8), source, destination, source_port))


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
