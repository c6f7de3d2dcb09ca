"""``./weft pairs``: benchmarks of this checkout and of another one, in turn, and their ratios.

Both run on the same machine, one after the other, pair by pair, each first in every other pair, so
that what slows the machine down slows both. For each figure the median of the pairs' ratios is
printed, this checkout's over the other's, with an interval that holds the true median with at least
95 % confidence whatever the distribution (order statistics of the sign test: J. D. Gibbons, S.
Chakraborti, Nonparametric Statistical Inference, section "Confidence interval for a population
quantile").
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from weft.base.errors import InputError, RunError
from weft.base.progress import Progress
from weft.tools.bench.benchmarks import NAMES, load

ROOT = Path(__file__).resolve().parent.parent
FEWEST_PAIRS = 6
"""With fewer, no interval has 95 %."""


def interval_of(ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of the median. Raises ValueError for fewer than 6 ratios."""
    count = len(ratios)
    if count < FEWEST_PAIRS:
        raise ValueError(f"{count} ratios are too few: {FEWEST_PAIRS} are needed")
    outside, left_out = 0.5**count, 0
    while 2 * (outside + math.comb(count, left_out + 1) * 0.5**count) <= 1 - confidence:
        left_out += 1
        outside += math.comb(count, left_out) * 0.5**count
    ordered = sorted(ratios)
    return ordered[left_out], ordered[-1 - left_out]


def numbers_of(figures: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers above 0 of a benchmark's figures with their names; of a list of numbers the
    median."""
    if isinstance(figures, dict):
        for key, value in figures.items():
            if name or key != "machine":
                yield from numbers_of(value, f"{name} {key}".strip())
    elif isinstance(figures, list) and figures:
        if all(isinstance(each, (int, float)) for each in figures):
            yield from numbers_of(median(figures), name)
        else:
            for number, value in enumerate(figures):
                yield from numbers_of(value, f"{name} {number}".strip())
    elif isinstance(figures, (int, float)) and not isinstance(figures, bool) and figures > 0:
        yield name, float(figures)


def measured(checkout: Path, benchmark: str) -> dict[str, float]:
    """Run a benchmark of a checkout and return its numbers. Raises RunError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [checkout / "weft", "bench", benchmark, "--json"],
        env=environment, cwd=checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RunError(f"{checkout}/weft bench {benchmark} failed: {done.stderr.strip()[-500:]}")
    return dict(numbers_of(json.loads(done.stdout)))


def table_of(benchmark: str, pairs: Sequence[tuple[dict[str, float], dict[str, float]]]) -> Table:
    """Return a table of all figures that differ from run to run."""
    table = Table(
        "figure", "this", "the other", "ratio", "95 % interval",
        title=f"{benchmark}, {len(pairs)} pairs",
    )  # fmt: skip
    common = set.intersection(*(set(each) for pair in pairs for each in pair))
    for name in (name for name in pairs[0][0] if name in common):
        mine, others = [pair[0][name] for pair in pairs], [pair[1][name] for pair in pairs]
        if len({*mine, *others}) == 1:
            continue  # it says what was measured, and not how long it took
        ratios = [one / other for one, other in zip(mine, others, strict=True)]
        low, high = interval_of(ratios)
        table.add_row(
            name, f"{median(mine):.4g}", f"{median(others):.4g}", f"{median(ratios):.3f}",
            f"{low:.3f} to {high:.3f}",
        )  # fmt: skip
    return table


def main() -> None:
    """Compare, and print a table for each benchmark."""
    parser = argparse.ArgumentParser("./weft pairs", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the other checkout")
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--pairs", type=int, default=10, help="10 if it is not said; 6 at least")
    asked = parser.parse_args()
    console = Console(stderr=True)
    try:
        if not (asked.checkout / "weft").is_file():
            raise InputError(f"{str(asked.checkout)!r} is no checkout of Weft: it has no ./weft")
        if asked.pairs < FEWEST_PAIRS:
            raise InputError(f"--pairs {asked.pairs}: {FEWEST_PAIRS} at least, for an interval")
        for benchmark in asked.benchmarks:
            load(benchmark)
        for benchmark in asked.benchmarks or NAMES:
            pairs = []
            with Progress(console) as progress, progress.stage(benchmark, benchmark) as advance:
                for number in range(asked.pairs):
                    checkouts = [ROOT, asked.checkout.resolve()]
                    in_turn = checkouts if number % 2 else checkouts[::-1]
                    found = {each: measured(each, benchmark) for each in in_turn}
                    pairs.append((found[checkouts[0]], found[checkouts[1]]))
                    advance((number + 1) / asked.pairs)
            Console().print(table_of(benchmark, pairs))
    except (InputError, RunError) as error:
        sys.exit(f"weft: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
