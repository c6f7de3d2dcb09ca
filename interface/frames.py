"""Frames as scapy has them, and as bytes."""

from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError
from weft.base.units import shown

if TYPE_CHECKING:  # it takes most of a second to import
    from scapy.packet import Packet

LEAST_BYTES = 14
"""Of an Ethernet frame: its addresses and its type."""


def frame_bytes(packet: Any, most: int) -> bytes:
    """Return the bytes of a frame, which is given as they or as a packet of scapy's that begins
    with Ethernet. Raises InputError for what is none, or is longer than ``most`` bytes."""
    if isinstance(packet, (bytes, bytearray, memoryview)):
        frame = bytes(packet)
    else:
        from scapy.layers.l2 import Dot3, Ether

        if not isinstance(packet, (Ether, Dot3)):
            raise InputError(
                f"frame {shown(packet)}: give a packet of scapy's that begins with Ether(), or the "
                "frame's bytes"
            )
        frame = bytes(packet)
    if not LEAST_BYTES <= len(frame) <= most:
        raise InputError(
            f"a frame of {len(frame)} bytes: from {LEAST_BYTES} to {most} bytes can be sent here"
        )
    return frame


def packet_of(frame: bytes, time_s: float) -> "Packet":
    """Return a frame as scapy's packet, with the time at which it came."""
    from scapy.layers.l2 import Ether

    packet = Ether(frame)
    packet.time = time_s
    return packet
