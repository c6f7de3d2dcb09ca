"""What the tests of fused operators share: sizes, drawn and fixed, and results computed apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from weft.agents.operators.all_gather_matmul import AllGatherMatmul
from weft.agents.operators.embedding_all_to_all import EmbeddingAllToAll
from weft.agents.operators.gemm_all_to_all import GemmAllToAll
from weft.agents.operators.gemv_allreduce import GemvAllreduce
from weft.agents.operators.matmul_reduce_scatter import MatmulReduceScatter
from weft.agents.operators.operator import Operator, Sizes
from weft.agents.operators.registry import OPERATORS
from weft.agents.operators.split_product import LEFT, RIGHT

SMALL: dict[str, dict[str, Any]] = {
    "embedding-all-to-all": {
        "batch_size": 64, "width": 16, "tables": 8, "table_rows": 50, "pooling": 3, "tile_rows": 4,
    },
    "gemv-allreduce": {"batch_size": 4, "width": 128, "inner": 64, "tile_rows": 8},
    "gemm-all-to-all": {"batch_size": 64, "width": 24, "inner": 16, "experts": 8, "top_k": 2},
    "all-gather-matmul": {"batch_size": 64, "width": 32, "inner": 48, "tile_rows": 4},
    "matmul-reduce-scatter": {"batch_size": 64, "width": 40, "inner": 32, "tile_rows": 4},
}  # fmt: skip
"""Sizes for 1, 2, 4 and 8 ranks, with several tiles for each of them."""


def small(name: str, **more: Any) -> Sizes:
    return replace(Sizes(), **{**SMALL[name], **more})


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if not number % each]


@st.composite
def sizes(draw: st.DrawFn, name: str, ranks: int, *, combines: bool = False) -> Sizes:
    """Any sizes of an operator that so many ranks can have, down to one tile.

    Args:
        combines: whether what experts make of a token may be added on its way.
    """
    few = st.integers(1, 6)
    width, inner, batch = (draw(few, what) for what in ("width", "inner", "batch"))
    tile_rows = 0
    if name == "embedding-all-to-all":
        tables = ranks * draw(st.integers(1, 3), "tables")
        table_rows, pooling = draw(few, "table rows"), draw(few, "pooling")
        if draw(st.booleans(), "tile rows"):
            tile_rows = draw(st.sampled_from(divisors(batch)))
        return Sizes(
            batch_size=batch * ranks, width=width, tables=tables, table_rows=table_rows,
            pooling=pooling, tile_rows=tile_rows,
        )  # fmt: skip
    if name == "gemm-all-to-all":
        experts = ranks * draw(st.integers(1, 3), "experts")
        return Sizes(
            batch_size=batch * ranks, width=width, inner=inner, experts=experts,
            top_k=draw(st.integers(1, experts), "top k"),
            imbalance=draw(st.sampled_from([0.0, 0.5, 3.0, 10.0]), "imbalance"),
            tile_rows=draw(st.integers(0, 5), "tile rows"),
            dispatch=draw(st.sampled_from(["", "unicast", "multicast"]), "dispatch"),
            combines=combines and draw(st.booleans(), "combines"),
        )  # fmt: skip
    rows = width if name == "gemv-allreduce" else batch
    if draw(st.booleans(), "tile rows"):
        tile_rows = draw(st.sampled_from(divisors(rows)))
    if name == "gemv-allreduce":
        return Sizes(
            batch_size=batch, width=width * ranks, inner=inner * ranks, tile_rows=tile_rows
        )
    if name == "all-gather-matmul":
        return Sizes(
            batch_size=batch * ranks, width=width * ranks, inner=inner, tile_rows=tile_rows
        )
    return Sizes(batch_size=batch * ranks, width=width, inner=inner * ranks, tile_rows=tile_rows)


@st.composite
def operators(draw: st.DrawFn, most_ranks: int = 5, *, combines: bool = False) -> Operator:
    """Any small operator on some ranks; `combines` as of `sizes`."""
    name = draw(st.sampled_from([*OPERATORS]), "operator")
    ranks = draw(st.integers(1, most_ranks), "ranks")
    asked = draw(sizes(name, ranks, combines=combines))
    return OPERATORS[name](asked, ranks, draw(st.integers(0, 9), "seed"))


def plainly(operator: Operator, rank: int, number: int) -> npt.NDArray[np.int64]:
    """What a rank's result must be, by whole numbers and loops that know no tiles: written apart
    from `expected`, of the same inputs."""

    def whole(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        exact = values.astype(np.int64)
        assert (exact == values).all()
        return exact

    sizes, ranks = operator.sizes, operator.ranks
    if isinstance(operator, EmbeddingAllToAll):
        rows = sizes.batch_size // ranks
        found = np.zeros((sizes.tables, rows, sizes.width), np.int64)
        for table in range(sizes.tables):
            weights = whole(operator._weights(table))
            assert weights.shape == (sizes.table_rows, sizes.width)
            for sample in range(rows):
                indices = operator._indices(table, number)[rank * rows + sample]
                assert len(indices) == sizes.pooling
                for index in indices:
                    found[table, sample] += weights[index]
        return found.reshape(-1)
    if isinstance(operator, GemvAllreduce):
        products = np.zeros((sizes.width, sizes.batch_size), np.int64)
        for each in range(ranks):
            products += whole(operator._part(LEFT, each, number)) @ whole(
                operator._part(RIGHT, each, number)
            )
        return products.reshape(-1)
    if isinstance(operator, GemmAllToAll):
        own = sizes.batch_size // ranks
        tokens = whole(operator._tokens(rank, number))
        result = np.zeros((own, sizes.width), np.int64)
        for place in range(own):
            token = rank * own + place
            for expert in operator._routes[token].tolist():
                gate = int(operator._gates[token, expert])
                result[place] += gate * (tokens[place] @ whole(operator._weights(expert)))
        return result.reshape(-1)
    if isinstance(operator, AllGatherMatmul):
        left = np.vstack([whole(operator._left(each, number)) for each in range(ranks)])
        return (left @ whole(operator._right(rank))).reshape(-1)
    assert isinstance(operator, MatmulReduceScatter)
    total = np.zeros((sizes.batch_size, sizes.width), np.int64)
    for each in range(ranks):
        total += whole(operator._part(LEFT, each, number)) @ whole(
            operator._part(RIGHT, each, number)
        )
    return np.split(total, ranks)[rank].reshape(-1)
