"""The switches' ECMP hash: which path it gives a flow, and which UDP source port leads along a
path.

The action selector of p4/include/forwarding.p4 takes CRC-32 of source and destination address,
protocol, UDP ports and the switch's salt, and of that the remainder by the number of members, which
are in the order of their ports. CRC-32 is affine over bits: that of a message is the exclusive or
of a constant and of a word for each of its bytes, by place and value. So all flows are hashed at
once by tables. Aggregation switches hash a product in place of the salt: if they hashed only what
is linear, they would repeat the leaves' choice.
"""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.base.errors import refuse
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF, BoolArray, IntArray

Words = npt.NDArray[np.uint32]

PROTOCOL_UDP = 17
ROCEV2_PORT = 4791
FIRST_SOURCE_PORT = 0xC000
"""RoCEv2's source ports are the dynamic ones, 49152 to 65535."""
SOURCE_PORTS = 0x4000

_FIELDS = (("source", 4), ("destination", 4), ("protocol", 1), ("source_port", 2),
           ("destination_port", 2), ("salt", 4))  # fmt: skip
_PLACES = dict(zip((name for name, _ in _FIELDS), (0, 4, 8, 9, 11, 13), strict=True))
_LENGTH = 17
_CHUNK = 1 << 18
"""How many flows, or pairs times ports, are hashed together."""


@cache
def _tables() -> tuple[int, Words]:
    """Return the CRC-32 of zeros, and uint32 [17, 256]: what a byte at a place adds to it."""
    words = [
        [zlib.crc32(bytes(place) + bytes([value]) + bytes(_LENGTH - 1 - place))
         for value in range(256)]
        for place in range(_LENGTH)
    ]  # fmt: skip
    constant = zlib.crc32(bytes(_LENGTH))
    return constant, np.array(words, np.uint32) ^ np.uint32(constant)


def _part(name: str, value: IntArray) -> Words:
    """Return what a field adds to the hash."""
    width = dict(_FIELDS)[name]
    _, table = _tables()
    found = np.zeros(np.shape(value), np.uint32)
    for byte in range(width):
        found ^= table[_PLACES[name] + byte, value >> 8 * (width - 1 - byte) & 0xFF]
    return found


def selector_hash(
    source: IntArray, destination: IntArray, source_port: IntArray, salt: IntArray
) -> Words:
    """Return the hash of RoCEv2 flows at a switch, uint32.

    The arguments are the IPv4 addresses, the UDP source ports and the switch's salt: int64 arrays
    that broadcast against each other.
    """
    return _pair_hash(source, destination) ^ _part("source_port", source_port) ^ _part("salt", salt)


def _pair_hash(source: IntArray, destination: IntArray) -> Words:
    """Return the hash of flows whose source port and salt are both 0."""
    constant, _ = _tables()
    protocol = _part("protocol", np.array(PROTOCOL_UDP))
    fixed = protocol ^ _part("destination_port", np.array(ROCEV2_PORT)) ^ np.uint32(constant)
    ends: Words = _part("source", source) ^ _part("destination", destination) ^ fixed
    return ends


def salt_by_flow(
    source: IntArray, destination: IntArray, source_port: IntArray, salt: IntArray
) -> IntArray:
    """Return what an aggregation switch hashes in place of its salt, int64: the P4 action
    ``set_salt_by_flow`` does the same."""
    flow = source + (destination << 12) + (source_port << 4) & 0xFFFFFFFF
    return np.asarray(flow * (salt | 1) & 0xFFFFFFFF, np.int64)


def salt_of(seed: int, device_id: int) -> int:
    """Return the 32-bit salt of one switch's ECMP hash."""
    return random.Random(f"salt {seed} {device_id}").getrandbits(32)


@dataclass(frozen=True, eq=False)
class Salts:
    """The salts of the switches that choose, int64."""

    leaf: IntArray
    agg: IntArray
    """By pod and position; empty in two tiers."""

    @staticmethod
    def of(paths: ClosPaths, seed: int) -> "Salts":
        """Return the salts that `weft.controller.features.routes` gives; device ids count from 1,
        leaves first."""
        aggs = paths.pods * paths.uplinks if paths.cores else 0
        drawn = [salt_of(seed, device) for device in range(1, paths.leaves + aggs + 1)]
        return Salts(
            np.array(drawn[: paths.leaves], np.int64), np.array(drawn[paths.leaves :], np.int64)
        )


def ecmp_paths(
    paths: ClosPaths, salts: Salts, source: IntArray, destination: IntArray, source_port: IntArray
) -> IntArray:
    """Return the paths that ECMP gives flows between hosts, int64 [flows]; `WITHIN_LEAF` within a
    leaf.

    Raises InputError for a host that is not there, or to which no path is left.
    """
    paths.check_hosts(source, destination)
    found = np.empty(len(source), np.int64)
    for begin in range(0, len(source), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        found[part] = _ecmp_paths(paths, salts, source[part], destination[part], source_port[part])
    return found


def _ecmp_paths(
    paths: ClosPaths, salts: Salts, source: IntArray, destination: IntArray, source_port: IntArray
) -> IntArray:
    leaf, far_leaf = paths.leaf_of(source), paths.leaf_of(destination)
    flow = _pair_hash(paths.address_of(source), paths.address_of(destination))
    flow = flow ^ _part("source_port", source_port)
    path = np.full(len(source), WITHIN_LEAF, np.int64)
    away = np.flatnonzero(leaf != far_leaf)
    leaf, far_leaf, flow = leaf[away], far_leaf[away], flow[away]
    up = choose(
        uplink_masks(paths, leaf, far_leaf), paths.uplinks, flow ^ _part("salt", salts.leaf[leaf])
    )
    path[away] = up
    pod, far_pod = paths.pod_of(leaf), paths.pod_of(far_leaf)
    between = np.flatnonzero(pod != far_pod)
    if len(between):
        pod, far_pod, up = pod[between], far_pod[between], up[between]
        salt = salt_by_flow(
            paths.address_of(source)[away[between]],
            paths.address_of(destination)[away[between]],
            source_port[away[between]],
            salts.agg[pod * paths.uplinks + up],
        )
        core = choose(
            core_masks(paths, pod, far_pod, up), paths.cores, flow[between] ^ _part("salt", salt)
        )
        path[away[between]] = up * paths.cores + core
    return path


def uplink_masks(paths: ClosPaths, leaf: IntArray, far_leaf: IntArray) -> BoolArray | None:
    """Return which uplinks of a leaf lead to another leaf, bool [pairs, uplinks]; None if
    all do."""
    if paths.all_up:
        return None
    masks: BoolArray = paths.leaf_up[leaf] & paths.leaf_up[far_leaf]
    if paths.cores:
        core_up = paths.core_up
        through = np.any(core_up[:, None] & core_up[None, :], axis=3)
        pod, far_pod = paths.pod_of(leaf), paths.pod_of(far_leaf)
        masks &= through[pod, far_pod] | (pod == far_pod)[:, None]
    lost = np.flatnonzero(~masks.any(axis=1))
    if len(lost):
        paths.usable_paths(int(leaf[lost[0]]), int(far_leaf[lost[0]]))
    return masks


def core_masks(
    paths: ClosPaths, pod: IntArray, far_pod: IntArray, position: IntArray
) -> BoolArray | None:
    """Return which uplinks of an aggregation switch lead to a pod, bool [pairs, cores]; None if all
    do."""
    if paths.all_up:
        return None
    masks: BoolArray = paths.core_up[pod, position] & paths.core_up[far_pod, position]
    return masks


def choose(masks: BoolArray | None, members: int, hashes: Words | IntArray) -> IntArray:
    """Return the number of the member that each hash chooses among those in its mask, int64;
    without masks it chooses among all members."""
    if masks is None:
        return np.asarray(hashes % hashes.dtype.type(members), np.int64)
    wanted = hashes.astype(np.int64) % masks.sum(axis=1)
    found = masks & (np.cumsum(masks, axis=1) == wanted[:, None] + 1)
    return np.asarray(found.argmax(axis=1), np.int64)


def source_ports(
    paths: ClosPaths,
    salts: Salts,
    source: int | Sequence[int] | IntArray,
    destination: int | Sequence[int] | IntArray,
) -> IntArray:
    """Return, for each path, a UDP source port that the switches' hash sends along it from one host
    to another.

    The result is int64 [paths], or [pairs, paths] for several pairs, as wide as the most paths that
    a pair may have. Of the dynamic ports that lead along a path, the lowest is taken. -1 means that
    no port leads there: so it is within a leaf and for paths with a failed link.
    """
    sources, destinations = (
        np.atleast_1d(np.asarray(source)),
        np.atleast_1d(np.asarray(destination)),
    )
    paths.check_hosts(sources, destinations)
    refuse(
        sources.shape != destinations.shape,
        f"{len(sources)} sources and {len(destinations)} destinations: name pairs",
    )
    width = paths.uplinks * max(1, paths.cores)
    found = np.full((len(sources), width), -1, np.int64)
    leaves = zip(paths.leaf_of(sources).tolist(), paths.leaf_of(destinations).tolist(), strict=True)
    possible = np.array([paths.usable(one, other).sum() for one, other in leaves], np.int64)
    step = min(SOURCE_PORTS, max(256, 16 * width))
    for begin in range(0, SOURCE_PORTS, step):
        lacking = np.flatnonzero((found >= 0).sum(axis=1) < possible)
        ports = np.arange(begin, begin + step, dtype=np.int64)[::-1] + FIRST_SOURCE_PORT
        for some in np.array_split(lacking, 1 + len(lacking) * step // _CHUNK):
            pair, port = np.repeat(some, step), np.tile(ports, len(some))
            path = ecmp_paths(paths, salts, sources[pair], destinations[pair], port)
            new = (path >= 0) & (found[pair, path] < 0)
            found[pair[new], path[new]] = port[new]  # of several the last, which is the lowest
    return found if np.ndim(source) or np.ndim(destination) else found[0]
