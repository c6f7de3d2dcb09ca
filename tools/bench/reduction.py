"""``weft bench reduction``: how fast a reduction server adds.

It measures the GB/s of input that an Optcast server adds on one core, by element type, operation
and number of ranks, against numpy's own function on the same data in the same run. A server
combines one chunk of every rank at a time. Their slots are a few MB, which the network has just
written: so the benchmark goes through the same slots again and again, as a server does. numpy takes
the vectors two at a time, whole chunk by whole chunk. For half types it has to widen and round
each, which is timed in both ways: in the type itself, rounded at each step, and through float32, as
the servers do. Every result is compared with numpy's, bit by bit.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.agents.collectives.dtypes import HALF_TYPES, Array, dtype_of, is_float
from weft.agents.collectives.sums import ReductionKind
from weft.base.errors import RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64")
OPS = ("sum", "min", "max")
RANKS = (2, 8, 16)
CHUNK_BYTES = 64 * 1024
CHUNKS = 4
"""How many slots a rank has."""
ATTEMPTS = 5
"""How many attempts are made; the quickest counts, since other processes can only add time."""
ATTEMPT_NS = 20_000_000
FUNCTIONS = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Slots:
    """What the ranks have written, as chunks by rank, and the place for their sums."""

    chunks: list[list[Array]]
    """[chunk][rank]."""
    out: Array
    expected: list[Array]


def measure(
    dtypes: Collection[str] = DTYPES,
    ops: Collection[str] = OPS,
    ranks: Collection[int] = RANKS,
    attempt_ns: int = ATTEMPT_NS,
) -> dict[str, Any]:
    """Return rows of GB/s by type, operation and number of ranks. Raises RunError if a result
    differs from numpy's."""
    rows = [_row(dtype, op, count, attempt_ns) for dtype in dtypes for op in ops for count in ranks]
    return {"chunk_bytes": CHUNK_BYTES, "chunks": CHUNKS, "cores_used": 1, "rows": rows}


def _row(dtype: str, op: str, ranks: int, attempt_ns: int) -> dict[str, Any]:
    slots = _slots(dtype, op, ranks)
    reduction = ReductionKind(dtype, op)
    out = slots.out.view(np.uint8)
    addresses = [
        np.array([vector.ctypes.data for vector in vectors], np.int64) for vectors in slots.chunks
    ]
    count = slots.out.size

    def server(chunk: int) -> None:
        reduction.combine(addresses[chunk], count, out, ranks=ranks)

    def numpy(chunk: int) -> None:
        _pairwise(op, slots.chunks[chunk], slots.out)

    def numpy_wide(chunk: int) -> None:
        wide = slots.chunks[chunk][0].astype(np.float32)
        for vector in slots.chunks[chunk][1:]:
            FUNCTIONS[op](wide, vector.astype(np.float32), out=wide)
        slots.out[...] = wide.astype(slots.out.dtype)

    _check(slots, server, f"{op} of {ranks} vectors of {dtype}")
    works = {"gbytes_per_s": server, "numpy_gbytes_per_s": numpy}
    if dtype in HALF_TYPES:
        works["numpy_float32_gbytes_per_s"] = numpy_wide
    times = _quickest_ns(works, attempt_ns)
    rates = {name: CHUNKS * ranks * CHUNK_BYTES / spent_ns for name, spent_ns in times.items()}
    return {"dtype": dtype, "op": op, "ranks": ranks, **rates}


def _slots(dtype: str, op: str, ranks: int) -> Slots:
    kind = dtype_of(dtype)
    generator = np.random.default_rng(ranks)
    count = CHUNK_BYTES // kind.itemsize
    whole = partial(generator.integers, -(2**20), 2**20)
    draw: Callable[..., Any] = generator.standard_normal if is_float(dtype) else whole
    chunks = [list(draw(size=(ranks, count)).astype(kind)) for _ in range(CHUNKS)]
    wide = np.dtype(np.float32) if dtype in HALF_TYPES else kind
    expected: list[Array] = []
    for vectors in chunks:
        total = vectors[0].astype(wide)
        _pairwise(op, [total, *(vector.astype(wide) for vector in vectors[1:])], total)
        expected.append(total.astype(kind))
    return Slots(chunks, np.empty(count, kind), expected)


def _pairwise(op: str, vectors: list[Array], out: Array) -> None:
    """Do what numpy does with vectors, in their order."""
    function = FUNCTIONS[op]
    function(vectors[0], vectors[1], out=out)
    for vector in vectors[2:]:
        function(out, vector, out=out)


def _check(slots: Slots, work: Callable[[int], None], what: str) -> None:
    for chunk, expected in enumerate(slots.expected):
        slots.out.view(np.uint8)[:] = 0xA5
        work(chunk)
        if not np.array_equal(slots.out.view(np.uint8), expected.view(np.uint8)):
            raise RunError(f"the benchmark's {what} is not what numpy makes of them")


def _quickest_ns(works: Mapping[str, Callable[[int], None]], attempt_ns: int) -> dict[str, float]:
    """Return the processor time of going through all chunks once, by name; they take turns, so that
    what else the machine does is the same to all."""

    def attempt(work: Callable[[int], None], rounds: int) -> float:
        started = time.thread_time_ns()
        for _ in range(rounds):
            for chunk in range(CHUNKS):
                work(chunk)
        return (time.thread_time_ns() - started) / rounds

    rounds = {name: round(attempt_ns / max(1, attempt(work, 1))) for name, work in works.items()}
    times = [
        {name: attempt(work, max(1, rounds[name])) for name, work in works.items()}
        for _ in range(ATTEMPTS)
    ]
    return {name: min(each[name] for each in times) for name in works}


def plot(figures: dict[str, Any]) -> "Figure":
    """Draw the GB/s of sums by type, with a bar for each number of ranks and numpy's beside it."""
    from matplotlib.figure import Figure

    rows = [row for row in figures["rows"] if row["op"] == figures["rows"][0]["op"]]
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    ranks = list(dict.fromkeys(row["ranks"] for row in rows))
    figure = Figure(figsize=(9, 4), layout="constrained")
    panel = figure.subplots()
    width = 0.8 / (2 * len(ranks))
    for number, count in enumerate(ranks):
        of_count = {row["dtype"]: row for row in rows if row["ranks"] == count}
        for place, (key, who) in enumerate(
            (("gbytes_per_s", "server"), ("numpy_gbytes_per_s", "numpy"))
        ):
            at = [index + (2 * number + place) * width - 0.4 for index in range(len(dtypes))]
            panel.bar(
                at, [of_count[dtype][key] for dtype in dtypes], width, align="edge",
                color=f"C{number}", alpha=1.0 if place == 0 else 0.4,
                label=f"{who}, {count} ranks",
            )  # fmt: skip
    panel.set_xticks(range(len(dtypes)), dtypes)
    panel.set_ylabel(f"input of {rows[0]['op']} on one core (GB/s)")
    panel.grid(True, axis="y", alpha=0.3)
    panel.legend(fontsize="small")
    return figure
