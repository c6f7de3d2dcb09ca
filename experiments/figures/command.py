"""``weft docs``: measure the figures of pages, make tables and plots, hold all to each other."""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from weft.base import files
from weft.base.cache import CHECKOUT
from weft.base.errors import InputError, RunError, refuse
from weft.base.progress import Progress
from weft.experiments.figures.kept import METRICS, AlgorithmRow, Kept, options_of
from weft.experiments.figures.measure import SEEDS, WORLDS, measure, scenario_file
from weft.experiments.figures.plots import PlotNote, is_fresh, notes_in, svg_of, with_plots
from weft.experiments.figures.reference import with_options
from weft.experiments.figures.tables import rendered
from weft.experiments.results.spread import Spread
from weft.experiments.scenario.sweep import read_file

DOCS = CHECKOUT / "docs"
QUICK_S = 60.0
"""Processor time under one seed: figures that take so long in all are made anew by a check, the
quickest first."""
_SLACK = 1e-9
"""The difference between figures that are equal but for how they were written."""


def figures_folder() -> Path:
    """Return where figures are kept. Raises `InputError` where there is no checkout."""
    refuse(
        not DOCS.is_dir(), f"there is no {DOCS}: the pages of the documentation are in a checkout"
    )
    return DOCS / "figures"


def reader() -> Callable[[str], Kept]:
    """Return a function that reads kept figures by name, each file once."""

    @functools.cache
    def read(name: str) -> Kept:
        path = figures_folder() / f"{name}.json"
        refuse(
            not path.is_file(),
            f"no figures of {name!r} are kept: 'weft docs --measure {name}' measures them",
        )
        return Kept.read(path)

    return read


def make_pages() -> list[Path]:
    """Make all tables and plots anew; the files that changed. Raises `InputError`."""
    read = reader()
    changed = []
    for page, _, made, plots in _pages(read):
        drawn = {file: svg_of(note, read(note.name)) for file, note in plots}
        for path, content in {page: made.encode(), **drawn}.items():
            try:
                if not path.is_file() or path.read_bytes() != content:
                    files.make_folder(path.parent)
                    files.write_whole(path, content)
                    changed.append(path)
            except OSError as error:
                raise InputError(
                    f"{str(path)!r} cannot be made anew: {error.strerror}; the pages and their "
                    "plots have to be writable"
                ) from None
    return changed


def stale_pages() -> list[Path]:
    """Return the pages and plots that are not what the kept figures make of them. Raises
    `InputError`."""
    read = reader()
    stale = []
    for page, text, made, plots in _pages(read):
        stale += [page] if made != text else []
        stale += [file for file, note in plots if not is_fresh(file, note, read(note.name))]
    return stale


def _pages(
    read: Callable[[str], Kept],
) -> Iterator[tuple[Path, str, str, list[tuple[Path, PlotNote]]]]:
    """Yield every page: its file, what stands there, what should, and its plots with their
    files."""
    for page in sorted(DOCS.glob("*.md")):
        text = _text_of(page)
        try:
            made = with_options(with_plots(rendered(text, read), read))
            notes = notes_in(text)
        except InputError as error:
            raise InputError(f"{page.name}: {error}") from None
        yield page, text, made, [(page.parent / note.file, note) for note in notes]


def _text_of(page: Path) -> str:
    try:
        return page.read_text("utf-8")
    except OSError as error:
        raise InputError(f"the page {str(page)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"the page {str(page)!r} is no UTF-8: byte {error.start} is "
            f"{page.read_bytes()[error.start]:#04x}; pages are text in UTF-8"
        ) from None


def keep(names: Sequence[str], progress: Progress, worlds: Collection[str] = WORLDS) -> list[Path]:
    """Measure figures in some worlds and keep them, with what is kept of others; the files.

    Of other worlds the points stay that the scenario file still has.

    Raises `InputError`, `RunError`.
    """
    for name in names:
        scenario_file(name)
    written = []
    for name in names:
        with progress.stage(name, f"Measure {name}") as advance:
            kept = measure(name, SEEDS, advance, worlds)
        failed = [verdict for row in kept.rows for verdict in row.verdicts].count("failed")
        before = figures_folder() / f"{name}.json"
        if before.is_file():
            kept = with_others(kept, Kept.read(before), worlds)
        with files.told_as_input(f"figures of {name} cannot be kept"):
            files.make_folder(figures_folder())
            written.append(kept.write(figures_folder()))
        if failed:
            progress.say(f"{name}: {failed} runs failed, and the table says so")
    return written


def with_others(kept: Kept, before: Kept, worlds: Collection[str]) -> Kept:
    """Return figures just measured in some worlds, with those from before of the other worlds'
    points that the scenario file still has.

    Raises `InputError`.
    """
    experiment = read_file(scenario_file(kept.name))
    there = [
        (algorithm, options_of(point.scenario.to_dict(), experiment.swept, ""))
        for point in experiment.points
        for algorithm in point.scenario.algorithms
    ]
    others = [
        row
        for row in before.rows
        if row.options["world"] not in worlds
        and (row.algorithm, {**row.options, "ranks": ""}) in there
    ]
    return replace(
        kept,
        rows=[*others, *kept.rows],
        processors=kept.processors if "emulated" in worlds else before.processors,
    )


def quick_names() -> list[str]:
    """Return the kept figures whose simulated runs take the least time, as many as are quick
    together."""
    kept = (_simulated(Kept.read(path)) for path in figures_folder().glob("*.json"))
    costs_s = {
        each.name: sum(row.cost_s / len(row.seeds) for row in each.rows)
        for each in kept
        if each.rows
    }
    cheapest = sorted(costs_s, key=lambda name: (costs_s[name], name))
    in_all_s = itertools.accumulate(costs_s[name] for name in cheapest)
    return [name for name, sum_s in zip(cheapest, in_all_s, strict=True) if sum_s <= QUICK_S]


def moved(names: Sequence[str], progress: Progress) -> list[str]:
    """Make simulated figures anew under the first seed that was kept; what has left its range, in
    words.

    Raises `InputError`, `RunError`.
    """
    read = reader()
    found = []
    for name in names:
        kept = _simulated(read(name))
        refuse(
            not kept.rows,
            f"docs --check {name}: its figures are emulated ones alone, and these are not made "
            f"anew: 'weft docs --measure {name}' measures them",
        )
        seeds = [min(seed for row in kept.rows for seed in row.seeds)]
        with progress.stage(name, f"Measure {name} anew") as advance:
            fresh = measure(name, seeds, advance, ["simulated"])
        found += compared(kept, fresh)
    return found


def _simulated(kept: Kept) -> Kept:
    return replace(kept, rows=[row for row in kept.rows if row.options["world"] == "simulated"])


def compared(kept: Kept, fresh: Kept) -> list[str]:
    """Return, in words, which fresh figures are beyond the range of the kept ones, and which runs
    failed, or no longer fail, where the kept run of the same seed did otherwise."""
    found = []
    for row in kept.rows:
        place = f"{kept.name}: {_named(row)}"
        like = [each for each in fresh.rows if _named(each) == _named(row)]
        if len(like) != 1:
            found.append(f"{place} is no longer run")
            continue
        (now,) = like
        found += [f"{place}: {change}" for change in _failures(row, now)]
        found += [
            f"{place}: {change}"
            for metric in METRICS
            if metric in row.values
            for change in _changes(row, now, metric)
        ]
    missing = {_named(row) for row in fresh.rows} - {_named(row) for row in kept.rows}
    return found + [f"{kept.name}: {name} is run and not kept" for name in sorted(missing)]


def _failures(row: AlgorithmRow, now: AlgorithmRow) -> list[str]:
    """Say which runs fail now and did not, or no longer do, of the seeds that both have."""
    changes = {True: "fails; it did not", False: "no longer fails"}
    return [
        f"the run under seed {seed} {changes[_fails(now, seed)]}"
        for seed in sorted(set(row.seeds) & set(now.seeds))
        if _fails(row, seed) != _fails(now, seed)
    ]


def _fails(row: AlgorithmRow, seed: int) -> bool:
    return (seed, "failed") in zip(row.seeds, row.verdicts, strict=True)


def _changes(row: AlgorithmRow, now: AlgorithmRow, metric: str) -> list[str]:
    """Return what has changed of a metric in the fresh runs that did not fail, in words."""
    values = row.values[metric]
    spread = Spread.of(values)
    if spread is None:
        return []
    pairs = zip(values, row.verdicts, strict=True)
    always = all(value is not None or verdict == "failed" for value, verdict in pairs)
    found = []
    fresh = now.values.get(metric, [None] * len(now.verdicts))
    for value, verdict in zip(fresh, now.verdicts, strict=True):
        if verdict == "failed":
            continue
        if value is None and always:
            found.append(f"{metric} is gone; it was {spread.mean:g}")
        elif value is not None and not _within(value, spread):
            was = f"{spread.mean:g}"
            if spread.least != spread.greatest:
                was += f" ({spread.least:g} to {spread.greatest:g})"
            found.append(f"{metric} is {value:g}; it was {was}")
    return found


def _named(row: AlgorithmRow) -> str:
    return ", ".join((row.algorithm, *(f"{key} {value}" for key, value in row.options.items())))


def _within(value: float, spread: Spread) -> bool:
    slack = _SLACK * max(abs(spread.least), abs(spread.greatest))
    return spread.least - slack <= value <= spread.greatest + slack and math.isfinite(value)


def check(names: Sequence[str], progress: Progress) -> None:
    """Hold pages to the kept figures, and those to runs. Raises `RunError` that says what moved."""
    stale = (
        f"{file.name} is not what the kept figures make of it; 'weft docs' makes it anew"
        for file in stale_pages()
    )
    wrong = [*stale, *moved(names or quick_names(), progress)]
    refuse(wrong, "figures of the documentation do not hold:\n  " + "\n  ".join(wrong), RunError)
