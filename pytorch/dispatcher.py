"""What torch's own tools see of a group's calls: operators of its dispatcher, events of its
profiler.

A program calls a group in Python, past the dispatcher. So where somebody watches it (a
`TorchDispatchMode` like CommDebugMode, or the profiler), the operator by which a group of torch's
own does the same, as `c10d::allreduce_`, is called before, on tensors of the same shapes that have
no elements: whoever watches sees it, and it does nothing. Kernels of operators stay as they are:
one in Python for tensors on the CPU would stand in the way of Gloo's groups, which wait for each
other's threads there.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._autograd import (
    _enable_record_function,
    _record_function_with_args_enter,
    _record_function_with_args_exit,
)
from torch._C._distributed_c10d import FakeWork
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._python_dispatch import _disable_current_modes

from weft.pytorch.flight_recorder import shown_as

Method = TypeVar("Method", bound=Callable[..., Any])

OPERATORS = {
    "broadcast": "broadcast_", "allreduce": "allreduce_",
    "allreduce_coalesced": "allreduce_coalesced_", "allgather": "allgather_",
    "allgather_coalesced": "allgather_coalesced_", "all_gather_single": "_allgather_base_",
    "_allgather_base": "_allgather_base_",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced_",
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "reduce_scatter": "reduce_scatter_", "reduce_scatter_single": "_reduce_scatter_base_",
    "_reduce_scatter_base": "_reduce_scatter_base_",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "all_to_all_single": "alltoall_base_", "alltoall_base": "alltoall_base_",
    "alltoall": "alltoall_", "gather": "gather_", "scatter": "scatter_", "reduce": "reduce_",
    "barrier": "barrier", "send": "send", "recv": "recv_", "recv_anysource": "recv_any_source_",
}  # fmt: skip
"""The operators by which torch's own groups do what their methods are asked for."""
PLAIN = (torch.Tensor, torch.nn.Parameter)


def seen(name: str, method: Method) -> Method:
    """Return a method of a group that calls an operator of the dispatcher, too, where somebody
    watches.

    Args:
        name: of the method, which `OPERATORS` has; the group's `as_torch` is a group of torch's.
    """
    names = [each.name for each in _operator(name)._schema.arguments]
    tensors = 0 if name == "barrier" else names.index("process_group")

    @functools.wraps(method)
    def called(self: Any, *given: Any, **named: Any) -> Any:
        watched = torch._C._len_torch_dispatch_stack() or torch.autograd._profiler_enabled()
        if not watched and _all(_is_plain, given[:tensors]):
            return method(self, *given, **named)
        taken = [_each(_come, one) for one in given[:tensors]]
        shown = taken
        if _all(_is_plain, taken):
            with _unseen():
                shown = [_each(_without_elements, one) for one in taken]
        found = _show(self.as_torch, name, [*shown, *given[tensors:]], named)
        if shown is taken and tensors:  # shapes alone, or what the operator has its own way for
            return found
        return method(self, *taken, *given[tensors:], **named)

    return called  # type: ignore[return-value]


def _show(group: dist.ProcessGroup, name: str, given: Sequence[Any], named: dict[str, Any]) -> Any:
    """Call the operator by which a group of torch's own does what a method is asked for."""
    if name == "barrier":
        with _unseen():
            tensor = torch.empty(1, device="meta")
        return torch.ops.c10d.barrier(tensor, group.boxed(), [])
    return getattr(group, name)(*(each for each in given if each is not None), **named)


def _operator(name: str) -> Any:
    return getattr(torch.ops.c10d, OPERATORS[name]).default


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in PLAIN


def _come(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, once it has come if it is a promise of one."""
    if isinstance(tensor, AsyncCollectiveTensor):
        found: torch.Tensor = tensor.trigger_wait()
        return found
    return tensor


def _without_elements(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _each(change: Callable[[torch.Tensor], torch.Tensor], given: Any) -> Any:
    """Return a tensor, or lists of such, with each of them changed."""
    if isinstance(given, torch.Tensor):
        return change(given)
    return [_each(change, one) for one in given] if isinstance(given, (list, tuple)) else given


def _all(holds: Callable[[torch.Tensor], bool], given: Sequence[Any]) -> bool:
    """Return whether something holds for all tensors in lists of such."""
    for one in given:
        if isinstance(one, torch.Tensor):
            if not holds(one):
                return False
        elif isinstance(one, (list, tuple)) and not _all(holds, one):
            return False
    return True


@contextmanager
def _unseen() -> Iterator[None]:
    """Let nobody see what is done meanwhile."""
    _enable_record_function(False)
    try:
        with _disable_current_modes():
            yield
    finally:
        _enable_record_function(True)


@functools.cache
def complete() -> Any:
    """Let all of these operators take tensors without elements. Return what must be kept for
    that."""
    library = torch.library.Library("c10d", "IMPL")
    for operator in {_operator(name) for name in OPERATORS}:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Meta"):
            library.impl(operator, _does_nothing(operator), "Meta")
    return library


def _does_nothing(operator: Any) -> Callable[..., Any]:
    is_pair = len(operator._schema.returns) == 2

    def kernel(*given: Any) -> Any:
        work = FakeWork().boxed()
        return (given[0], work) if is_pair else work

    return kernel


def profile(what: str, tensors: Sequence[torch.Tensor]) -> None:
    """Let torch's profiler, if it is at work in this thread, have an event of an operation that
    begins, with the shapes of tensors. It is over at once: an event that ended in another thread
    might outlive the profile that it belongs to, which torch does not stand."""
    if torch.autograd._profiler_enabled():
        _record_function_with_args_exit(_record_function_with_args_enter(shown_as(what), *tensors))
