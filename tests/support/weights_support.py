"""Random moves of weights, and what their devices must have, written apart from what is tested."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from weft.experiments.families.weights.sides import Side
from weft.experiments.families.weights.table import Model, Weight

ORDER = ("replicas", "pp", "dp", "fsdp", "ep", "cp", "tp")
"""Axes of a mesh, the outermost first."""


@st.composite
def weights(draw: st.DrawFn, number: int, layers: int) -> Weight:
    """Any tensor, also one in sections, one whose heads stay together, and one of experts."""
    layer = draw(st.none() | st.integers(0, layers - 1))
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    split = draw(st.none() | st.integers(0, len(shape) - 1))
    sections: tuple[int, ...] = ()
    unit = 1
    if split is not None:
        unit = draw(st.sampled_from([1, 1, 2, 3]))
        heads = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        if len(heads) > 1:
            sections = tuple(unit * each for each in heads)
        shape[split] = unit * sum(heads)
    free = [dimension for dimension in range(len(shape)) if dimension != split]
    experts = draw(st.sampled_from([None, *free]))
    dtype = draw(st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn"]))
    return Weight(
        f"weight.{number}", tuple(shape), dtype, layer, draw(st.booleans()), split, sections, unit,
        experts,
    )  # fmt: skip


@st.composite
def models(draw: st.DrawFn) -> Model:
    layers = draw(st.integers(1, 4))
    count = draw(st.integers(1, 4))
    return Model("any", tuple(draw(weights(number, layers)) for number in range(count)), layers)


@st.composite
def meshes(draw: st.DrawFn, most: int = 6) -> str:
    """Up to four axes of few devices, in any order."""
    names = draw(st.lists(st.sampled_from(ORDER), min_size=1, max_size=4, unique=True))
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    for name in names:
        if prod(sizes.values()) > most:
            sizes[name] = 1
    return ",".join(f"{name}={size}" for name, size in sizes.items())


def expected_elements(weight: Weight, side: Side, layers: int, device: int) -> set[int]:
    """Return which elements of a tensor, counted in row-major order, a device has."""
    sizes = dict(side.expert_axes if weight.experts is not None else side.axes)
    axes = [name for name in ORDER if name in sizes]
    where = np.unravel_index(device, [sizes[name] for name in axes])
    place = {name: int(at) for name, at in zip(axes, where, strict=True)}
    stages = sizes.get("pp", 1)
    home = [weight.layer * stages // layers] if weight.layer is not None else []
    if (home or [stages - 1 if weight.behind else 0])[0] != place.get("pp", 0):
        return set()
    index = np.arange(prod(weight.shape)).reshape(weight.shape)
    if weight.experts is not None:
        index = _chunk(index, sizes, place, "ep", weight.experts)
    if weight.split is not None:
        ends = np.cumsum(weight.sections)[:-1].tolist()
        parts = [
            _heads(part, weight.unit, sizes.get("tp", 1), place.get("tp", 0), weight.split)
            for part in np.split(index, ends, axis=weight.split)
        ]
        index = np.concatenate(parts, axis=weight.split)
    return {*_chunk(index, sizes, place, "fsdp", 0).reshape(-1).tolist()}


def _chunk(index: Any, sizes: dict[str, int], place: dict[str, int], axis: str, along: int) -> Any:
    """One of the chunks that torch.chunk makes, empty ones included."""
    count, at = sizes.get(axis, 1), place.get(axis, 0)
    step = -(-index.shape[along] // count)
    return np.take(index, range(min(at * step, index.shape[along]),
                                min((at + 1) * step, index.shape[along])), axis=along)  # fmt: skip


def _heads(part: Any, unit: int, count: int, at: int, along: int) -> Any:
    heads = part.shape[along] // unit
    if unit > 1 and heads < count:
        chosen = [at * heads // count]
    else:
        step = -(-heads // count)
        chosen = [*range(min(at * step, heads), min((at + 1) * step, heads))]
    rows = [head * unit + row for head in chosen for row in range(unit)]
    return np.take(part, rows, axis=along)
