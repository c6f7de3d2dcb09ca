"""``weft docs``: it measures the figures of pages, makes tables and plots, and checks each against
the others."""

import functools
import itertools
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from weft.base import files
from weft.base.cache import CHECKOUT
from weft.base.errors import InputError, RunError
from weft.base.progress import Progress
from weft.experiments.results.spread import Spread
from weft.tools.figures.api import with_interface
from weft.tools.figures.claims import claims_in, with_claims
from weft.tools.figures.kept import AlgorithmRow, Kept, kept_metrics
from weft.tools.figures.measure import (
    SEEDS,
    VIRTUAL,
    measure,
    scenario_file,
)
from weft.tools.figures.plots import PlotNote, is_fresh, notes_in, svg_of, with_plots
from weft.tools.figures.reference import with_options
from weft.tools.figures.tables import rendered
from weft.topo.worlds.registry import WORLDS

DOCS = CHECKOUT / "docs"
QUICK_S = 60.0
"""How much processor time, under one seed, the figures may take together that a check makes anew;
the quickest are made first."""
SAVE_EVERY_S = 20.0
_SLACK = 1e-9
"""The relative difference that figures may have only because of how they were written."""


def figures_folder() -> Path:
    """Return the folder in which figures are kept. Raises `InputError` if there is no checkout."""
    if not DOCS.is_dir():
        raise InputError(f"there is no {DOCS}: the pages of the documentation are in a checkout")
    return DOCS / "figures"


def reader() -> Callable[[str], Kept]:
    """Return a function that reads kept figures by their name, and each file only once."""

    @functools.cache
    def read(name: str) -> Kept:
        path = figures_folder() / f"{name}.json"
        if not path.is_file():
            raise InputError(
                f"no figures of {name!r} are kept: 'weft docs --measure {name}' measures them"
            )
        return Kept.read(path)

    return read


def make_pages() -> list[Path]:
    """Make all tables and plots anew; return the files that changed. Raises `InputError`."""
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
    """Return the pages and plots that differ from what the kept figures make of them. Raises
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
            made = rendered(with_claims(text, read), read)
            made = with_interface(with_options(with_plots(made, read)))
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
    """Measure figures in some worlds and keep them, with what is kept of the other worlds; return
    the files.

    Of the other worlds, those points stay that the scenario file still has.

    Raises `InputError`, `RunError`.
    """
    for name in names:
        scenario_file(name)
    written = []
    for name in names:
        file = figures_folder() / f"{name}.json"
        before = Kept.read(file) if file.is_file() else None
        others = [
            row for row in (before.rows if before else []) if row.options["world"] not in worlds
        ]
        with progress.stage(name, f"Measure {name}") as advance:
            kept = measure(
                name, SEEDS, advance, worlds, before=before and replace(before, rows=others)
            )
        verdicts = [each for row in kept.rows if row not in others for each in row.verdicts]
        failed = verdicts.count("failed")
        with files.told_as_input(f"figures of {name} cannot be kept"):
            files.make_folder(figures_folder())
            written.append(kept.write(figures_folder()))
        if failed:
            progress.say(f"{name}: {failed} runs failed, and the table says so")
    return written


def sweep(
    names: Sequence[str],
    progress: Progress,
    seeds: Sequence[int] = SEEDS,
    sizes_bytes: Collection[int] = (),
) -> list[Path]:
    """Measure what is missing of simulated figures, and keep them while they come; return the
    files.

    A run that is kept is not made again unless code has changed since, so a call goes on where an
    earlier one was stopped.

    Args:
        names: scenario files; without names, those whose figures claims of the pages are about.
        sizes_bytes: only points of these sizes are run; empty means all.

    Raises `InputError`, `RunError`.
    """
    names = list(names) or claimed_names()
    if not names:
        raise InputError("docs --sweep: no page has a claim yet: name scenario files to measure")
    for name in names:
        scenario_file(name)
    with files.told_as_input(f"{figures_folder()} cannot be made"):
        files.make_folder(figures_folder())
    written = []
    for name in names:
        file = figures_folder() / f"{name}.json"
        before = Kept.read(file) if file.is_file() else None
        with progress.stage(name, f"Measure {name}") as advance, Saving(file) as save:
            measure(
                name, seeds, advance, VIRTUAL,
                before=before,
                is_wanted=lambda one: not sizes_bytes or one.size_bytes in sizes_bytes,
                save=save,
            )  # fmt: skip
        written.append(file)
    return written


class Saving:
    """A file of figures that is written now and then while they come, and at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: Kept | None = None
        self._written_s = time.monotonic()

    def __call__(self, kept: Kept) -> None:
        """Take the figures so far."""
        self._kept = kept
        if time.monotonic() - self._written_s > SAVE_EVERY_S:
            self._write()

    def _write(self) -> None:
        if self._kept is not None:
            with files.told_as_input(f"{str(self._file)!r} cannot be written"):
                self._kept.write(self._file.parent)
        self._written_s = time.monotonic()

    def __enter__(self) -> "Saving":
        return self

    def __exit__(self, *_: object) -> None:
        self._write()


def claimed_names() -> list[str]:
    """Return the names of the figures that claims of the pages are about. Raises `InputError`."""
    pages = [_text_of(page) for page in sorted(DOCS.glob("*.md"))]
    return list(dict.fromkeys(claim.name for page in pages for claim in claims_in(page)))


def quick_names() -> list[str]:
    """Return the names of the kept figures whose simulated runs take the least time: as many as
    take no more than `QUICK_S` together."""
    swept = claimed_names()  # may be kept in part; a sweep itself tells whether code has changed
    files = (path for path in figures_folder().glob("*.json") if path.stem not in swept)
    kept = (_simulated(Kept.read(path)) for path in files)
    costs_s = {
        each.name: sum(row.cost_s / len(row.seeds) for row in each.rows)
        for each in kept
        if each.rows
    }
    cheapest = sorted(costs_s, key=lambda name: (costs_s[name], name))
    in_all_s = itertools.accumulate(costs_s[name] for name in cheapest)
    return [name for name, sum_s in zip(cheapest, in_all_s, strict=True) if sum_s <= QUICK_S]


def moved(names: Sequence[str], progress: Progress) -> list[str]:
    """Make simulated figures anew under the first seed that was kept; return, in words, which have
    left their range.

    Raises `InputError`, `RunError`.
    """
    read = reader()
    found = []
    for name in names:
        kept = _simulated(read(name))
        if not kept.rows:
            raise InputError(
                f"docs --check {name}: its figures are emulated ones alone, and these are not made "
                f"anew: 'weft docs --measure {name}' measures them"
            )
        seeds = [min(seed for row in kept.rows for seed in row.seeds)]
        with progress.stage(name, f"Measure {name} anew") as advance:
            fresh = measure(name, seeds, advance, VIRTUAL)
        found += compared(kept, fresh)
    return found


def _simulated(kept: Kept) -> Kept:
    return replace(kept, rows=[row for row in kept.rows if row.options["world"] in VIRTUAL])


def compared(kept: Kept, fresh: Kept) -> list[str]:
    """Return, in words, which fresh figures are beyond the range of the kept ones, and which runs
    fail now or no longer fail, unlike the kept run of the same seed."""
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
            for metric in kept_metrics()
            if metric in row.values
            for change in _changes(row, now, metric)
        ]
    missing = {_named(row) for row in fresh.rows} - {_named(row) for row in kept.rows}
    return found + [f"{kept.name}: {name} is run and not kept" for name in sorted(missing)]


def _failures(row: AlgorithmRow, now: AlgorithmRow) -> list[str]:
    """Say, of the seeds that both have, which runs fail now and did not before, or no
    longer fail."""
    changes = {True: "fails; it did not", False: "no longer fails"}
    return [
        f"the run under seed {seed} {changes[_fails(now, seed)]}"
        for seed in sorted(set(row.seeds) & set(now.seeds))
        if _fails(row, seed) != _fails(now, seed)
    ]


def _fails(row: AlgorithmRow, seed: int) -> bool:
    return (seed, "failed") in zip(row.seeds, row.verdicts, strict=True)


def _changes(row: AlgorithmRow, now: AlgorithmRow, metric: str) -> list[str]:
    """Return, in words, how a metric has changed in those fresh runs that did not fail."""
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
    """Check pages against the kept figures, and these against new runs. Raises `RunError`, which
    says what has moved."""
    stale = (
        f"{file.name} is not what the kept figures make of it; 'weft docs' makes it anew"
        for file in stale_pages()
    )
    wrong = [*stale, *moved(names or quick_names(), progress)]
    if wrong:
        raise RunError("figures of the documentation do not hold:\n  " + "\n  ".join(wrong))
