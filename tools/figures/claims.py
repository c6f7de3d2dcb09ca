"""Claims of the documentation: a note in a page says what holds, and a table says where it does.

In a page a claim's table stands between two notes that a reader of the page does not see::

    <!-- claim NAME: completion-ms; of paths ethereal; against paths spray / spray-round-robin;
         best ecn-threshold; at-most 1.03; rows size algorithm -->
    | size | algorithm | ethereal | best rival | ratio | holds |
    <!-- end of figures -->

(in one line). ``of`` and ``against`` name an option, or ``algorithm``, and whose figures they are.
A row of the table is a case: values of what ``rows`` names. In each case the one that the claim is
of and each of its rivals is taken at its best: at those values of the options that ``best`` names,
among all that are kept, under which the fewest runs failed and then its mean is least. The best
rival is the one with the least mean. The claim holds in a case if no run of the one that it is of
failed, and the quotient of the two means is at most (``at-most``) or at least (``at-least``) what
the note says. With ``at-least``, ``of`` is what is slower: a claim of a speed-up; it is the best
rival then of which no run may have failed. Further keys choose among the figures, as they do for
tables.
"""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.results.spread import Spread
from weft.tools.figures.kept import AlgorithmRow, Kept, check_metric, check_option
from weft.tools.figures.tables import (
    END,
    blocks,
    caption,
    number,
    parse_note,
    rows_with,
    values_of,
)

_CLAIMS = blocks("claim")
_NEEDED = {"of": "OPTION VALUE", "against": "OPTION VALUE / VALUE", "rows": "OPTION"}


@dataclass(frozen=True)
class Claim:
    """What a page says of some figures and their rivals."""

    name: str
    """The name of the kept figures."""
    metric: str
    of: tuple[str, str]
    """An option and its value."""
    against: tuple[str, tuple[str, ...]]
    """An option and the values that rivals have."""
    rows: tuple[str, ...]
    best: tuple[str, ...]
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    least: float = 0.0
    most: float = math.inf

    @staticmethod
    def parse(text: str) -> "Claim":
        """Read a note's text. Raises `InputError`, which shows the text."""
        place = f"claim {shown(text)}"
        name, metric, told = parse_note(place, text, _NEEDED)
        mine, rivals = (_chosen(told.pop(key), f"{place}: {key}") for key in ("of", "against"))
        rows, best = tuple(told.pop("rows").split()), tuple(told.pop("best", "").split())
        limits = {key: told.pop(key) for key in ("at-least", "at-most") if key in told}
        refuse(len(limits) != 1, f"{place}: say either at-most or at-least, and a quotient")
        ((which, limit),) = limits.items()
        try:
            value = float(limit)
        except ValueError:
            raise InputError(f"{place}: {which} {shown(limit)} is no number, like 1.05") from None
        if len(mine[1]) != 1:
            raise InputError(f"{place}: of {shown(' / '.join(mine[1]))}: name one value")
        for option in (mine[0], rivals[0], *rows, *best, *told):
            check_option(option, place)
        within = {"least" if which == "at-least" else "most": value}
        return Claim(
            name, check_metric(metric, place), (mine[0], mine[1][0]), rivals, rows, best,
            values_of(told), **within,
        )  # fmt: skip

    @property
    def is_of_the_faster(self) -> bool:
        """Return whether it is the one that the claim is of that is said to be faster."""
        return not math.isinf(self.most)

    @property
    def limit(self) -> str:
        """Return the quotients under which the claim holds, in words."""
        return f"at most {self.most:g}" if self.is_of_the_faster else f"at least {self.least:g}"


def _chosen(text: str, place: str) -> tuple[str, tuple[str, ...]]:
    option, _, values = text.partition(" ")
    if not values.strip():
        raise InputError(f"{place} {shown(text)}: write an option and its value")
    return values_of({option: values})[0]


def claims_in(text: str) -> list[Claim]:
    """Return the claims of a page. Raises `InputError`."""
    return [Claim.parse(block["spec"]) for block in _CLAIMS.finditer(text)]


def with_claims(text: str, kept_of: Callable[[str], Kept]) -> str:
    """Return a page in which the tables of all claims are made anew.

    Args:
        kept_of: returns the figures of a name.

    Raises:
        InputError: a note makes no sense, or asks for figures that are not kept.
    """

    def made(block: re.Match[str]) -> str:
        claim = Claim.parse(block["spec"])
        return f"<!-- claim {block['spec']} -->\n{table(claim, kept_of(claim.name))}{END}"

    return _CLAIMS.sub(made, text)


@dataclass(frozen=True)
class Case:
    """A case of a claim: the one that it is of and the best rival, each at its best."""

    values: tuple[str, ...]
    mine: AlgorithmRow
    rival: AlgorithmRow
    ratio: float | None
    """Mean over mean; None if all runs of either failed."""
    holds: bool


def cases_of(claim: Claim, kept: Kept) -> list[Case]:
    """Return the cases of a claim for which there are figures. Raises `InputError`."""
    rows = rows_with(claim.shared, kept)
    option, wanted = claim.against
    found = []
    for values in dict.fromkeys(tuple(row.value(each) for each in claim.rows) for row in rows):
        here = [row for row in rows if tuple(row.value(each) for each in claim.rows) == values]
        mine = [row for row in here if row.is_like(dict([claim.of]))]
        rivals = [
            [row for row in here if row.is_like({option: value}) and row not in mine]
            for value in wanted
        ]
        rivals = [each for each in rivals if each]
        if mine and rivals:
            ours = _best(claim, mine)
            its = min((_best(claim, each) for each in rivals), key=lambda row: _rank(claim, row))
            found.append(_case(claim, values, ours, its))
    if not found:
        raise InputError(
            f"claim of {claim.name}: no kept figures have {' '.join(claim.of)} and "
            f"{option} {' / '.join(wanted)} side by side"
        )
    return found


def _best(claim: Claim, rows: Sequence[AlgorithmRow]) -> AlgorithmRow:
    told = {(row.algorithm, *sorted(row.options.items())) for row in rows}
    differ = {
        name
        for one, other in itertools.combinations(rows, 2)
        for name in one.options
        if one.options[name] != other.options.get(name)
    }
    left = sorted(differ - set(claim.best) - {"ranks"})
    if left or len({name for name, *_ in told}) > 1:
        raise InputError(
            f"claim of {claim.name}: several rows of a case differ in "
            f"{', '.join(left) or 'algorithm'}: name it behind rows or best, or choose a value"
        )
    return min(rows, key=lambda row: _rank(claim, row))


def _rank(claim: Claim, row: AlgorithmRow) -> tuple[float, float]:
    spread = Spread.of(row.values.get(claim.metric, []))
    failed = row.verdicts.count("failed") / max(1, len(row.verdicts))
    return failed, math.inf if spread is None else spread.mean


def _case(claim: Claim, values: tuple[str, ...], mine: AlgorithmRow, rival: AlgorithmRow) -> Case:
    (failed, time), (its_failed, its) = _rank(claim, mine), _rank(claim, rival)
    ratio = time / its if math.isfinite(time) and math.isfinite(its) and its else None
    faster_failed, slower = (failed, its) if claim.is_of_the_faster else (its_failed, time)
    # Who is claimed to be slower, and fails in all runs, is beaten.
    holds = not faster_failed and (
        math.isinf(slower) if ratio is None else claim.least <= round(ratio, 4) <= claim.most
    )
    return Case(values, mine, rival, ratio, holds)


def table(claim: Claim, kept: Kept) -> str:
    """Return a claim's table as Markdown, with a line that counts the cases in which it holds.
    Raises `InputError`."""
    cases = cases_of(claim, kept)
    heads = (*(each.replace("-", " ") for each in claim.rows), claim.of[1], "best rival", "ratio")
    lines = [f"| {' | '.join(heads)} | holds |", f"|{'---|' * (len(heads) + 1)}"]
    for case in cases:
        name = case.rival.value(claim.against[0])
        cells = (
            *case.values,
            _cell(claim, case.mine),
            f"{name}: {_cell(claim, case.rival)}",
            "" if case.ratio is None else f"{case.ratio:.3f}",
            "yes" if case.holds else "**no**",
        )
        lines.append(f"| {' | '.join(cells)} |")
    holding = sum(case.holds for case in cases)
    rows = [row for case in cases for row in (case.mine, case.rival)]

    def has_range(row: AlgorithmRow) -> bool:
        return " to " in _cell(claim, row)

    below = caption(kept, rows, (claim.metric,), has_range, divides=False)
    told = f"*The quotient is {claim.limit} in {holding} of {len(cases)} cases.* {below}"
    return "\n".join(lines) + f"\n\n{told}\n"


def _cell(claim: Claim, row: AlgorithmRow) -> str:
    """Return a figure with its range, and the setting under which it is the best."""
    spread = Spread.of(row.values.get(claim.metric, []))
    failed, runs = row.verdicts.count("failed"), len(row.verdicts)
    told = []
    if spread is not None:
        mean, least, greatest = map(number, (spread.mean, spread.least, spread.greatest))
        told.append(mean if least == greatest else f"{mean} ({least} to {greatest})")
    if failed:
        told.append(f"{failed} of {runs} failed")
    setting = ", ".join(f"{name} {row.value(name)}" for name in claim.best if name in row.options)
    return ", ".join(told) + (f" at {setting}" if setting else "")
