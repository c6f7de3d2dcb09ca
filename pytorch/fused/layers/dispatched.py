"""Multicast dispatch: a token leaves its host once, however many ranks have experts that want it;
with a gradient.

All tokens that several other ranks want are one Allgather, whose data the switches copy to all
ranks; a rank leaves out what it does not want. A token that one other rank alone wants goes there
by an all-to-all, and once, too, if several of its experts want it. Gradients come back by an
all-to-all, from each rank that had the token one row; its owner adds them in the order of ranks.
"""

from typing import Any

import torch
import torch.distributed as dist

from weft.pytorch.fused.layers.exchanged import exchange_rows
from weft.pytorch.process_group import WeftProcessGroup

MULTICAST = "multicast"


class Routes:
    """Routes say which tokens of every rank go to which experts, as all ranks know by a gathering.

    Args:
        chosen: int64 [tokens, top_k], the experts that this rank's tokens go to.
        experts: how many there are on each rank.
        group: the process group.
    """

    def __init__(self, chosen: torch.Tensor, experts: int, group: Any) -> None:
        self.group, self.experts = group, experts
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        counts = chosen.new_empty(self.size)
        dist.all_gather_single(counts, chosen.new_tensor([len(chosen)]), group=group)
        most = int(counts.max())
        padded = chosen.new_zeros(most, chosen.shape[1])
        padded[: len(chosen)] = chosen
        everything = chosen.new_empty(self.size * most, chosen.shape[1])
        dist.all_gather_single(everything, padded, group=group)
        self.chosen = [
            each[:count]
            for each, count in zip(
                everything.view(self.size, most, -1), counts.tolist(), strict=True
            )
        ]
        """The experts of each rank's tokens."""
        self.wanted = [
            torch.zeros(len(each), self.size, dtype=torch.bool).scatter_(1, each // experts, True)
            for each in self.chosen
        ]
        """Of each rank's tokens, which ranks want them: bool [tokens, P]."""

    def splits(self) -> torch.Tensor:
        """Return how many tokens of each rank there are for each expert here: int64 [P, own
        experts]."""
        first = self.rank * self.experts
        own = range(first, first + self.experts)
        return torch.stack(
            [torch.stack([(each == expert).sum() for expert in own]) for each in self.chosen]
        )

    def shared(self, source: int) -> torch.Tensor:
        """Return which of a rank's tokens several other ranks want: bool [tokens]."""
        others = self.wanted[source].clone()
        others[:, source] = False
        return others.sum(1) > 1


def dispatched(tokens: torch.Tensor, routes: Routes) -> torch.Tensor:
    """Return the tokens of all ranks for the experts of this one: first all of rank 0, sorted by
    expert, then all of rank 1, and so on.

    Args:
        tokens: [tokens, width], this rank's.
        routes: of all tokens; their group is one of the backend weft.
    """
    found: torch.Tensor = _Dispatched.apply(tokens, routes)
    return found


class _Dispatched(torch.autograd.Function):
    """Tokens go out, and their gradients come back."""

    @staticmethod
    def forward(ctx: Any, tokens: torch.Tensor, routes: Routes) -> torch.Tensor:
        come, places = _brought(tokens, routes)
        first = routes.rank * routes.experts
        index = torch.cat(
            [
                place[(chosen == expert).any(1)]
                for chosen, place in zip(routes.chosen, places, strict=True)
                for expert in range(first, first + routes.experts)
            ]
        )
        ctx.routes, ctx.index, ctx.places, ctx.rows = routes, index, places, len(come)
        return come[index]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        routes: Routes = ctx.routes
        of_rows = gradient.new_zeros(ctx.rows, gradient.shape[1]).index_add_(0, ctx.index, gradient)
        wanted = [each[:, routes.rank] for each in routes.wanted]
        sent = [of_rows[place[mask]] for place, mask in zip(ctx.places, wanted, strict=True)]
        mine = routes.wanted[routes.rank]
        back = exchange_rows(
            torch.cat(sent), [len(each) for each in sent], mine.sum(0).tolist(), routes.group
        )
        total = gradient.new_zeros(len(mine), gradient.shape[1])
        for rank, rows in enumerate(back.split(mine.sum(0).tolist())):
            total[mine[:, rank]] += rows
        return total, None


def _brought(tokens: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Bring tokens to where they are wanted. Return the rows that are here then, and of each rank
    in which of them each of its tokens is: int64 [tokens], -1 for those that are not here."""
    rank, size = routes.rank, routes.size
    shared = [routes.shared(source) for source in range(size)]
    direct = [
        each & ~several.unsqueeze(1) for each, several in zip(routes.wanted, shared, strict=True)
    ]
    for source, each in enumerate(direct):  # what a rank wants itself goes over no network
        each[:, source] = routes.wanted[source][:, source]
    mine = direct[rank]
    received = [int(each[:, rank].sum()) for each in direct]
    rows = torch.cat([tokens[mine[:, other]] for other in range(size)])
    come = [exchange_rows(rows, mine.sum(0).tolist(), received, routes.group)]
    places = [torch.full((len(each),), -1) for each in direct]
    begin = 0
    for source, count in enumerate(received):
        places[source][direct[source][:, rank]] = torch.arange(begin, begin + count)
        begin += count
    if any(bool(each.any()) for each in shared):
        parts = [tokens.new_empty(int(each.sum()), tokens.shape[1]) for each in shared]
        own_part = tokens[shared[rank]]
        assert isinstance(routes.group, WeftProcessGroup)
        routes.group.allgather_by(MULTICAST, parts, own_part, "dispatch").wait()
        for source, part in enumerate(parts):
            if source != rank:
                places[source][shared[source]] = torch.arange(begin, begin + len(part))
                begin += len(part)
                come.append(part)
    return torch.cat(come), places
