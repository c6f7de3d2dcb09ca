"""Tensors of torch as the memory that collectives work on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from weft.agents.collectives.dtypes import Array, dtype_of
from weft.agents.collectives.mailbox import Bytes
from weft.pytorch.errors import BadCallError, refuse

NAMES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in (
        "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64",
        "uint32", "uint16", "uint8", "complex64", "complex128",
    )
    if hasattr(torch, name)
}  # fmt: skip
"""numpy's names of the types of numbers that can be reduced; bool is reduced as uint8."""
FLOATING = ("float64", "float32", "float16", "bfloat16")
POOLED_BYTES = 64 << 20
"""How much memory that is not in use is kept for the next collectives."""


def check(what: str, tensors: Sequence[torch.Tensor]) -> None:
    """Raise InputError for a tensor that is no dense tensor on the CPU."""
    for tensor in tensors:
        refuse(
            tensor.device.type != "cpu",
            f"{what}: a tensor is on device {tensor.device}; the backend weft is for tensors on "
            "the CPU: move it there by .cpu()",
        )
        refuse(
            tensor.layout != torch.strided,
            f"{what}: a tensor has layout {tensor.layout}; make it dense by .to_dense()",
        )


def bytes_of(tensor: torch.Tensor) -> Bytes:
    """Return the memory of a contiguous tensor, uint8[bytes]; nothing is copied. It is valid as
    long as the tensor is not resized: unlike `torch.Tensor.numpy`, it does not forbid that."""
    if tensor.numel() == 0:
        return np.empty(0, np.uint8)
    return np.asarray(_Memory(tensor))


class _Memory:
    """The memory of a tensor, which stays as long as an array of numpy's is a view of it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.__array_interface__ = {
            "data": (tensor.data_ptr(), False),
            "shape": (size_bytes(tensor),),
            "typestr": "|u1",
            "version": 3,
        }


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's memory is its elements, one after the other."""
    return bool(tensor.is_contiguous()) and not (tensor.is_conj() or tensor.is_neg())


def read(tensor: torch.Tensor, into: Bytes) -> None:
    """Copy a tensor's elements, of any strides, to memory."""
    if is_plain(tensor):
        into[:] = bytes_of(tensor)
    elif tensor.numel():
        typed_view(into, tensor).copy_(tensor.detach())


def write(tensor: torch.Tensor, source: Bytes) -> None:
    """Copy memory to a tensor's elements, of any strides."""
    if tensor.numel():
        with torch.no_grad():
            tensor.detach().copy_(typed_view(source, tensor))


def typed_view(memory: Bytes, like: torch.Tensor) -> torch.Tensor:
    """Return memory as a tensor of the type and shape of another one."""
    found: torch.Tensor = torch.from_numpy(memory).view(like.dtype).reshape(like.shape)
    return found


def size_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements."""
    return int(tensor.numel()) * int(tensor.element_size())


def reduced_as(what: str, dtype: torch.dtype, op: str) -> tuple[str, str]:
    """Return as which numpy type, and by which operation of `Request`, elements are reduced.

    Raises:
        InputError: elements of that type have no such reduction.
    """
    if dtype == torch.bool:
        logical = {
            "sum": "max", "max": "max", "bitwise-or": "max", "product": "min", "min": "min",
            "bitwise-and": "min", "bitwise-xor": "bitwise-xor",
        }  # fmt: skip
        refuse(
            op not in logical,
            f"{what} of torch.bool by {op}: choose SUM, PRODUCT, MIN, MAX, BAND, BOR or BXOR, or "
            "convert the tensor by .to(torch.int32)",
        )
        return "uint8", logical[op]
    if dtype not in NAMES:
        raise BadCallError(
            f"{what} of {dtype} by {op}: it cannot be reduced; convert the tensor by "
            ".to(torch.float32)"
        )
    name = NAMES[dtype]
    if name.startswith("complex"):
        refuse(
            op not in ("sum", "average"),
            f"{what} of {dtype} by {op}: complex numbers have sums and averages; use "
            "torch.view_as_real for other operations on their parts",
        )
        return {"complex64": "float32", "complex128": "float64"}[name], op
    refuse(
        op.startswith("bitwise") and name in FLOATING,
        f"{what} of {dtype} by {op}: it is for integers; choose SUM, AVG, MIN, MAX or PRODUCT",
    )
    return name, op


def typed(memory: Bytes, name: str) -> Array:
    """Return memory as an array of a type of numpy's, by its name."""
    return memory.view(dtype_of(name))


class Pool:
    """A pool has memory for collectives whose tensors cannot be used as they are."""

    def __init__(self) -> None:
        self._free: dict[int, list[Bytes]] = {}
        self._free_bytes = 0

    def take(self, size: int) -> Bytes:
        """Return memory of so many bytes, which hold anything."""
        free = self._free.get(size)
        if free:
            try:
                found = free.pop()
            except IndexError:  # another thread was quicker
                return np.empty(size, np.uint8)
            self._free_bytes -= size
            return found
        return np.empty(size, np.uint8)

    def give(self, memory: Bytes) -> None:
        """Take memory back."""
        if self._free_bytes + len(memory) <= POOLED_BYTES:
            self._free_bytes += len(memory)
            self._free.setdefault(len(memory), []).append(memory)


def scalar_of(factor: Any) -> Any:
    """Return the factor of PREMUL_SUM, a number or a tensor of one element, as a number."""
    return factor.item() if isinstance(factor, torch.Tensor) else factor
