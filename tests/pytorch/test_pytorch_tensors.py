"""Tensors of torch as memory, and calls in words, in one process."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from weft.pytorch.calls import call_of  # noqa: E402
from weft.pytorch.tensors import bytes_of, read  # noqa: E402


def test_memory_of_a_tensor_is_its_elements_and_outlives_its_name() -> None:
    tensor = torch.ones(4, requires_grad=True)
    memory = bytes_of(tensor)
    memory.view(np.float32)[0] = 7
    assert tensor.tolist() == [7, 1, 1, 1]
    del tensor
    assert memory.view(np.float32).tolist() == [7, 1, 1, 1]
    assert len(bytes_of(torch.ones(0, 3))) == 0
    assert bytes_of(torch.ones(2, dtype=torch.float8_e4m3fn)).tolist() == [56, 56]


def test_a_tensor_whose_memory_was_used_can_be_resized() -> None:
    tensor = torch.ones(4)
    bytes_of(tensor)[:] = 0
    tensor.resize_(8)
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().size() == 0


def test_elements_of_any_strides_are_read() -> None:
    into = np.empty(16, np.uint8)
    read(torch.arange(4, dtype=torch.int32).reshape(2, 2).t(), into)
    assert into.view(np.int32).tolist() == [0, 2, 1, 3]
    read(torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj(), into)
    assert into.view(np.complex64).tolist() == [1 - 2j, 3 + 4j]


def test_calls_differ_in_all_that_must_be_the_same() -> None:
    four = torch.ones(4)
    assert call_of("barrier") == "barrier"
    assert call_of("gather", [four], counts=False, root=2) == "gather of torch.float32 with root 2"
    assert (
        call_of("allreduce", [four], op="sum", algorithm="ring")
        == "allreduce of 4 torch.float32 by sum (ring)"
    )
    parts = [[1, 3], [3, 1], [2, 2], [4]]
    texts = {call_of("allgather", [torch.ones(part) for part in each]) for each in parts}
    texts |= {call_of("allgather", [torch.ones(part).int() for part in each]) for each in parts}
    assert len(texts) == 8
