"""``weft bench pytorch``: FSDP2 of a small GPT, in the network, by rings and by Gloo.

The claim of the multicast paper (SC24, arXiv 2408.13356) end to end: Allgathers by multicast and
Reduce-Scatters in the switches, against rings, on the same network with the same script, in turns.
Links have the rate at which communication by rings takes `RATIO` times as long as the ranks
compute: that of a model of N parameters on accelerators of 312 TFLOP/s, of which 40 % are used,
with 4,096 tokens a rank and step, 6 N FLOP a token, and 16-bit parameters that cross links of 200
Gbit/s three times.

Losses of each run must be those of one process, within `TOLERANCE`; else the benchmark fails.
"""

import sys
from collections.abc import Mapping
from statistics import mean, median
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.children import run_tool
from weft.base.errors import MachineError, RunError, refuse
from weft.experiments.families.programs.results import TorchRun
from weft.interface.up import up
from weft.tools.bench.benchmarks import table_lines
from weft.tools.bench.timing import BENCHMARK_LIMIT_S
from weft.topo.clos import leaf_spine

SCRIPT = CHECKOUT / "examples" / "pytorch" / "train_gpt.py"
STEPS = 5
WARM = 2
"""The first steps, which are left out: code is loaded and buffers are made."""
RUNS = 10
RANKS = 8
BATCH = 64
LAYERS = 2
TOKENS, FLOPS, LINK_BPS = 4096, 0.4 * 312e12, 200e9
RATIO = (3 * 2 * 8 / LINK_BPS) / (6 * TOKENS / FLOPS)
"""Communication by rings over computation, on such a machine; N cancels out."""
TOLERANCE = 1e-4
PROBE_BPS = 100_000_000
WAYS: Mapping[str, Mapping[str, str]] = {
    "in-network": {"allgather": "multicast", "reduce_scatter": "switch"},
    "multicast and rings": {"allgather": "multicast", "reduce_scatter": "ring"},
    "rings": {"allgather": "ring", "reduce_scatter": "ring"},
    "gloo": {"backend": "gloo"},
}


def measure(runs: int = RUNS, steps: int = STEPS) -> dict[str, Any]:
    """Return, for each way, step times, bytes on host links, and how they compare.

    Raises:
        MachineError: torch is not installed, or there is no example script beside Weft.
        RunError: a run failed, or did not train as one process does.
    """
    if not SCRIPT.exists():
        raise MachineError(f"{SCRIPT} is not there: run this in a checkout")
    size = ["--steps", str(steps), "--batch", str(BATCH), "--layers", str(LAYERS)]
    expected = _alone(size)
    arguments = ["--parallel", "fsdp", "--prefetch", *size]
    with up(_network(PROBE_BPS)) as net:
        probe = _checked(net.torch_run(SCRIPT, *arguments, **_options("rings")), expected)
    computation_ns = mean(rank.computation_ns for rank in probe.ranks) / steps
    sent_bytes = probe.tiers["host_up"] / RANKS / steps
    rate_bps = round(sent_bytes * 8e9 / (RATIO * computation_ns), -6)
    found: dict[str, list[TorchRun]] = {way: [] for way in WAYS}
    with up(_network(int(rate_bps))) as net:
        for number in range(runs):
            print(f"run {number + 1} of {runs}", file=sys.stderr)
            for way in WAYS:
                run = net.torch_run(SCRIPT, *arguments, **_options(way))
                found[way].append(_checked(run, expected))
    return {
        "ratio": RATIO,
        "rate_bps": int(rate_bps),
        "computation_ms": computation_ns / 1e6,
        "runs": runs,
        "steps": steps,
        "rows": [_row(way, each, found) for way, each in found.items()],
    }


def _network(rate_bps: int) -> Any:
    return leaf_spine(leaves=4, spines=2, hosts_per_leaf=RANKS // 4, rate_bps=rate_bps)


def _options(way: str) -> Any:
    return dict(WAYS[way])


def _alone(size: list[str]) -> list[float]:
    """Return the losses of one process."""
    done = run_tool(
        [sys.executable, str(SCRIPT), "--parallel", "none", *size], timeout_s=BENCHMARK_LIMIT_S
    )
    if done.returncode:
        raise MachineError(
            f"{SCRIPT.name} in one process ended with status {done.returncode}: "
            f"{done.stderr.strip()[-300:]}; is torch installed (./weft setup --torch)?"
        )
    lines = (line for line in done.stdout.splitlines() if line.startswith("step"))
    return [float(line.split("loss ")[1].split(",")[0]) for line in lines]


def _checked(run: TorchRun, expected: list[float]) -> TorchRun:
    """Return a run that ended well and trained as one process does: mean of all ranks' losses."""
    refuse(run.error, f"{run.backend}: {run.error}", RunError)
    losses = [mean(each) for each in zip(*(rank.losses for rank in run.ranks), strict=True)]
    worst = max(abs(one - other) for one, other in zip(losses, expected, strict=True))
    refuse(
        worst > TOLERANCE,
        f"{run.backend} by {run.algorithms}: losses {losses} are not those of one process, "
        f"{expected}",
        RunError,
    )
    return run


def step_ms(run: TorchRun) -> float:
    """Return the median step of the slowest rank, without the first ones."""
    return median(run.step_ns[WARM:]) / 1e6


def _row(way: str, runs: list[TorchRun], found: Mapping[str, list[TorchRun]]) -> dict[str, Any]:
    steps = [step_ms(run) for run in runs]
    row: dict[str, Any] = {
        "way": way,
        "step_ms": mean(steps),
        "least_ms": min(steps),
        "greatest_ms": max(steps),
        "exposed": mean(
            rank.exposed_ns / rank.total_ns for run in runs for rank in run.ranks
        ) if way != "gloo" else None,
        "host_up_mib": mean(run.tiers["host_up"] for run in runs) / 2**20,
        "host_down_mib": mean(run.tiers["host_down"] for run in runs) / 2**20,
        "verdicts": sorted({run.fidelity.verdict for run in runs}),
    }  # fmt: skip
    for other in ("rings", "gloo"):
        pairs = zip(steps, map(step_ms, found[other]), strict=True)
        row[f"over_{other}"] = median(mine / theirs for mine, theirs in pairs)
    return row


def lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table."""
    shown = [
        {**row, "exposed": "-" if row["exposed"] is None else f"{row['exposed']:.0%}",
         "verdicts": ", ".join(row["verdicts"])}
        for row in figures["rows"]
    ]  # fmt: skip
    return table_lines(
        f"FSDP2 of a small GPT on {RANKS} hosts, {figures['rate_bps'] / 1e6:.0f} Mbit/s: rings "
        f"take {figures['ratio']:.2f} times as long as computation; {figures['runs']} runs of each",
        {
            "": "{way!s}", "step, ms": "{step_ms:.0f}", "least": "{least_ms:.0f}",
            "most": "{greatest_ms:.0f}", "over rings": "{over_rings:.2f}",
            "over gloo": "{over_gloo:.2f}", "exposed": "{exposed}",
            "host up, MiB": "{host_up_mib:.1f}", "down": "{host_down_mib:.1f}",
            "fidelity": "{verdicts!s}",
        },
        shown,
    )  # fmt: skip
