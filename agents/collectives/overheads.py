"""Bytes of headers around what packets carry, as frames without FCS.

InfiniBand Architecture Specification, volume 1, chapter 9 and annex A17.
"""

from weft.agents.collectives.transfers import IntArray, Sizing

ETHERNET, IPV4, UDP, BTH, DETH, IMMEDIATE, ICRC = 14, 20, 8, 12, 8, 4, 4
AGGREGATION = 16
"""Of aggregation in switches: epoch, round, flags, owner, exponent."""
UD_OVERHEAD_BYTES = ETHERNET + IPV4 + UDP + BTH + DETH + IMMEDIATE + ICRC
"""Of a multicast packet (UD SEND ONLY WITH IMMEDIATE)."""
RC_OVERHEAD_BYTES = ETHERNET + IPV4 + UDP + BTH + ICRC
"""Of a middle packet of an RDMA WRITE; the first has 16 bytes more, the last up to 4."""
SWITCH_OVERHEAD_BYTES = UD_OVERHEAD_BYTES + AGGREGATION
"""Of a packet to or from an aggregating switch, with values or without."""


def frame_bytes(size_bytes: IntArray, packet_bytes: int, overhead_bytes: int) -> IntArray:
    """Return frame bytes that carry so many payload bytes in packets of at most
    ``packet_bytes``."""
    return size_bytes + -(-size_bytes // packet_bytes) * overhead_bytes


def write_frames(packet_bytes: int) -> Sizing:
    """Return the `Sizing` of RDMA WRITEs in packets of at most so many bytes of payload."""
    return lambda size_bytes: frame_bytes(size_bytes, packet_bytes, RC_OVERHEAD_BYTES)
