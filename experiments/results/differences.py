"""Two results documents side by side: what was asked differently, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table

from weft.base.errors import InputError
from weft.experiments.results.comparison import compare, why_not_measured
from weft.experiments.results.results import Results
from weft.experiments.results.summary import Summary, by_point, short_duration, short_size
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.options import said, value_of

APART = ("algorithm", "seed", "seeds", "repeat")
"""Options by which runs are told apart, or that do not change what is run."""

Key = tuple[object, ...]


@dataclass(frozen=True)
class Pair:
    """The runs of one algorithm at one point, in both documents."""

    place: str
    """What tells the point from others."""
    one: Summary
    other: Summary

    @property
    def asked(self) -> list[str]:
        """Return what was asked differently: ``paths ecmp -> spray``."""
        return [
            f"{name} {said(name, before)} -> {said(name, after)}"
            for name in sorted(OPTIONS, key=lambda one: not OPTIONS[one].network)
            if name not in APART
            for before, after in [
                (value_of(name, self.one.scenario), value_of(name, self.other.scenario))
            ]
            if before != after
        ]


def pairs_of(one: Results, other: Results) -> list[Pair]:
    """Return the points and algorithms that are in both documents.

    Points are told apart by the options that either document sweeps, and by the collective.

    Raises InputError if the documents have nothing in common.
    """
    swept = list(dict.fromkeys([*one.swept, *other.swept]))
    found, wanted = _by_key(one, swept), _by_key(other, swept)
    if len(found) == len(wanted) == 1:  # whatever was changed between them
        pairs = [Pair("", *found.values(), *wanted.values())]
    else:
        pairs = [
            Pair(", ".join(each.place_among(swept)), each, wanted[key])
            for key, each in found.items()
            if key in wanted
        ]
    if not pairs:
        raise InputError(
            "the two results have no algorithm in common at the same point: compare runs of the "
            "same collective, by the same algorithm"
        )
    return pairs


def _by_key(results: Results, swept: list[str]) -> dict[Key, Summary]:
    return {
        (
            each.scenario["collective"],
            each.algorithm,
            *(repr(value_of(name, each.scenario)) for name in swept if name != "seed"),
        ): each
        for point in by_point(results)
        for each in point
    }


def difference_table(pairs: list[Pair], names: Mapping[str, str]) -> Table:
    """Return the pairs as a table; ``names`` has the headings of both documents, ``one`` and
    ``other``."""
    places = any(pair.place for pair in pairs)
    table = Table(title="Completion time and bytes on all links", title_justify="left")
    for heading in [*(["point"] if places else []), "algorithm"]:
        table.add_column(heading)
    for heading in (names["one"], names["other"], "ratio", "links", "fidelity"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        table.add_row(*([pair.place] if places else []), pair.one.algorithm, *_cells(pair))
    return table


def _cells(pair: Pair) -> list[str]:
    times = [
        "-" if each.completion_ns is None else short_duration(each.completion_ns)
        for each in (pair.one, pair.other)
    ]
    comparison = compare(pair.other, pair.one)
    ratio = "-"
    if comparison is not None and comparison.ratio:
        ratio = f"{1 / comparison.ratio:.3f}{'' if comparison.measured else ' predicted'}"
    carried = [sum(each.tiers.values()) for each in (pair.one, pair.other)]
    sizes = [short_size(size_bytes) for size_bytes in carried]
    links = sizes[0] if carried[0] == carried[1] else " -> ".join(sizes)
    verdicts = dict.fromkeys((pair.one.fidelity, pair.other.fidelity))
    return [*times, ratio, links, " -> ".join(verdicts)]


def difference_lines(pairs: list[Pair], one: Results, other: Results) -> list[str]:
    """Return what there is to say below the table."""
    asked = list(dict.fromkeys(line for pair in pairs for line in pair.asked))
    comparisons = [compare(pair.other, pair.one) for pair in pairs]
    why = why_not_measured([each for each in comparisons if each is not None])
    machines = [results.environment.get("kernel") for results in (one, other)]
    left = sum(len(point) for results in (one, other) for point in by_point(results))
    left -= 2 * len(pairs)
    return [
        *([f"Asked differently: {'; '.join(asked)}"] if asked else []),
        *([f"Predicted times are compared, since {why}"] if why else []),
        *(["The two ran on machines with different kernels"] if len({*machines}) > 1 else []),
        *([f"{left} points or algorithms are in one of them only"] if left else []),
    ]
