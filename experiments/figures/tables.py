"""Tables of the documentation: a note in a page says of which figures, and the table is made.

In a page a table stands between two notes that a reader of the page does not see::

    <!-- figures paths-allreduce: completion-ms; rows algorithm; columns paths -->
    | algorithm | ecmp | ... |
    <!-- end of figures -->

After the metric come what the rows and the columns are (``algorithm``, ``ranks``, ``world``, or an
option that the scenario file sweeps), then the values that all its figures share. Several metrics,
or values of a shared option, stand beside each other in a cell: ``completion-ms imbalance``,
``placement in-order / random``. With ``over ring`` figures are divided by those of ``ring`` at the
same point and seed, with ``under ring`` the other way round, which makes speed-ups of times.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.figures.kept import COUNTS, Kept, Row, check_metric
from experiments.spread import Spread
from experiments.units import shown
from switch.errors import InputError

END = "<!-- end of figures -->"
_BLOCK = re.compile(
    r"^<!-- figures (?P<spec>[^\n]*?) -->\n(?P<table>.*?)^" + re.escape(END) + r"$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class TableSpec:
    """What a table is of."""

    name: str
    """Of the kept figures."""
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    columns: str
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    """Options with the values that figures have; several stand beside each other in a cell."""
    over: str = ""
    under: str = ""
    """The algorithm that figures are divided by, or that is divided by them."""

    @staticmethod
    def parse(text: str) -> TableSpec:
        """Read a note's text. Raises `InputError` that shows it."""
        place = f"figures {shown(text)}"
        name, colon, rest = text.partition(":")
        parts = [part.strip() for part in rest.split(";")]
        if not colon or len(parts) < 3 or not parts[0]:
            raise InputError(f"{place}: write NAME: METRIC; rows OPTION; columns OPTION; ...")
        told: dict[str, str] = {}
        for part in parts[1:]:
            key, _, value = part.partition(" ")
            if not value.strip() or key in told:
                raise InputError(f"{place}: {shown(part)} is no option with a value, told once")
            told[key] = value.strip()
        if "rows" not in told or "columns" not in told:
            raise InputError(f"{place}: it does not say what rows and columns are")
        rows, columns = tuple(told.pop("rows").split()), told.pop("columns")
        over, under = told.pop("over", ""), told.pop("under", "")
        if over and under:
            raise InputError(f"{place}: figures are over another, or under it, but not both")
        metrics = tuple(check_metric(each, place) for each in parts[0].split())
        shared = tuple(
            (key, tuple(each.strip() for each in value.split("/"))) for key, value in told.items()
        )
        return TableSpec(name.strip(), metrics, rows, columns, shared, over, under)

    @property
    def places(self) -> list[dict[str, str]]:
        """What the figures have in common that stand at the same place of every cell."""
        names = [name for name, _ in self.shared]
        chosen = itertools.product(*(values for _, values in self.shared))
        return [dict(zip(names, values, strict=True)) for values in chosen]


def rendered(text: str, kept_of: Callable[[str], Kept]) -> str:
    """A page with all its tables made anew.

    Args:
        kept_of: the figures of that name.

    Raises:
        InputError: a note makes no sense, or asks for figures that are not kept.
    """

    def made(block: re.Match[str]) -> str:
        spec = TableSpec.parse(block["spec"])
        return f"<!-- figures {block['spec']} -->\n{table(spec, kept_of(spec.name))}{END}"

    return _BLOCK.sub(made, text)


def table(spec: TableSpec, kept: Kept) -> str:
    """A table as Markdown, with what it is of beneath. Raises `InputError`."""
    rows = [row for row in kept.rows if any(row.is_like(place) for place in spec.places)]
    if other := spec.over or spec.under:
        rows = [_divided(row, other, kept, spec) for row in rows if row.algorithm != other]
    if not rows:
        raise InputError(f"figures of {kept.name}: none has {spec.shared}")
    heads = list(dict.fromkeys(_value(row, spec.columns) for row in rows))
    if all(head.isdecimal() for head in heads):
        heads.sort(key=int)
    names = list(dict.fromkeys(tuple(_value(row, each) for each in spec.rows) for row in rows))
    lines = [
        f"| {' | '.join((*(each.replace('-', ' ') for each in spec.rows), *heads))} |",
        f"|{'---|' * (len(spec.rows) + len(heads))}",
    ]
    for name in names:
        cells = []
        for head in heads:
            wanted = {**dict(zip(spec.rows, name, strict=True)), spec.columns: head}
            cells.append(_cell(spec, rows, wanted))
        lines.append(f"| {' | '.join((*name, *cells))} |")
    return "\n".join(lines) + f"\n\n{_caption(kept, rows)}\n"


def _divided(row: Row, other: str, kept: Kept, spec: TableSpec) -> Row:
    """A row with its figures over those of another algorithm at the same point, seed by seed."""
    found = [each for each in kept.rows if (each.algorithm, each.options) == (other, row.options)]
    if not found:
        raise InputError(f"figures of {kept.name}: no {other!r} at {row.options}")

    def quotient(mine: float | None, its: float | None) -> float | None:
        above, below = (mine, its) if spec.over else (its, mine)
        return above / below if above is not None and below else None

    # Where all seeds come to the same figures, fewer of them were run.
    values = {
        metric: list(map(quotient, *_as_many(mine, found[0].values[metric])))
        for metric, mine in row.values.items()
    }
    return replace(row, values=values)


def _as_many(
    ones: list[float | None], others: list[float | None]
) -> tuple[list[float | None], list[float | None]]:
    count = max(len(ones), len(others))
    if any(len(each) < count and len(set(each)) > 1 for each in (ones, others)):
        count = min(len(ones), len(others))
    return ones[:count] + ones[-1:] * (count - len(ones)), (
        others[:count] + others[-1:] * (count - len(others))
    )


def _value(row: Row, name: str) -> str:
    return row.algorithm if name == "algorithm" else row.options.get(name, "")


def _cell(spec: TableSpec, rows: Sequence[Row], wanted: dict[str, str]) -> str:
    found = []
    divided = bool(spec.over or spec.under)
    for place in spec.places:
        matching = [row for row in rows if row.is_like({**wanted, **place})]
        if len(matching) > 1:
            raise InputError(
                f"figures of {spec.name}: several rows have {wanted | place}: share an option more"
            )
        for row in matching:
            figures = [_figure(row, metric, divided=divided) for metric in spec.metrics]
            found.append(", ".join(figures))
    return " / ".join(found)


def _figure(row: Row, metric: str, *, divided: bool) -> str:
    failed = row.verdicts.count("failed")
    if failed:
        return f"{failed} of {len(row.verdicts)} failed"
    spread = Spread.of(row.values[metric])
    if spread is None:
        return "none"
    shown = "{:,.0f}".format if metric in COUNTS and not divided else number
    mean, least, greatest = map(shown, (spread.mean, spread.least, spread.greatest))
    return mean if least == greatest else f"{mean} ({least} to {greatest})"


def number(value: float) -> str:
    """A figure with three digits, but with all of them from a thousand on."""
    if value and abs(value) < 1000:
        digits = max(0, 3 - len(str(int(abs(value)))))
        return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def _caption(kept: Kept, rows: Sequence[Row]) -> str:
    emulated = any(row.options.get("world") == "emulated" for row in rows)
    exact = all(
        (spread := Spread.of(values)) is None or spread.least == spread.greatest
        for row in rows
        for values in row.values.values()
    )
    seeds = sorted({seed for row in rows for seed in row.seeds})
    counts = {len(row.seeds) for row in rows}
    told = f"seeds {_ranges(seeds)}"
    if exact and len(seeds) > 1:
        told += ", exact: all come to the same"
    elif len(seeds) > 1:
        told += ": mean (least to greatest)"
        told += ", one figure where all come to the same" if min(counts) < max(counts) else ""
    elif max(counts) > 1:
        told = f"{max(counts)} runs: mean (least to greatest)"
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    doubtful = {each: verdicts.count(each) for each in sorted(set(verdicts) - {"ok", "failed"})}
    if emulated:
        told += f"; {kept.processors} processors"
    sources = " and ".join(dict.fromkeys(row.source for row in rows))
    told += "".join(f"; fidelity {name} of {count} runs" for name, count in doubtful.items())
    return f"*`{kept.name}.toml`, {told}; {sources}.*"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``1 to 3, 7``."""
    groups: list[list[int]] = []
    for each in numbers:
        if groups and each == groups[-1][-1] + 1:
            groups[-1].append(each)
        else:
            groups.append([each])
    return ", ".join(
        f"{group[0]} to {group[-1]}" if len(group) > 1 else f"{group[0]}" for group in groups
    )


def pages_in(folder: Path) -> list[Path]:
    """The pages that have tables of figures."""
    return [page for page in sorted(folder.glob("*.md")) if _BLOCK.search(page.read_text("utf-8"))]
