"""RoCEv2 on the wire: headers, packets and the invariant CRC."""

from agents.wire.crc import crc32, icrc
from agents.wire.headers import MalformedPacket, Opcode, Packet
from agents.wire.packets import Decoded, decode

__all__ = ["Decoded", "MalformedPacket", "Opcode", "Packet", "crc32", "decode", "icrc"]
