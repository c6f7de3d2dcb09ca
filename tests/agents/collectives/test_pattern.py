"""The bytes that ranks contribute: the published generator, and any part by itself."""

from __future__ import annotations

import numpy as np
import pytest

from weft.agents.collectives.pattern import fill_shard, first_difference, shard_key, words

KNOWN = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
"""What SplitMix64 gives first from state 0."""


def test_words_are_those_of_splitmix64() -> None:
    assert words(0, 0, 4).tolist() == KNOWN
    assert words(0, 1, 2).tolist() == KNOWN[1:3]
    assert words(0x9E3779B97F4A7C15, 0, 3).tolist() == KNOWN[1:]


@pytest.mark.parametrize("size", [1, 8, 1001, (1 << 18) + 13])
def test_any_part_of_a_shard_is_the_same_as_in_the_whole(size: int) -> None:
    whole = np.zeros(size, np.uint8)
    fill_shard(whole, 3, 5, 7)
    key = shard_key(3, 5, 7)
    assert whole.tobytes() == words(key, 0, size // 8 + 1).astype("<u8").tobytes()[:size]
    for offset in (0, 8, size // 16 * 8):
        part = np.zeros(max(0, size - offset), np.uint8)
        fill_shard(part, 3, 5, 7, offset)
        assert np.array_equal(part, whole[offset:])
        assert first_difference(part, 3, 5, 7, offset) is None


@pytest.mark.parametrize("place", [0, 9, 1000, 1 << 18, (1 << 18) + 12])
def test_the_first_byte_that_differs_is_told_by_its_place_in_the_shard(place: int) -> None:
    data = np.zeros((1 << 18) + 13, np.uint8)
    fill_shard(data, 1, 2, 3)
    data[place] ^= 1
    data[-1] ^= 0x80
    assert first_difference(data, 1, 2, 3) == place
    assert first_difference(data[16:], 1, 2, 3, 16) == max(
        place, data.size - 1 if place < 16 else 0
    )


def test_every_shard_has_bytes_of_its_own() -> None:
    keys = {shard_key(*each) for each in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0)]}
    assert len(keys) == 5
    assert shard_key(-1, 0, 0) == shard_key(2**64 - 1, 0, 0)
