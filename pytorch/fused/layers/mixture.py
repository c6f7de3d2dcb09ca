"""`MixtureOfExperts`: a feed-forward layer of experts that are spread over the ranks."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.fused import operators
from weft.pytorch.fused.call import weft_group
from weft.pytorch.fused.layers.dispatched import MULTICAST, Routes, dispatched
from weft.pytorch.fused.layers.exchanged import exchanged, generators, ranks_of
from weft.pytorch.fused.tiles import SLICE_TILES

UNICAST = "unicast"
"""The other way to dispatch tokens."""


class MixtureOfExperts(nn.Module):
    """Each token goes through the experts that a router chooses for it, wherever they are.

    A router gives each token its `top_k` experts and how much each of them counts. Tokens go to
    their experts' ranks; an expert is two matrices with GELU between. The second product and the
    way back are ``weft::gemm_all_to_all``, or a product and then an all-to-all. All tokens are
    computed, however many want the same expert (GShard, arXiv 2006.16668, without its capacity).

    An expert's gradient is of the tokens of all ranks. That of the router is of this rank's tokens:
    add it up over the ranks, as one does with the gradients of all that is replicated.

    Args:
        width: of tokens.
        hidden: of each expert.
        experts: of all ranks together, a multiple of P; rank 0 has the first ones.
        top_k: how many experts a token goes to.
        group: a process group, by default that of all ranks.
        fused: by ``weft::gemm_all_to_all``, which needs the backend weft.
        dispatch: how tokens come to their experts. unicast: once for each expert that wants them,
            by an all-to-all; multicast: a token that several other ranks want leaves its host once
            and the switches replicate it to all ranks, which needs the backend weft.
        tile_rows, slice_tiles, order: as the operator has them.
        dtype: of the parameters.

    Raises:
        BadCallError: the ranks cannot have as many experts each, or a token wants more than there
            are, or there is no such way to dispatch, or the group is not one of the backend weft.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        experts: int,
        *,
        top_k: int = 2,
        group: Any = None,
        fused: bool = True,
        dispatch: str = UNICAST,
        tile_rows: int = 0,
        slice_tiles: int = SLICE_TILES,
        order: str = REMOTE_FIRST,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.group, self.rank, self.size = ranks_of(group)
        refuse(
            experts < 1 or experts % self.size,
            f"MixtureOfExperts: {experts} experts, of which {self.size} ranks cannot have as many "
            f"each; choose a multiple of {self.size}",
        )
        if not 1 <= top_k <= experts:
            raise BadCallError(
                f"MixtureOfExperts: top_k {top_k}: choose 1 to {experts}, the number of experts"
            )
        refuse(
            dispatch not in (UNICAST, MULTICAST),
            f"MixtureOfExperts: dispatch {dispatch!r}: choose {UNICAST} or {MULTICAST}",
        )
        self.dispatch = dispatch
        self.width, self.experts, self.top_k, self.fused = width, experts, top_k, fused
        self.options = {"tile_rows": tile_rows, "slice_tiles": slice_tiles, "order": order}
        own = experts // self.size
        self.router = nn.Linear(width, experts, bias=False, dtype=dtype)
        """The same on all ranks, if all draw it from the same seed."""
        self.up = nn.Parameter(torch.empty(own, width, hidden, dtype=dtype))
        self.down = nn.Parameter(torch.empty(own, hidden, width, dtype=dtype))
        self.reset_parameters()
        if fused:
            weft_group(type(self).__name__, self.group)
            operators.register()
        if dispatch == MULTICAST and self.size > 1:
            weft_group(f"{type(self).__name__} with dispatch {MULTICAST}", self.group)
            self.group.check_able("allgather", MULTICAST, MULTICAST)

    def reset_parameters(self) -> None:
        """Draw the experts; ranks that draw from the same seed have parts of the same layer."""
        own = self.experts // self.size
        with torch.no_grad():
            for number, draw in enumerate(generators(self.rank * own, own)):
                for matrix in (self.up[number], self.down[number]):
                    bound = matrix.shape[0] ** -0.5
                    matrix.uniform_(-bound, bound, generator=draw)

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the experts make of tokens. As sizes depend on what the router chooses,
        torch.compile leaves it out of its graphs.

        Args:
            x: [..., width], this rank's tokens; ranks may have different numbers of them.

        Returns:
            [..., width].
        """
        tokens = x.reshape(-1, self.width)
        weights, chosen = self.router(tokens).softmax(-1).topk(self.top_k)
        weights = weights / weights.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        sent = torch.bincount(chosen.flatten(), minlength=self.experts).view(self.size, -1)
        if self.dispatch == MULTICAST and self.size > 1:
            routes = Routes(chosen, self.experts // self.size, self.group)
            come = routes.splits()
            there = dispatched(tokens, routes)
        else:
            come = torch.empty_like(sent)
            dist.all_to_all_single(come, sent, group=self.group)
            there = exchanged(
                tokens[order // self.top_k], sent.sum(1).tolist(), come.sum(1).tolist(), self.group
            )
        inner = F.gelu(_products(there, self.up, come))
        if self.fused:
            back = torch.ops.weft.gemm_all_to_all(
                inner, self.down, come, sent, self.group.group_name, **self.options
            )
        else:
            products = _products(inner, self.down, come)
            back = exchanged(products, come.sum(1).tolist(), sent.sum(1).tolist(), self.group)
        by_token = torch.empty_like(back).index_copy(0, order, back)
        found = by_token.view(-1, self.top_k, self.width) * weights.unsqueeze(-1)
        return found.sum(1).view(x.shape)

    def extra_repr(self) -> str:
        """Return what `repr` says of it."""
        return (
            f"width={self.width}, experts={self.experts}, top_k={self.top_k}, "
            f"fused={self.fused}, dispatch={self.dispatch}"
        )


def _products(rows: torch.Tensor, weights: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return rows multiplied with the weights of their experts.

    Args:
        rows: [T, K], first all of rank 0, sorted by expert, then all of rank 1, and so on.
        weights: [experts, K, N].
        counts: int64 [P, experts], how many rows there are of each rank for each expert.
    """
    parts = rows.split(counts.flatten().tolist())
    experts = weights.unbind()
    return torch.cat([part @ experts[n % len(experts)] for n, part in enumerate(parts)])
