"""Tables of the documentation: a note in a page says of which figures, and the table is made.

In a page a table stands between two notes that a reader of the page does not see::

    <!-- figures paths-allreduce: completion-ms; rows algorithm; columns paths -->
    | algorithm | ecmp | ... |
    <!-- end of figures -->

If runs failed, the cell says how many; its figures are those of the others. If the figures are
times of emulated runs and some of these have a fidelity other than ``ok``, the cell says how many
are ``ok``.

After the metric come what the rows and the columns are (``algorithm``, ``ranks``, ``world``, or an
option that the scenario file sweeps), then the values that all its figures share. Several values of
an option that has rows or columns choose these: ``placement in-order / random``. Several metrics
stand beside each other in a cell: ``completion-ms imbalance``. If rows or columns are ``metric``,
each metric has its own. With ``over ring`` figures are divided by those of ``ring`` at the same
point and seed, with ``under ring`` the other way round, which makes speed-ups of times. No quotient
is taken if either of the two runs is not ``ok``, since times of such runs are not compared.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from msgspec.structs import replace

from weft.base.errors import InputError, refuse
from weft.base.units import runs_of, shown
from weft.experiments.results.spread import Spread
from weft.experiments.scenario.options import OPTIONS, field_of
from weft.experiments.scenario.scenario import Scenario
from weft.tools.figures.kept import (
    AlgorithmRow,
    Kept,
    check_metric,
    check_option,
    kept_metrics,
)
from weft.tools.figures.measure import LONG_S
from weft.topo.worlds.registry import PREDICTING, has_real_time

METRIC = "metric"
"""Stands for the metrics as rows or columns, of which each then has its own."""
END = "<!-- end of figures -->"
_MEAN = ": mean (least to greatest)"


def blocks(kind: str) -> re.Pattern[str]:
    """Return a pattern that finds a page's notes of one kind, each with what stands below it and
    its end."""
    return re.compile(
        rf"^<!-- {kind} (?P<spec>[^\n]*?) -->\n(?P<made>.*?)^{re.escape(END)}$",
        re.MULTILINE | re.DOTALL,
    )


_TABLES = blocks("figures")
_DEFAULTS = {each.name: each.default for each in fields(Scenario)}
T = TypeVar("T")
_NEEDED = {"rows": "OPTION", "columns": "OPTION"}


def parse_note(place: str, text: str, needed: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """Read ``NAME: METRIC; KEY VALUE; ...``; return the name, the metric and the values by key.

    Args:
        needed: the keys that must be there, each with what is written behind it.

    Raises:
        InputError: the text is not written so.
    """
    name, colon, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(";")]
    keys = "; ".join(f"{key} {value}" for key, value in needed.items())
    refuse(
        not colon or len(parts) < 3 or not name.strip(),
        f"{place}: write NAME: METRIC; {keys}; ...",
    )
    told: dict[str, str] = {}
    for part in parts[1:]:
        key, _, value = part.partition(" ")
        if not value.strip() or key in told:
            raise InputError(f"{place}: {shown(part)} is no option with a value, told once")
        told[key] = value.strip()
    if not needed.keys() <= told.keys():
        raise InputError(f"{place}: it does not say what {' and '.join(needed)} are")
    return name.strip(), parts[0], told


def values_of(told: dict[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return options, each with its values, which slashes separate in the text."""
    return tuple(
        (key, tuple(each.strip() for each in value.split(" / "))) for key, value in told.items()
    )


@dataclass(frozen=True)
class TableSpec:
    """What a table shows."""

    name: str
    """The name of the kept figures."""
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    columns: str
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    """Options, each with the values that figures may have."""
    over: str = ""
    under: str = ""
    """The algorithm that is divided by the figures (``under``), or that these are divided by
    (``over``)."""

    @staticmethod
    def parse(text: str) -> "TableSpec":
        """Read a note's text. Raises `InputError`, which shows the text."""
        place = f"figures {shown(text)}"
        name, metric, told = parse_note(place, text, _NEEDED)
        rows, columns = tuple(told.pop("rows").split()), told.pop("columns")
        over, under = told.pop("over", ""), told.pop("under", "")
        refuse(over and under, f"{place}: figures are over another, or under it, but not both")
        metrics = tuple(check_metric(each, place) for each in metric.split())
        for option in (*rows, columns, *told):
            if option != METRIC:
                check_option(option, place)
        return TableSpec(name, metrics, rows, columns, values_of(told), over, under)

    @property
    def axes(self) -> tuple[str, ...]:
        """Return what the rows and the columns tell apart."""
        return (*self.rows, self.columns)


def rendered(text: str, kept_of: Callable[[str], Kept]) -> str:
    """Return a page in which all tables are made anew.

    Args:
        kept_of: returns the figures of a name.

    Raises:
        InputError: a note makes no sense, or asks for figures that are not kept.
    """

    def made(block: re.Match[str]) -> str:
        spec = TableSpec.parse(block["spec"])
        return f"<!-- figures {block['spec']} -->\n{table(spec, kept_of(spec.name))}{END}"

    return _TABLES.sub(made, text)


def table(spec: TableSpec, kept: Kept) -> str:
    """Return a table as Markdown, with a line beneath that says where its figures are from. Raises
    `InputError`."""
    rows = rows_with(spec.shared, kept)
    divides = bool(spec.over or spec.under)
    if divides:
        rows = divided(rows, kept, spec.over, spec.under)
    if not rows:
        raise InputError(f"figures of {kept.name}: none has {spec.shared}")
    metrics = spec.metrics if METRIC in spec.axes else spec.metrics[:1]
    held = list(itertools.product(rows, metrics))
    heads = list(dict.fromkeys(_value(*each, spec.columns) for each in held))
    if all(head.isdecimal() for head in heads):
        heads.sort(key=int)
    names = list(dict.fromkeys(tuple(_value(*each, axis) for axis in spec.rows) for each in held))
    shown_heads = [_written(spec.columns, head) for head in heads]
    lines = [
        f"| {' | '.join((*(each.replace('-', ' ') for each in spec.rows), *shown_heads))} |",
        f"|{'---|' * (len(spec.rows) + len(heads))}",
    ]
    for name in names:
        named = dict(zip(spec.rows, name, strict=True))
        cells = [_cell(spec, rows, {**named, spec.columns: head}) for head in heads]
        lines.append(f"| {' | '.join((*map(_written, spec.rows, name), *cells))} |")

    def has_range(row: AlgorithmRow) -> bool:
        return any(" to " in _figure(row, metric, divides=divides) for metric in spec.metrics)

    below = caption(kept, rows, spec.metrics, has_range, divides=divides)
    return "\n".join(lines) + f"\n\n{below}\n"


def rows_with(shared: Sequence[tuple[str, tuple[str, ...]]], kept: Kept) -> list[AlgorithmRow]:
    """Return the rows that have one of the given values of each option."""
    return [
        row
        for row in kept.rows
        if all(any(row.is_like({name: value}) for value in values) for name, values in shared)
    ]


def divided(rows: Sequence[AlgorithmRow], kept: Kept, over: str, under: str) -> list[AlgorithmRow]:
    """Return rows whose figures are divided, seed by seed, by those of an algorithm at the same
    point (``over``), or the other way round (``under``). The algorithm's own rows are left out, and
    there is no figure where either run is not ``ok``.

    Raises `InputError` if the algorithm was not run there.
    """
    other = over or under
    return [_divided(row, other, kept, bool(over)) for row in rows if row.algorithm != other]


def _divided(row: AlgorithmRow, other: str, kept: Kept, is_over: bool) -> AlgorithmRow:
    found = [each for each in kept.rows if (each.algorithm, each.options) == (other, row.options)]
    if not found:
        raise InputError(f"figures of {kept.name}: no {other!r} at {row.options}")
    its = found[0]

    def quotient(mine: float | None, its: float | None) -> float | None:
        above, below = (mine, its) if is_over else (its, mine)
        return above / below if above is not None and below else None

    # Where all seeds come to the same figures, fewer of them were run.
    values = {
        metric: list(map(quotient, *_as_many(_of_ok(row, metric), _of_ok(its, metric))))
        for metric in row.values
    }
    seeds = max(row.seeds, its.seeds, key=len)[: max(map(len, values.values()), default=0)]
    return replace(
        row,
        seeds=seeds,
        values=values,
        verdicts=list(map(_of_both, *_as_many(row.verdicts, its.verdicts))),
    )


def _of_ok(row: AlgorithmRow, metric: str) -> list[float | None]:
    """Return the figures of the runs that may be compared, and None for each of the others."""
    pairs = zip(row.values[metric], row.verdicts, strict=True)
    return [value if verdict == "ok" else None for value, verdict in pairs]


def _of_both(one: str, other: str) -> str:
    """Return the verdict of a quotient."""
    return "failed" if "failed" in (one, other) else other if one == "ok" else one


def _as_many(ones: list[T], others: list[T]) -> tuple[list[T], list[T]]:
    count = max(len(ones), len(others))
    if any(len(each) < count and len(set(each)) > 1 for each in (ones, others)):
        count = min(len(ones), len(others))
    return ones[:count] + ones[-1:] * (count - len(ones)), (
        others[:count] + others[-1:] * (count - len(others))
    )


def _value(row: AlgorithmRow, metric: str, name: str) -> str:
    return metric.replace("-", " ").replace("mib", "MiB") if name == METRIC else row.value(name)


def _written(option: str, value: str) -> str:
    """Return an option's value as a reader has it: nothing, where that is the default, says
    little."""
    unset = value == "none" and option in OPTIONS and _DEFAULTS[field_of(option)] is None
    return "by default" if unset else value


def _cell(spec: TableSpec, rows: Sequence[AlgorithmRow], wanted: dict[str, str]) -> str:
    divides = bool(spec.over or spec.under)
    said = wanted.pop(METRIC, "")
    matching = [row for row in rows if row.is_like(wanted)]
    refuse(
        len(matching) > 1,
        f"figures of {spec.name}: several rows have {wanted}: share an option more",
    )
    if not matching:
        return ""
    (row,) = matching
    runs, ok, failed = len(row.verdicts), row.verdicts.count("ok"), row.verdicts.count("failed")
    if divides and not ok and failed < runs:
        return "not ok"
    metrics = [each for each in spec.metrics if said in ("", _value(row, each, METRIC))]
    told = [_figure(row, each, divides=divides) for each in metrics if failed < runs]
    timed = any(kept_metrics()[each][0].is_of_the_machine for each in metrics)
    if ok + failed < runs and (divides or timed):
        told.append(f"{ok} of {runs} ok")
    if failed:
        told.append(f"{failed} of {runs} failed")
    return ", ".join(told)


def _figure(row: AlgorithmRow, metric: str, *, divides: bool) -> str:
    refuse(
        metric not in row.values,
        f"figures of {row.algorithm}: no {metric} is kept: measure them anew",
    )
    spread = Spread.of(row.values[metric])
    if spread is None:
        return "none"
    is_count = kept_metrics()[metric][0].is_count
    shown = "{:,.0f}".format if is_count and not divides else number
    mean, least, greatest = map(shown, (spread.mean, spread.least, spread.greatest))
    return mean if least == greatest else f"{mean} ({least} to {greatest})"


def number(value: float) -> str:
    """Return a figure as text with three digits. A figure of a thousand or more has all its digits
    before the point; one from a tenth to one has two decimal places, and a smaller one is written
    like ``2.63e-8``."""
    if 0 < abs(value) < 0.1:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(power)}"
    if value and abs(value) < 1000:
        digits = max(0, 3 - len(str(int(abs(value)))))
        return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def caption(
    kept: Kept,
    rows: Sequence[AlgorithmRow],
    metrics: Sequence[str],
    has_range: Callable[[AlgorithmRow], bool],
    *,
    divides: bool,
) -> str:
    """Return where rows are from: the file, seeds, and the commit.

    Args:
        metrics: the figures that are shown.
        has_range: whether the figures of a row are shown with their least and greatest.
        divides: whether they are quotients.
    """
    emulated = [row for row in rows if has_real_time(row.options.get("world", PREDICTING))]
    simulated = [row for row in rows if row not in emulated]
    told = [_seeds_of(simulated, metrics, any(map(has_range, simulated)))] if simulated else []
    if emulated:
        counts = sorted({len(row.seeds) for row in emulated})
        runs = f"emulated {_ranges(counts)} runs each" if told else f"{_ranges(counts)} runs"
        if any(map(has_range, emulated)) and not any(_MEAN in each for each in told):
            runs += _MEAN
        told += [runs, f"{kept.processors} processors", *_doubts_of(emulated, divides)]
    sources = " and ".join(dict.fromkeys(row.source for row in rows))
    return f"*`{kept.name}.toml`, {'; '.join(told)}; {sources}.*"


def _doubts_of(rows: Sequence[AlgorithmRow], divides: bool) -> list[str]:
    """Return, in words, how many emulated runs are not ``ok``; empty if all are."""
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    doubtful = {each: verdicts.count(each) for each in sorted(set(verdicts) - {"ok", "failed"})}
    if not doubtful:
        return []
    if divides:
        return [f"{sum(doubtful.values())} of {len(verdicts)} pairs of runs not ok, and left out"]
    (first, count), *others = doubtful.items()
    told = [
        f"{count} run{'s' if count > 1 else ''} {first}",
        *(f"{number_of} {name}" for name, number_of in others),
    ]
    return [f"{' and '.join(told)}, of {len(verdicts)}"]


def _seeds_of(rows: Sequence[AlgorithmRow], metrics: Sequence[str], has_ranges: bool) -> str:
    """Say under which seeds simulated runs were made, and why some rows have fewer."""
    seeds = sorted({seed for row in rows for seed in row.seeds})
    told = f"seeds {_ranges(seeds)}"
    verified = [row for row in rows if set(row.verdicts) != {"failed"}]
    if len(seeds) > 1 and all(is_exact(row, metrics) for row in rows):
        return f"{told}, exact: all come to the same"
    if len(seeds) > 1:
        told += _MEAN if has_ranges else ": all come to the same in the digits shown"
    fewer = [row for row in verified if len(row.seeds) < len(seeds)]
    if has_ranges and any(is_exact(row, metrics) for row in fewer):
        told += ", one figure where all come to the same"
    if any(not is_exact(row, metrics) for row in fewer):
        least = min(len(row.seeds) for row in fewer)
        told += f", {least} of them where a run takes over {LONG_S:.0f} s"
    return told


def is_exact(row: AlgorithmRow, metrics: Sequence[str]) -> bool:
    """Return whether all runs came to the same figures and none failed."""
    spreads = [Spread.of(row.values.get(metric, [])) for metric in metrics]
    return "failed" not in row.verdicts and all(
        spread is None or spread.least == spread.greatest for spread in spreads
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ``1 to 3, 7``."""
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs_of(numbers)
    )
