"""Arrays in pages of their own."""

from __future__ import annotations

import numpy as np
import pytest

from weft.base.pages import LARGE_BYTES, LINE_BYTES, zeroed


@pytest.mark.parametrize("shape", [0, 3, (5, 7), LARGE_BYTES // 64, (LARGE_BYTES // 8, 2)])
def test_it_is_zeros_that_begin_with_a_cache_line(shape: int | tuple[int, ...]) -> None:
    arrays = [zeroed(shape, np.int64) for _ in range(5)]
    for number, array in enumerate(arrays):
        assert array.shape == np.zeros(shape).shape and array.dtype == np.int64
        assert array.size == 0 or array.ctypes.data % LINE_BYTES == 0
        assert not array.any()
        array.fill(number + 1)
    for number, array in enumerate(arrays):
        assert (array == number + 1).all()


def test_small_arrays_are_of_their_own_wherever_they_are() -> None:
    size = LARGE_BYTES // 16
    arrays = [zeroed(size, np.uint8) for _ in range(40)]
    for number, array in enumerate(arrays):
        array.fill(number)
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_more_than_a_machine_has_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=f"{1 << 62} bytes"):
        zeroed(1 << 62, np.uint8)
