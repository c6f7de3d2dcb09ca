"""UDP source ports of queue pairs, drawn from a seed: what ECMP hashes to tell flows apart.

CRC-32, which the switches hash with, is affine: were ports a function of the two hosts alone,
another salt would give the same collisions under other names, and every seed the same run. So each
pair of hosts has an order of all dynamic ports of its own, by the seed: a permutation made by a
Feistel network of four rounds (Luby and Rackoff, "How to construct pseudorandom permutations from
pseudorandom functions", 1988). The queue pairs from one host to another take its ports one after
the other, so each is as good as drawn by itself, and no two have the same.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

FIRST_PORT = 0xC000
"""RoCEv2's source ports are the dynamic ones, 49152 to 65535."""
PORTS = 0x4000

Number = TypeVar("Number", int, npt.NDArray[np.int64])

_WORD = 0xFFFFFFFF
_HALF_BITS, _HALF = 7, 0x7F
_ROUNDS = 4


def source_port(seed: int, source: Number, destination: Number, number: Number) -> Number:
    """Return the port of a queue pair from one host to another.

    Args:
        seed: of all ports of a run.
        source, destination: IPv4 addresses; numbers, or arrays that broadcast against each other.
        number: of the queue pair among those from this host to that, below `PORTS`.
    """
    first = _mixed((seed & _WORD) ^ _mixed(seed >> 32 & _WORD))
    key = _mixed(destination ^ _mixed(source ^ first))
    left, right = number >> _HALF_BITS & _HALF, number & _HALF
    for turn in range(_ROUNDS):
        left, right = right, left ^ (_mixed(key + (right << 4 | turn)) & _HALF)
    return FIRST_PORT + (left << _HALF_BITS | right)


def _mixed(word: Number) -> Number:
    """Return a word of 32 bits of which each depends on all of the given one's; products fit 63
    bits."""
    word = word & _WORD
    word = ((word ^ word >> 16) * 0x21F0AAAD) & _WORD
    word = ((word ^ word >> 15) * 0x735A2D97) & _WORD
    return word ^ word >> 15
