"""Comparison of one algorithm's time with another's: measured if both can be believed, otherwise
predicted.

Times of runs whose fidelity is not ``ok`` are the machine's, in part or in whole, and their ratio
says nothing of the network. What the simulated world predicts for the same runs takes their place,
is named so, and comes with what to lower to have it measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.base.units import format_rate
from weft.experiments.results.results import FAILED
from weft.experiments.results.summary import Summary


@dataclass(frozen=True)
class Comparison:
    """How one algorithm's time compares with another's at the same point."""

    ratio: float | None
    """How many times as fast one was, or is predicted to be, as the other; None where nothing
    predicts it."""
    doubtful: tuple[Summary, ...] = ()
    """Those of the two whose times are not to be compared."""

    @property
    def measured(self) -> bool:
        """Return whether the ratio is one of measured times rather than of predicted ones."""
        return not self.doubtful


def compare(one: Summary, other: Summary) -> Comparison | None:
    """Return how many times as fast `one` was as `other`, or None if one of them has no time."""
    if not one.completion_ns or not other.completion_ns:
        return None
    doubtful = tuple(each for each in (one, other) if each.fidelity != "ok")
    if not doubtful:
        return Comparison(other.completion_ns / one.completion_ns)
    if not one.predicted_ns or not other.predicted_ns:
        return Comparison(None, doubtful)
    return Comparison(other.predicted_ns / one.predicted_ns, doubtful)


def why_not_measured(comparisons: Sequence[Comparison]) -> str:
    """Return why measured times are not compared, and what to do: ``the fidelity of ring is
    invalid; to measure it, lower the rate (100 Mbit/s) or the number of hosts (8)``. The text is
    empty if all are compared."""
    doubtful = [each for comparison in comparisons for each in comparison.doubtful]
    if not doubtful:
        return ""
    verdicts: dict[str, dict[str, None]] = {}
    for each in doubtful:
        verdicts.setdefault(each.fidelity, {})[each.algorithm] = None
    said = [
        f"the fidelity of {' and '.join(names)} is {verdict}" if verdict != FAILED
        else f"runs of {' and '.join(names)} failed"
        for verdict, names in verdicts.items()
    ]  # fmt: skip
    text = " and ".join(said)
    if set(verdicts) == {FAILED}:
        return text
    rates = {int(each.scenario["rate_bps"]) for each in doubtful}
    hosts = {each.ranks for each in doubtful}
    return (
        f"{text}; to measure it, lower the rate "
        f"({' to '.join(map(format_rate, sorted({min(rates), max(rates)})))}) "
        f"or the number of hosts ({' to '.join(map(str, sorted({min(hosts), max(hosts)})))})"
    )
