"""Tensors of torch as the memory that collectives work on."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

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


def cut(memory: Bytes, tensors: Sequence[torch.Tensor]) -> list[Bytes]:
    """Return the parts of memory that hold tensors one behind the other."""
    ends = accumulate(map(size_bytes, tensors), initial=0)
    return [memory[first:end] for first, end in pairwise(ends)]


class Pool:
    """Memory for collectives whose tensors cannot be used as they are."""

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


class Staged:
    """The elements of tensors, one behind the other, as one piece of memory: the tensor's own if it
    is one that has them so, and else some of a pool.

    Args:
        direct: whether the tensor's own may be used,
        apart: if it is no part of this.
    """

    def __init__(
        self,
        pool: Pool,
        tensors: Sequence[torch.Tensor],
        *,
        direct: bool = True,
        apart: "Staged | None" = None,
    ) -> None:
        self._pool = pool
        self._tensors: Sequence[torch.Tensor] = ()
        if direct and len(tensors) == 1 and is_plain(tensors[0]):
            self.memory = bytes_of(tensors[0])
            if apart is None or not np.may_share_memory(self.memory, apart.memory):
                return
        self._tensors = tensors
        self.memory = pool.take(sum(map(size_bytes, tensors)))

    def read(self, tensors: Sequence[torch.Tensor], begin: int = 0) -> None:
        """Copy the elements of tensors to the memory from a byte on, unless it is theirs."""
        for tensor, part in zip(tensors, cut(self.memory[begin:], tensors), strict=True):
            if tensor.data_ptr() != part.ctypes.data or not is_plain(tensor):
                read(tensor, part)

    def write(self) -> None:
        """Copy the memory to the tensors' elements, unless it is theirs."""
        for tensor, part in zip(self._tensors, cut(self.memory, self._tensors), strict=True):
            write(tensor, part)

    def give_back(self) -> None:
        """Give the memory back to the pool, if it is of it."""
        if self._tensors:
            self._pool.give(self.memory)
