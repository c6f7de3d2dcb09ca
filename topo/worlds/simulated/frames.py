"""Compiled code for frames of datagrams: it makes and checks them as a host's stack does, and
hashes them."""

from weft.agents.wire.headers import BTH_BYTES
from weft.agents.wire.packets import HEADER_BYTES
from weft.base.pages import prefetch
from weft.switch.engine.native.compiled import int64_view, load64, shift_right64, store64
from weft.topo.worlds.simulated.layout import (
    ETHERNET_BYTES,
    STACK_BYTES,
    UDP_BYTES,
    Frame,
    HostRecord,
    WorldRecord,
    internal,
)

TTL = 64
MULTICAST_MAC = 0x01005E000000
ROCE_PORT = 4791
_ETHERTYPE_IPV4 = 0x0800
_UDP = 17
_DONT_FRAGMENT = 0x4000

# Odd numbers with bits spread evenly: 2^64 times the fractional parts of the square roots of 2,
# 3, 5 and 7, last bit set, as signed words.
_A = 0x6A09E667F3BCC909
_B = 0xBB67AE8584CAA73B - (1 << 64)
_C = 0x3C6EF372FE94F82B
_D = 0xA54FF53A5F1D36F1 - (1 << 64)


@internal
def header_sum(total_length: int, tos: int, source: int, destination: int) -> int:
    """Return the IPv4 header checksum of a packet that a host sends (RFC 1071)."""
    total = 0x4500 + tos + total_length + _DONT_FRAGMENT + (TTL << 8) + _UDP
    total += (source >> 16) + (source & 0xFFFF) + (destination >> 16) + (destination & 0xFFFF)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@internal
def put_stack(
    data: Frame, at: int, host: HostRecord, size: int, destination: int, source_port: int, tos: int
) -> int:
    """Write Ethernet, IPv4 and UDP in front of a datagram of ``size`` bytes; return the frame's
    length.

    ``at`` is where the frame begins in ``data``. As Linux does for a socket with DF, the
    identification and the UDP checksum are 0; everything that is not multicast goes to the gateway.
    """
    source = host.address
    source_mac = host.mac
    if destination >> 28 == 0xE:
        destination_mac = MULTICAST_MAC | (destination & 0x7FFFFF)
    else:
        destination_mac = host.gateway_mac
    length = size + STACK_BYTES - ETHERNET_BYTES
    checksum = header_sum(length, tos, source, destination)
    store64(data, at, (destination_mac << 16) | (source_mac >> 32))
    store64(
        data,
        at + 8,
        ((source_mac & 0xFFFFFFFF) << 32) | (_ETHERTYPE_IPV4 << 16) | (0x45 << 8) | tos,
    )
    store64(data, at + 16, (length << 48) | (_DONT_FRAGMENT << 16) | (TTL << 8) | _UDP)
    store64(data, at + 24, (checksum << 48) | (source << 16) | (destination >> 16))
    store64(
        data,
        at + 32,
        ((destination & 0xFFFF) << 48)
        | (source_port << 32)
        | (ROCE_PORT << 16)
        | (size + UDP_BYTES),
    )
    data[at + 40] = 0
    data[at + 41] = 0
    return size + STACK_BYTES


@internal
def read16(data: Frame, at: int) -> int:
    """Return two bytes as a number, the more significant first."""
    return (int(data[at]) << 8) | int(data[at + 1])


@internal
def read32(data: Frame, at: int) -> int:
    """Return four bytes as a number, the most significant first."""
    return (read16(data, at) << 16) | read16(data, at + 2)


@internal
def taken_size(data: Frame, at: int, length: int, host: HostRecord) -> int:
    """Return the size of the datagram in a frame, in bytes, if an interface and its stack take the
    frame; -1 if they do not.

    They check the destination's MAC and IPv4 addresses (a multicast one must have been joined),
    header lengths and checksum, that it is no fragment, and that it is UDP to the RoCEv2 port
    without a checksum.
    """
    if length < STACK_BYTES or read16(data, at + 12) != _ETHERTYPE_IPV4:
        return -1
    mac = (read16(data, at) << 32) | read32(data, at + 2)
    destination = read32(data, at + 30)
    if destination == host.address:
        if mac != host.mac:
            return -1
    else:
        if mac != MULTICAST_MAC | (destination & 0x7FFFFF):
            return -1
        groups = int64_view(host.groups, host.group_count)
        joined = False
        for i in range(host.group_count):
            if groups[i] == destination:
                joined = True
                break
        if not joined:
            return -1
    total_length = read16(data, at + 16)
    if data[at + 14] != 0x45 or total_length > length - ETHERNET_BYTES:
        return -1
    if data[at + 23] != _UDP or read16(data, at + 20) & 0x3FFF:
        return -1
    total = 0
    for i in range(0, 20, 2):
        total += read16(data, at + 14 + i)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    if total != 0xFFFF:
        return -1
    udp_length = read16(data, at + 38)
    if (
        read16(data, at + 36) != ROCE_PORT
        or udp_length > total_length - 20
        or udp_length < UDP_BYTES
        or read16(data, at + 40) != 0
    ):
        return -1
    return udp_length - UDP_BYTES


@internal
def mix(state: int, word: int) -> int:
    """Return a hash into which one more word has been mixed."""
    mixed = (state ^ word) * _A
    return mixed ^ shift_right64(mixed, 32)


@internal
def content_hash(data: Frame, at: int, length: int, ahead: int) -> int:
    """Return a hash of a frame's bytes, computed in four lanes of words, most significant byte
    first. As much memory from the address ``ahead`` on is fetched meanwhile."""
    one, two, three, four = _A, _B, _C, _D
    end = at + length
    ahead -= at
    while at + 32 <= end:
        prefetch(ahead + at)
        one = (one ^ load64(data, at)) * _B
        two = (two ^ load64(data, at + 8)) * _C
        three = (three ^ load64(data, at + 16)) * _D
        four = (four ^ load64(data, at + 24)) * _A
        one ^= shift_right64(one, 32)
        two ^= shift_right64(two, 32)
        three ^= shift_right64(three, 32)
        four ^= shift_right64(four, 32)
        at += 32
    while at + 8 <= end:
        one = mix(one, load64(data, at))
        at += 8
    last = 0
    while at < end:
        last = (last << 8) | int(data[at])
        at += 1
    return mix(mix(mix(mix(one, two), three), four), last)


@internal
def header_length(data: Frame, at: int, length: int) -> int:
    """Return how many bytes of a frame are headers: all of them if it is no packet of RoCEv2."""
    if length < STACK_BYTES + BTH_BYTES or read16(data, at + 12) != _ETHERTYPE_IPV4:
        return length
    if data[at + 23] != _UDP or read16(data, at + 36) != ROCE_PORT:
        return length
    headers: int = max(BTH_BYTES, HEADER_BYTES[int(data[at + STACK_BYTES])])
    return min(length, STACK_BYTES + headers)


@internal
def add_to_digest(
    world: WorldRecord, time_ns: int, direction: int, length: int, content: int
) -> None:
    """Add an arrived frame to the trace digest: when and where it arrived, its length and its
    content."""
    low = mix(mix(world.digest_low, time_ns), (direction << 32) | length)
    world.digest_low = mix(low, content)
    world.digest_high = (world.digest_high ^ world.digest_low) * _C + content
