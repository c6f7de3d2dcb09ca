"""With whom a rank needs a queue pair for an operation, beside what every communicator has."""

from __future__ import annotations

from weft.agents.collectives.recursive import Folding
from weft.agents.collectives.requests import Request
from weft.agents.collectives.trees import double_binary_tree, place_in_tree


def partners(request: Request, rank: int, size: int) -> set[int]:
    """The ranks that `rank` writes to or is written to by; empty for the algorithms of the ring and
    for multicast."""
    algorithm = request.algorithm
    if request.flows is not None:
        return request.flows.partners(rank)
    if request.collective == "many-to-one":
        return set(range(size)) - {rank} if rank == request.root else {request.root}
    if algorithm in ("linear", "direct"):
        return set(range(size)) - {rank}
    if algorithm in ("k-nomial", "binary-tree"):
        parent, children = place_in_tree(request, (rank - request.root) % size, size)
        places = children if parent is None else [parent, *children]
        return {(place + request.root) % size for place in places}
    if algorithm == "double-binary-tree":
        links = [double_binary_tree(tree, rank, size) for tree in (0, 1)]
        parents = {parent for parent, _ in links if parent is not None}
        return parents.union(*(children for _, children in links))
    if algorithm in ("recursive-doubling", "recursive-halving", "halving-doubling"):
        folding = Folding(size)
        place = folding.place(rank)
        if place is None:
            return {rank + 1}
        found = {folding.rank(place ^ 1 << round_) for round_ in range(folding.rounds)}
        return found | ({rank - 1} if place < folding.pairs else set())
    return set()
