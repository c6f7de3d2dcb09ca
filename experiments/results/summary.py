"""The runs of a results document, summed up by point and algorithm."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.agents.congestion import reacts_to_marks
from weft.base.units import format_rate
from weft.experiments.results.accuracy import Accuracy
from weft.experiments.results.results import (
    FAILED,
    RankResult,
    Results,
    Run,
    completions_of,
    is_exact,
    points_of,
    scenario_of,
)
from weft.experiments.results.spread import Spread
from weft.experiments.scenario.choices import COUNTS
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.options import field_of, is_usual, said, value_of
from weft.experiments.scenario.scenario import title_of
from weft.experiments.theory.traffic_model import tier_model_bytes

TIERS = {
    "host_up": "host up",
    "host_down": "host down",
    "fabric_up": "fabric up",
    "fabric_down": "fabric down",
}
"""Names of the tiers' directions, in the order in which they are shown."""

MAX_DOUBTS = 6
"""The most doubts that are told where there are many points; the report has all."""

VERDICTS = ("ok", "strained", "invalid", FAILED)
"""The verdicts on fidelity, from best to worst."""
_BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_RATES = (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1))


@dataclass(frozen=True)
class Summary:
    """Sum up all runs of one algorithm at one point: those of all seeds, or all repetitions.

    Means are taken over the verified runs; they are None if there are none.
    """

    algorithm: str
    runs: tuple[Run, ...]

    @property
    def scenario(self) -> dict[str, Any]:
        """Return the scenario of the runs, which is the same for all of them except for the
        seed."""
        return self.runs[0].scenario

    @property
    def ranks(self) -> int:
        """Return how many ranks there are."""
        return len(self.runs[0].ranks)

    def place_among(self, swept: Sequence[str]) -> list[str]:
        """Return what tells the point from the others, like ``8 ranks, world simulated``. Options
        that follow from the number of ranks are left out."""
        values = {
            name: self.scenario.get(field)
            for name in swept
            if (field := field_of(name)) not in COUNTS
        }
        return [
            f"{self.ranks} ranks",
            *(
                f"{name.replace('-', ' ')} {said(name, value)}"
                for name, value in values.items()
                if value is not None
            ),
        ]

    @property
    def operations(self) -> int:
        """Return how many operations each run has."""
        return int(value_of("operations", self.scenario))

    @cached_property
    def model(self) -> dict[str, int]:
        """Return the bytes by tier and direction, as theory has them; nothing of a network that is
        no Clos."""
        scenario = scenario_of(self.scenario)
        if scenario.is_own_network:
            return {}
        return tier_model_bytes(scenario.network(), scenario, self.algorithm)

    @property
    def verified(self) -> tuple[Run, ...]:
        """Return the runs whose data is right; only they have times."""
        return tuple(run for run in self.runs if run.verified)

    @property
    def completions_ns(self) -> list[int]:
        """Return the completion times of the verified runs, in order of repetition."""
        return [run.completion_ns for run in self.verified if run.completion_ns is not None]

    @cached_property
    def completions(self) -> Spread | None:
        """Return the mean, the least and the greatest completion time."""
        return completions_of(self.runs)

    @property
    def completion_ns(self) -> float | None:
        """Return the mean completion time."""
        return self.completions.mean if self.completions else None

    @cached_property
    def exact(self) -> bool:
        """Return whether chance has no part in the time."""
        return is_exact(self.runs)

    @property
    def several(self) -> str:
        """Return how many runs the means are taken over, like ``20 seeds`` or ``5 runs``; empty for
        a single run."""
        if len(self.runs) == 1:
            return ""
        return f"{len(self.runs)} {'seeds' if self.scenario.get('seeds') else 'runs'}"

    @property
    def draws(self) -> "dict[tuple[int, int], Summary]":
        """Return summaries of each verified run alone, by its seed and repetition."""
        return {
            (int(value_of("seed", run.scenario)), run.repetition): Summary(self.algorithm, (run,))
            for run in self.verified
        }

    @property
    def bound_ns(self) -> int:
        """Return the least time that theory allows, in ns; it is the same for all repetitions."""
        return self.runs[0].bound_ns

    @property
    def predicted_ns(self) -> float | None:
        """Return the mean of what the simulated world predicts, in ns, or None if a run has no
        prediction."""
        found = Spread.of(run.predicted_ns for run in self.runs)
        return found.mean if found and found.count == len(self.runs) else None

    @property
    def goodput_bps(self) -> float | None:
        """Return the mean goodput."""
        found = Spread.of(run.goodput_bps for run in self.verified)
        return found.mean if found else None

    @property
    def shown(self) -> Run:
        """Return the one run whose details stand for all: it is verified, and its time is in the
        middle of theirs."""
        timed = (run for run in self.verified if run.completion_ns is not None)
        candidates = sorted(timed, key=lambda run: run.completion_ns or 0)
        return candidates[(len(candidates) - 1) // 2] if candidates else self.runs[0]

    @property
    def tiers(self) -> dict[str, float]:
        """Return the mean bytes by tier and direction, over the verified runs, or over all if none
        is verified."""
        runs = self.verified or self.runs
        return {tier: statistics.fmean(run.tiers[tier] for run in runs) for tier in TIERS}

    @property
    def injection(self) -> tuple[float, float] | None:
        """Return which part, 0 to 1, of what the hosts' links could have carried in the run's time
        they did carry, up and down; None without a time."""
        if not self.completion_ns:
            return None
        bits = self.completion_ns * self.scenario["rate_bps"] * self.ranks / 1e9
        return self.tiers["host_up"] * 8 / bits, self.tiers["host_down"] * 8 / bits

    @property
    def slowest(self) -> RankResult | None:
        """Return the rank that ended last in the run that is shown, or None if it has no times."""
        timed = [rank for rank in self.shown.ranks if rank.completion_ns is not None]
        return max(timed, key=lambda rank: rank.completion_ns or 0, default=None)

    @property
    def phases_ns(self) -> dict[str, int]:
        """Return the phases of the slowest rank, in ns; empty where there are none."""
        return dict(self.slowest.phases_ns) if self.slowest else {}

    @property
    def accuracy(self) -> Accuracy | None:
        """Return how far the verified runs' sums are off, or None where nothing is rounded.

        It is the median of the root mean squares, and the greatest of the other figures.
        """
        found = [run.accuracy for run in self.verified if run.accuracy is not None]
        if not found:
            return None
        return Accuracy(
            max(each.error_max_relative for each in found),
            statistics.median(each.error_rms_relative for each in found),
            max(each.error_max_of_terms for each in found),
            max(each.error_max_of_bound for each in found),
        )

    @property
    def chose_paths(self) -> bool:
        """Return whether somebody asked for more than ECMP, or for reactions to marks."""
        marks = reacts_to_marks(self.scenario.get("congestion"))
        return marks or not is_usual("paths", self.scenario)

    @property
    def fidelity(self) -> str:
        """Return the worst verdict of all runs."""
        return max((run.fidelity.verdict for run in self.runs), key=_badness)


def _badness(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def by_point(results: Results) -> Sequence[Sequence[Summary]]:
    """Return the summaries of each point, one for each algorithm."""
    return [
        [Summary(algorithm, tuple(runs)) for algorithm, runs in point.items()]
        for point in points_of(results.runs)
    ]


def swept_values(scenario: Mapping[str, Any], swept: Sequence[str]) -> list[str]:
    """Return the values of swept options in a scenario's document, as people write them."""
    return [said(name, scenario.get(field_of(name))) for name in swept]


def which_run(results: Results, run: Run) -> str:
    """Return what tells a run from all others: the point, the algorithm, and the seed or the
    repetition."""
    values = zip(results.swept, swept_values(run.scenario, results.swept), strict=True)
    words = [*(f"{name.replace('-', ' ')} {value}" for name, value in values), run.algorithm]
    if run.scenario.get("seeds"):
        words.append(f"seed {run.scenario['seed']}")
    if any(other.repetition for other in results.runs):
        words.append(str(run.repetition + 1))
    return ", ".join(words)


def doubts(results: Results) -> list[tuple[str, str, str]]:
    """Return which figures may be off, and why: for each algorithm at each point, its name, the
    verdict and the first reason of its worst run. If there are many, only the first few are
    returned."""
    worst = [
        max(each.runs, key=lambda run: _badness(run.fidelity.verdict))
        for point in by_point(results)
        for each in point
    ]
    return [
        (which_run(results, run), run.fidelity.verdict, run.fidelity.reasons[0])
        for run in worst
        if run.fidelity.verdict != "ok" and run.fidelity.reasons and not run.error
    ][:MAX_DOUBTS]


def what_of(scenario: Mapping[str, Any]) -> str:
    """Return what was run, like ``Allgather of 1 MiB a rank``, ``Broadcast of 64 KiB``, ``Allgather
    of shards of 0 B to 1 MiB``."""
    return family_of(str(scenario["collective"])).described(scenario)


def ways_of(scenario: Mapping[str, Any]) -> list[str]:
    """Return what is unusual in how flows lie on the network, like ``paths ethereal``, ``ranks
    strided``, ``4:1 oversubscribed``."""
    ways = {
        "paths": "paths {}",
        "placement": "ranks {}",
        "oversubscription": "{:g}:1 oversubscribed",
    }
    return [
        way.format(value_of(name, scenario))
        for name, way in ways.items()
        if not is_usual(name, scenario)
    ]


def collectives_of(scenarios: Sequence[Mapping[str, Any]]) -> str:
    """Return the collectives' names as a part of a sentence, like ``Allgather, Broadcast and
    Reduce-Scatter``."""
    names = list(dict.fromkeys(title_of(str(each["collective"])) for each in scenarios))
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def operations_of(scenario: Mapping[str, Any]) -> str:
    """Return the number of operations, like ``64 operations, 2 at once``; empty for a
    single one."""
    operations, at_once = value_of("operations", scenario), value_of("at-once", scenario)
    if operations == 1:
        return ""
    return f"{operations} operations" + (f", {at_once} at once" if at_once > 1 else "")


def common_of(scenarios: Sequence[Mapping[str, Any]], swept: Sequence[str]) -> str:
    """Return, in one line, what the scenarios' documents have in common; they may differ in
    `swept`."""
    first = scenarios[0]
    varying = {
        name
        for name in swept
        if len({said(name, scenario.get(field_of(name))) for scenario in scenarios}) > 1
    }
    is_sized = not {"size", "sizes", "collective"} & varying
    words = [what_of(first) if is_sized else collectives_of(scenarios)]
    if "topology" not in varying:
        words.append(str(first["topology"]))
    if not {"rate", "switch"} & varying:
        words.append(f"{format_rate(first['rate_bps'])} links")
    told = ("collective", "size", "sizes", "model", "topology", "rate", "world", "loss")
    words += [
        f"{name.replace('-', ' ')} {said(name, first.get(field_of(name)))}"
        for name in swept
        if name not in varying and name not in told and first.get(field_of(name)) is not None
    ]
    if first.get("loss") and "loss" not in varying:
        words.append(f"{said('loss', first['loss'])} loss")
    if "world" not in varying:
        words.append(str(value_of("world", first)))
    return ", ".join(words)


def worst_fidelity(results: Results) -> str:
    """Return the worst verdict of all runs, or ``ok`` without any."""
    return max((run.fidelity.verdict for run in results.runs), key=_badness, default="ok")


def unit_of(largest: float, units: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the unit in which figures up to `largest` read well: the first that is not larger.

    ``units`` are names and sizes in descending order. The last one serves whatever is smaller.
    """
    return next((unit for unit in units if largest >= unit[1]), units[-1])


def byte_unit(largest: float) -> tuple[str, int]:
    """Return the binary unit in which figures up to `largest` bytes read well, and its bytes."""
    return unit_of(largest, _BYTES)


def time_unit(longest_ns: float) -> tuple[str, int]:
    """Return the unit in which durations up to `longest_ns` read well, and its nanoseconds."""
    return unit_of(longest_ns, _TIMES)


def three_digits(value: float) -> str:
    """Return a number with at least three significant digits, no exponent: ``0.0123``, ``7.16``,
    ``57.3``, ``1260``."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.{2 if abs(value) < 10 else 1}f}"


def short_duration(duration_ns: float) -> str:
    """Return a duration in three digits, like ``598 ms``, ``1.26 s``, ``31.5 us``."""
    unit, size = time_unit(duration_ns)
    return f"{three_digits(duration_ns / size)} {unit}" if size > 1 else f"{duration_ns:.0f} ns"


def short_size(size_bytes: float) -> str:
    """Return a size in three digits, like ``7.17 MiB``, ``512 B``."""
    unit, size = byte_unit(size_bytes)
    return f"{three_digits(size_bytes / size)} {unit}" if size > 1 else f"{size_bytes:.0f} B"


def short_rate(rate_bps: float) -> str:
    """Return a rate in three digits, like ``93.4 Mbit/s``."""
    unit, size = unit_of(rate_bps, _RATES)
    return f"{three_digits(rate_bps / size)} {unit}"
