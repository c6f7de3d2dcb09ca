"""What is said of mutants: lines as they come, a score by module, JSON, a page's table."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from weft.base import documents, files
from weft.base.errors import InputError
from weft.base.units import shown
from weft.tools.mutation.subjects import ROOT
from weft.tools.mutation.trial import KILLED, NOT_REACHED, SURVIVED, Result, Subject

EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
KEPT = ROOT / "docs" / "mutation"
PAGE = ROOT / "docs" / "validation.md"
BEGIN, END = "<!-- mutants -->\n", "<!-- end of mutants -->"
LEAST_KILLED = 0.90
MOST_EQUIVALENT = 0.05
SCHEMA = "weft.mutants"
DRAW_SCHEMA = "weft.mutants-drawn"
MOST_BYTES = 64 << 20
_COMMIT = re.compile(r"commit ([0-9a-f]{7,40}), .*")
"""Of a score; one of files that were in no commit has a ``+``."""


class Draw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mutants that were drawn once, so that the tests' score on them can be compared before and
    after a change of the code."""

    seed: int
    every: int
    """Mutants that there were."""
    mutants: list[str]
    """Their keys."""

    def write(self, path: Path) -> None:
        """Write as JSON. Raises OSError."""
        text = json.dumps({"schema": DRAW_SCHEMA, **msgspec.to_builtins(self)}, indent=1)
        files.write_whole(path, text + "\n")

    @staticmethod
    def read(path: Path) -> Draw:
        """Read what `write` wrote. Raises `InputError`."""
        known = documents.opened(path, MOST_BYTES, f"draw {str(path)!r}")
        if not isinstance(known, dict) or known.pop("schema", None) != DRAW_SCHEMA:
            raise InputError(
                f"{str(path)!r} holds no draw: name a file that 'weft mutate --write-draw FILE' "
                "wrote"
            )
        return documents.typed(Draw, known, f"draw {str(path)!r} is damaged")

    def among(self, every: Iterable[Subject]) -> list[Subject]:
        """Return those that are still there: by their keys, or, where a module has moved, by what
        they change in which function, if that is so in one place alone."""
        by_key: dict[str, list[Subject]] = {}
        by_change: dict[str, list[Subject]] = {}
        for each in every:
            by_key.setdefault(each.mutant.key, []).append(each)
            by_change.setdefault(each.mutant.key.partition(":")[2], []).append(each)
        found = []
        for key in self.mutants:
            change = key.partition(":")[2]
            same = by_key.get(key) or by_change.get(change, [])
            found += same if len(same) == 1 else []
        return found


def read_equivalents(path: Path = EQUIVALENTS) -> dict[str, str]:
    """The mutants that change nothing that can be observed, by their keys, and the reasons.

    Raises `InputError` for one that is listed twice or without a reason, and for another file.
    """
    listed = documents.opened(path, MOST_BYTES, str(path), "TOML").get("equivalent", [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError(f"{path}: equivalent is {shown(listed)}: write tables [[equivalent]]")
    found: dict[str, str] = {}
    for each in listed:
        key, reason = each.get("mutant", ""), each.get("reason", "")
        if not key or not reason or key in found:
            raise InputError(f"{path}: {key!r} needs a reason, and to be listed once")
        found[key] = reason
    return found


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of the mutants of a module."""

    module: str
    group: str
    drawn: int
    killed: int
    equivalent: int


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of all that were drawn."""

    seed: int
    drawn: int
    every: int
    """Mutants that there are."""
    killed: int
    by_time: int
    """Of them those whose test did not end, or whose process crashed."""
    survivors: list[str]
    not_reached: list[str]
    equivalent: list[str]
    modules: list[Count]
    commit: str = ""

    @property
    def share(self) -> float:
        """Killed of drawn, equivalent ones among them."""
        return self.killed / self.drawn if self.drawn else 0.0

    @property
    def passes(self) -> bool:
        """Whether enough were killed, and few enough are equivalent."""
        return self.share >= LEAST_KILLED and len(self.equivalent) <= MOST_EQUIVALENT * self.drawn

    def write(self, path: Path) -> None:
        """Write as JSON. Raises OSError."""
        files.write_whole(
            path, json.dumps({"schema": SCHEMA, **msgspec.to_builtins(self)}, indent=1) + "\n"
        )

    @staticmethod
    def read(path: Path) -> Score:
        """Read what `write` wrote. Raises `InputError`."""
        known = documents.opened(path, MOST_BYTES, f"score {str(path)!r}")
        if not isinstance(known, dict) or known.pop("schema", None) != SCHEMA:
            raise InputError(
                f"{str(path)!r} holds no score: name a file that 'weft mutate --out FILE' wrote"
            )
        return documents.typed(Score, known, f"score {str(path)!r} is damaged")


def score(
    seed: int, results: Sequence[Result], every: int, equivalents: Mapping[str, str]
) -> Score:
    """Count. A mutant that is listed as equivalent counts so only if it lives."""
    living = [each for each in results if not each.killed]
    keys = [each.subject.mutant.key for each in living]
    same = [key for key in keys if key in equivalents]
    counts = []
    for path in sorted({each.subject.mutant.path for each in results}):
        mine = [each for each in results if each.subject.mutant.path == path]
        counts.append(
            Count(
                path,
                mine[0].subject.group.name,
                len(mine),
                sum(each.killed for each in mine),
                sum(not each.killed and each.subject.mutant.key in equivalents for each in mine),
            )
        )
    return Score(
        seed,
        len(results),
        every,
        sum(each.killed for each in results),
        sum(each.killed and not each.how.startswith("tests/") for each in results),
        [each.subject.mutant.key for each in living
         if each.status == SURVIVED and each.subject.mutant.key not in equivalents],
        [each.subject.mutant.key for each in living
         if each.status == NOT_REACHED and each.subject.mutant.key not in equivalents],
        same,
        counts,
    )  # fmt: skip


def joined(earlier: Score, again: Score) -> Score:
    """The score of a draw of which those that lived were tried again, as the code is the same."""
    by_module = {count.module: count for count in again.modules}
    return replace(
        again,
        seed=earlier.seed,
        drawn=earlier.drawn,
        every=earlier.every,
        killed=earlier.killed + again.killed,
        by_time=earlier.by_time + again.by_time,
        modules=[
            replace(
                count,
                killed=count.killed + by_module[count.module].killed,
                equivalent=by_module[count.module].equivalent,
            )
            if count.module in by_module
            else count
            for count in earlier.modules
        ],
    )


def check_same(earlier: Score) -> None:
    """Raise `InputError` unless the modules are as they were when a score was measured."""
    found = _COMMIT.fullmatch(earlier.commit)
    names = [count.module for count in earlier.modules]
    git = ["git", "-C", str(ROOT), "diff", "--quiet", found[1] if found else "", "--", *names]
    if found is None or subprocess.run(git, capture_output=True, check=False).returncode:
        raise InputError(
            f"--again: the score is of {shown(earlier.commit or 'no commit')}, and a module has "
            "changed since, or that commit is not known here: draw anew, without --again"
        )


def wrongly_listed(results: Iterable[Result], equivalents: Mapping[str, str]) -> list[str]:
    """Mutants that are listed as equivalent and were killed, with how."""
    return [
        f"{each.subject.mutant.key}: {each.how}"
        for each in results
        if each.status == KILLED and each.subject.mutant.key in equivalents
    ]


def survivor_text(result: Result, equivalents: Mapping[str, str]) -> str:
    """A mutant that lives: what it is, why that may be right, what it changes."""
    mutant = result.subject.mutant
    reached = f"{result.tests} tests reach it" if result.tests else "no test reaches it"
    lines = [f"{mutant.key}   (line {mutant.line}, {mutant.operator}; {reached})"]
    if mutant.key in equivalents:
        lines.append(f"    equivalent: {equivalents[mutant.key]}")
    return "\n".join([*lines, *(f"    {line}" for line in result.subject.diff.splitlines()[2:])])


def table_lines(scores: Sequence[Score]) -> list[str]:
    """The score of several seeds, by group, as Markdown."""
    groups = list(dict.fromkeys(count.group for each in scores for count in each.modules))
    heads = [f"seed {each.seed}" for each in scores]
    lines = [f"| killed of drawn | {' | '.join(heads)} |", f"|---|{'---|' * len(scores)}"]
    for group in groups:
        cells = []
        for each in scores:
            mine = [count for count in each.modules if count.group == group]
            cells.append(_cell(sum(c.killed for c in mine), sum(c.drawn for c in mine)))
        lines.append(f"| {group} | {' | '.join(cells)} |")
    whole = [f"**{_cell(each.killed, each.drawn)}**" for each in scores]
    same = [f"{len(each.equivalent)} of {each.drawn}" for each in scores]
    late = [str(each.by_time) for each in scores]
    lines.append(f"| all | {' | '.join(whole)} |")
    lines.append(f"| killed by a crash or without an end | {' | '.join(late)} |")
    lines.append(f"| equivalent, with reasons, among those that live | {' | '.join(same)} |")
    return lines


def _cell(killed: int, drawn: int) -> str:
    return f"{killed} of {drawn}, {100 * killed / drawn:.1f} %" if drawn else "none drawn"


def page_part(scores: Sequence[Score]) -> str:
    """The table as the page has it, with what it is of beneath."""
    if not scores:
        return f"{BEGIN}*No score is kept yet: `./weft mutate --keep` measures one.*\n{END}"
    sources = "; ".join(
        f"seed {each.seed}: {each.drawn} of {each.every:,} mutants, {each.commit}"
        for each in scores
    )
    table = "\n".join(table_lines(scores))
    return f"{BEGIN}{table}\n\n*`./weft mutate --seed N --keep`; {sources}.*\n{END}"


def kept_scores() -> list[Score]:
    """What is kept, by seed."""
    return sorted((Score.read(path) for path in KEPT.glob("*.json")), key=lambda each: each.seed)


def keep(score: Score) -> Path:
    """Keep a score, in its file and in the page; the file. Raises `InputError` and OSError."""
    kept = KEPT / f"seed-{score.seed}.json"
    files.make_folder(KEPT)
    score.write(kept)
    files.write_whole(PAGE, with_table(PAGE.read_text("utf-8"), kept_scores()))
    return kept


def check_places(out: Path | None, *, kept: bool) -> None:
    """Raise `InputError` if a score could not be written to a file, or not be kept."""
    if out is not None:
        _check_place(out, f"--out {str(out)!r}")
    if kept:
        for path in (KEPT / "seed.json" if KEPT.is_dir() else KEPT, PAGE):
            _check_place(path, f"--keep: a file in {path.parent}")
        with_table(PAGE.read_text("utf-8"), kept_scores())


def _check_place(path: Path, what: str) -> None:
    """Files are written beside what they are to replace: whether there can be one."""
    try:
        mode = path.stat().st_mode if path.exists() else 0
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISCHR(mode) and not stat.S_ISFIFO(mode):
            with tempfile.TemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        raise InputError(
            f"{what} cannot be written: {error.strerror}; it needs a folder that is there and that "
            "you may write to"
        ) from None


def with_table(page: str, scores: Sequence[Score]) -> str:
    """A page's text with its table made anew. Raises `InputError` for a page without one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{PAGE.name} has no place for the score of mutants: {BEGIN.strip()}")
    return f"{before}{page_part(scores)}{after}"
