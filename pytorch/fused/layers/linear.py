"""`ColumnParallelLinear` and `RowParallelLinear`: linear layers whose weight is spread over the
ranks, as Megatron-LM names them (arXiv 1909.08053, section 3; with sequences that are spread, too,
arXiv 2205.05198, section 4.2.2)."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import BadCallError
from weft.pytorch.fused import operators
from weft.pytorch.fused.call import weft_group
from weft.pytorch.fused.gemv_allreduce import OWNER
from weft.pytorch.fused.layers.exchanged import ranks_of
from weft.pytorch.fused.tiles import SLICE_TILES


class _Layer(nn.Module):
    """What both have in common.

    Args:
        in_features, out_features: of the whole layer.
        split: the name of those that are cut into a part for each rank.
        bias: whether there is one, of the features that come out here.
    """

    def __init__(
        self, in_features: int, out_features: int, split: str, bias: bool, group: Any,
        sequence_parallel: bool, fused: bool, dtype: torch.dtype | None, options: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__()
        self.group, self.rank, self.size = ranks_of(group)
        total = {"in_features": in_features, "out_features": out_features}[split]
        if total % self.size:
            raise BadCallError(
                f"{type(self).__name__}: {split} {total}, which {self.size} ranks cannot share "
                f"evenly; choose a multiple of {self.size}"
            )
        self.in_features, self.out_features = in_features, out_features
        self.sequence_parallel, self.fused, self.options = sequence_parallel, fused, options
        own = {"in_features": in_features, "out_features": out_features, split: total // self.size}
        self.weight = nn.Parameter(
            torch.empty(own["out_features"], own["in_features"], dtype=dtype)
        )
        self.bias = nn.Parameter(torch.empty(own["out_features"], dtype=dtype)) if bias else None
        self.reset_parameters()
        if fused:
            weft_group(type(self).__name__, self.group)
            operators.register()

    def reset_parameters(self) -> None:
        """Draw the whole layer as `torch.nn.Linear` does, and take a part: ranks that draw from the
        same seed have the parts of the same layer."""
        whole = nn.Linear(
            self.in_features, self.out_features, self.bias is not None, dtype=self.weight.dtype
        )
        self.load_whole(whole.weight, whole.bias)

    def load_whole(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Take this rank's part of the weight and the bias of a whole layer, as `torch.nn.Linear`
        has them."""
        place = 0 if weight.shape[0] != self.weight.shape[0] else 1
        with torch.no_grad():
            self.weight.copy_(weight.chunk(self.size, place)[self.rank])
            if self.bias is not None and bias is not None:
                whole = bias.shape == self.bias.shape
                self.bias.copy_(bias if whole else bias.chunk(self.size)[self.rank])

    def extra_repr(self) -> str:
        """Return what `repr` says of it."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, sequence_parallel={self.sequence_parallel}, "
            f"fused={self.fused}"
        )


class ColumnParallelLinear(_Layer):
    """A linear layer of which each rank has some of the features that come out.

    The input is the same on all ranks, and the gradient of it a sum over the ranks: an Allreduce in
    the backward pass, or ``weft::gemv_allreduce``. With `sequence_parallel` each rank has a part of
    the first dimension of the input; it is gathered, and its gradient reduced and scattered
    (``symm_mem::fused_all_gather_matmul`` and ``fused_matmul_reduce_scatter``).

    Args:
        in_features: of the whole layer.
        out_features: of the whole layer, a multiple of P; each rank has 1 / P of them.
        bias: whether there is one.
        group: a process group, by default that of all ranks.
        sequence_parallel: whether the input is spread over the ranks.
        fused: by fused operators, which need the backend weft; otherwise by torch's collectives.
        dtype: of the parameters.
        options: `tile_rows`, `slice_tiles`, `order` and `algorithm` of ``weft::gemv_allreduce``.

    Raises:
        BadCallError: the ranks cannot share the features evenly, or it is fused and the group is
            not one of the backend weft; it is a ValueError.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, group: Any = None,
        sequence_parallel: bool = False, fused: bool = True, dtype: torch.dtype | None = None,
        tile_rows: int = 0, slice_tiles: int = SLICE_TILES, order: str = REMOTE_FIRST,
        algorithm: str = OWNER,
    ) -> None:  # fmt: skip
        options = dict(
            tile_rows=tile_rows, slice_tiles=slice_tiles, order=order, algorithm=algorithm
        )
        super().__init__(
            in_features, out_features, "out_features", bias, group, sequence_parallel, fused,
            dtype, options,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return this rank's features.

        Args:
            x: [..., in_features], the same on all ranks; with `sequence_parallel` this rank's part
                of the first dimension.

        Returns:
            [..., out_features / P], with the whole first dimension.
        """
        function = _Gathered if self.sequence_parallel else _Replicated
        found: torch.Tensor = function.apply(x, self.weight, self)
        return found if self.bias is None else found + self.bias


class RowParallelLinear(_Layer):
    """A linear layer of which each rank has some of the features that go in.

    What comes out is a sum over the ranks, the same on all of them: an Allreduce, or
    ``weft::gemv_allreduce``. With `sequence_parallel` each rank gets a part of its first dimension
    (``symm_mem::fused_matmul_reduce_scatter``). A bias is the same on all ranks.

    Args:
        in_features: of the whole layer, a multiple of P; each rank has 1 / P of them.
        out_features: of the whole layer.
        bias, group, sequence_parallel, fused, dtype, options: as `ColumnParallelLinear` has them.

    Raises:
        BadCallError: as `ColumnParallelLinear`.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, group: Any = None,
        sequence_parallel: bool = False, fused: bool = True, dtype: torch.dtype | None = None,
        tile_rows: int = 0, slice_tiles: int = SLICE_TILES, order: str = REMOTE_FIRST,
        algorithm: str = OWNER,
    ) -> None:  # fmt: skip
        options = dict(
            tile_rows=tile_rows, slice_tiles=slice_tiles, order=order, algorithm=algorithm
        )
        super().__init__(
            in_features, out_features, "in_features", bias, group, sequence_parallel, fused, dtype,
            options,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return all features.

        Args:
            x: [..., in_features / P], this rank's.

        Returns:
            [..., out_features], the same on all ranks; with `sequence_parallel` this rank's part of
            the first dimension.
        """
        function = _Scattered if self.sequence_parallel else _Summed
        found: torch.Tensor = function.apply(x, self.weight, self)
        if self.bias is None:
            return found
        bias = _Shared.apply(self.bias, self.group) if self.sequence_parallel else self.bias
        return found + bias


def _summed(layer: _Layer, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the sum over the ranks of `x @ weight.T`, on all of them."""
    if layer.fused:
        rows = x.reshape(-1, x.shape[-1])
        found: torch.Tensor = torch.ops.weft.gemv_allreduce(
            weight, rows, layer.group.group_name, **layer.options
        )
        return found.view(*x.shape[:-1], weight.shape[0])
    found = F.linear(x, weight)
    dist.all_reduce(found, group=layer.group)
    return found


def _gathered(
    layer: _Layer, x: torch.Tensor, matrix: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x, gathered along its first dimension, and its product with a matrix."""
    if layer.fused:
        whole, (product,) = torch.ops.symm_mem.fused_all_gather_matmul(
            x, [matrix], 0, layer.group.group_name
        )
        return whole, product
    whole = x.new_empty((layer.size * x.shape[0], *x.shape[1:]))
    dist.all_gather_single(whole, x.contiguous(), group=layer.group)
    return whole, whole @ matrix


def _scattered(layer: _Layer, x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Return this rank's part, along the first dimension, of the sum over the ranks of
    `x @ matrix`."""
    if layer.fused:
        found: torch.Tensor = torch.ops.symm_mem.fused_matmul_reduce_scatter(
            x, matrix, "sum", 0, layer.group.group_name
        )
        return found
    whole = x @ matrix
    found = whole.new_empty((whole.shape[0] // layer.size, *whole.shape[1:]))
    dist.reduce_scatter_single(found, whole, group=layer.group)
    return found


def _of_weight(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the weight of a linear layer."""
    return gradient.reshape(-1, gradient.shape[-1]).t() @ x.reshape(-1, x.shape[-1])


class _Replicated(torch.autograd.Function):
    """The same input on all ranks: the sum over them is of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: _Layer) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _summed(ctx.layer, weight.t().contiguous(), gradient)
        return of_x, _of_weight(gradient, x), None


class _Summed(torch.autograd.Function):
    """The sum of all ranks' products: its gradient is the same on all of them."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: _Layer) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return _summed(layer, weight, x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, _of_weight(gradient, x), None


class _Gathered(torch.autograd.Function):
    """The input is spread over the ranks; the whole of it is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: _Layer) -> torch.Tensor:
        whole, product = _gathered(layer, x, weight.t().contiguous())
        ctx.save_for_backward(whole, weight)
        ctx.layer = layer
        return product

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        whole, weight = ctx.saved_tensors
        of_x = _scattered(ctx.layer, gradient, weight) if ctx.needs_input_grad[0] else None
        return of_x, _of_weight(gradient, whole), None


class _Scattered(torch.autograd.Function):
    """The sum of all ranks' products is spread over them, and its gradient is gathered."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: _Layer) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return _scattered(layer, x, weight.t().contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        whole, of_x = _gathered(ctx.layer, gradient, weight)
        return of_x, _of_weight(whole, x), None


class _Shared(torch.autograd.Function):
    """A parameter that all ranks have, each for a part of the rows: its gradient is a sum."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        total = gradient.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None
