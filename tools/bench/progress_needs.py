"""How many workers a rate takes on the host, and how many threads of a SmartNIC it takes by a model
(`progress_scaling`): a part of ``weft bench progress-engine``."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from weft.tools.bench.progress_scaling import OffloadedThread, Scaling, fitted

MODES = ("direct", "staged")
RATES_GBIT = (200, 400, 800, 1600)
CHUNK_BYTES = 4096
"""The size of the chunks for which rates are given."""
CLOCK_HZ = 1.8e9
"""The clock of a BlueField-3's data-path accelerator, as it is reported. The paper's 598 cycles at
its 11.9 GiB/s come to 1.87 GHz."""
PAPER: dict[str, Any] = {
    "what": "one thread of a BlueField-3 (SC24, SmartNIC offload), chunks of 4096 bytes",
    "direct_gibytes_per_s": 11.9,
    "direct_cycles_per_chunk": 598,
    "staged_gibytes_per_s": 5.2,
    "staged_cycles_per_chunk": 1084,
    "direct_workers_for_200_gbit": 4,
    "workers_for_1600_gbit": 128,
}
"""The paper's modes: UC is direct (WRITE to user memory), UD is staged."""
OWN = 0.95
"""Workers had cores of their own if they were on them for this part of the time. The rest is that
they begin and end apart, and what interrupts them; if more is missing, other processes were there.
"""
COPIES = {"direct": 1, "staged": 2}
"""How often each payload is copied, by mode."""


def needs_of(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from what was measured: ``scaling``, ``memcpy_contention``, ``needed``
    and ``offloaded_modelled``."""
    copied = {row["threads"]: row["gbytes_per_s"] for row in figures["memcpy"]}
    memcpy = fitted(copied, figures["cores"])
    return {
        "scaling": {
            mode: _scaling_figures(figures, mode, scaling)
            for mode in MODES
            if (scaling := scaling_of(figures, mode)) is not None
        },
        "memcpy_contention": None if memcpy is None else memcpy.contention,
        "needed": _needed(figures),
        "offloaded_modelled": {
            "what": PAPER["what"],
            "clock_hz": CLOCK_HZ,
            "chunk_bytes": CHUNK_BYTES,
            **{mode: _thread_figures(thread_of(mode)) for mode in MODES},
        },
    }


def scaling_of(figures: Mapping[str, Any], mode: str) -> Scaling | None:
    """Return how a mode's workers in memory scale at 4096 bytes a chunk, in chunks a second.

    Only workers that had cores of their own count.
    """
    rates = {
        row["workers"]: row["chunks_per_s"]
        for row in figures["memory"]
        if row["mode"] == mode and row["chunk_bytes"] == CHUNK_BYTES and cores_had(row) >= OWN
    }
    return fitted(rates, figures["cores"])


def cores_had(row: Mapping[str, Any]) -> float:
    """Return which part of their cores' time the workers of a row had, 0 to 1."""
    return float(row["cpu_ns_per_chunk"] * row["chunks_per_s"] / row["workers"] / 1e9)


def _scaling_figures(figures: Mapping[str, Any], mode: str, scaling: Scaling) -> dict[str, Any]:
    limit = scaling.limit
    copied = max(row["gbytes_per_s"] for row in figures["memcpy"])
    return {
        "alone_chunks_per_s": scaling.alone,
        "contention": scaling.contention,
        "fitted_to_workers": list(scaling.counts),
        "limit_gbit_per_s": None if limit is None else limit * CHUNK_BYTES * 8 / 1e9,
        "memcpy_limit_gbit_per_s": copied * 8 / COPIES[mode],
    }


def _needed(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how many workers some rates take at 4096 bytes a chunk, as intervals, and how many
    threads of a SmartNIC they take by the model."""
    found = []
    for rate in RATES_GBIT:
        chunks_per_s = rate * 1e9 / 8 / CHUNK_BYTES
        row: dict[str, Any] = {"rate_gbit_per_s": rate, "chunks_per_s": chunks_per_s}
        for mode in MODES:
            scaling = scaling_of(figures, mode)
            row |= {
                f"{mode}_workers": scaling and asdict(scaling.needed(chunks_per_s)),
                f"{mode}_threads_modelled": thread_of(mode).threads(chunks_per_s),
            }
        found.append(row)
    return found


def thread_of(mode: str) -> OffloadedThread:
    """Return the SmartNIC's thread in a mode, with the cycles that the paper gives for it."""
    return OffloadedThread(PAPER[f"{mode}_cycles_per_chunk"], CLOCK_HZ)


def _thread_figures(thread: OffloadedThread) -> dict[str, float]:
    return {"chunk_ns": thread.chunk_ns, "gbytes_per_s": CHUNK_BYTES / thread.chunk_ns}
