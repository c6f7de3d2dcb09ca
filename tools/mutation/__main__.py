"""The command: ``./weft mutate`` or ``python -m weft.tools.mutation``.

Exit status: 0 enough mutants were killed; 1 too few, too many are equivalent, one that is listed as
equivalent was killed, or tests fail without a mutant; 2 bad options; 128 and its number if a signal
(Ctrl-C, SIGTERM, SIGHUP) ended it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from pathlib import Path

from msgspec import structs
from rich.console import Console
from tests.support.terminal import progress_line

from weft.base.cache import cache_dir
from weft.base.errors import InputError, RunError, WeftError
from weft.tools.mutation import report
from weft.tools.mutation.ending import Ended, ending_on_signals
from weft.tools.mutation.recording import record
from weft.tools.mutation.subjects import GROUPS, ROOT, groups_of
from weft.tools.mutation.trial import Result, all_subjects, drawn, try_all

CI_SEED = 1
"""In continuous integration a change is judged by the same mutants as the one before it."""
MUTANTS = 500
CONTROLS = 10
PROCESSES = min(2, len(os.sched_getaffinity(0)))
SLOW_IMPORTS = ("hypothesis", "ml_dtypes", "numba", "numba.core.types", "numpy", "pytest", "typer")
"""What children find imported; nothing that is mutated."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = _options(arguments)
    seed = options.seed
    if seed is None:
        seed = CI_SEED if os.environ.get("CI") else secrets.randbelow(1 << 32)
    try:
        with ending_on_signals():
            return _mutate(options, seed, Console(highlight=False))
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        return error.exit_status
    except Ended as ended:
        return ended.status


def _mutate(options: argparse.Namespace, seed: int, console: Console) -> int:
    groups = groups_of(options.module)
    equivalents = report.read_equivalents()
    report.check_places(options.out, kept=options.keep)
    every = all_subjects(groups)
    chosen = drawn(every, options.mutants, seed)
    earlier = None if options.again is None else report.Score.read(options.again)
    if earlier is not None:
        report.check_same(earlier)
        if options.keep and earlier.drawn < MUTANTS:
            raise InputError(
                f"--keep: {str(options.again)!r} is of {earlier.drawn} mutants; a score that is "
                f"kept is of at least {MUTANTS}"
            )
        seed = earlier.seed
        again = {*earlier.survivors, *earlier.not_reached, *earlier.equivalent}
        chosen = [each for each in all_subjects(GROUPS) if each.mutant.key in again]
        groups = list(GROUPS)
    if options.draw is not None:
        draw = report.Draw.read(options.draw)
        seed, chosen = draw.seed, draw.among(every)
        console.print(f"{len(draw.mutants) - len(chosen)} of the draw's mutants are gone: the "
                      "code that they changed is another now", soft_wrap=True)  # fmt: skip
    console.print(f"Seed {seed}: {len(chosen)} of {len(every):,} mutants", soft_wrap=True)
    if options.write_draw is not None:
        report.Draw(seed, len(every), [each.mutant.key for each in chosen]).write(
            options.write_draw
        )
        console.print(f"Written: {options.write_draw}")
        return 0
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(cache_dir() / "mutation" / "bytecode")
    for name in SLOW_IMPORTS:
        import_module(name)
    records = record(groups, options.processes, lambda text: console.print(text, markup=False))
    started = time.monotonic()
    killed = 0

    with progress_line(console) as progress:
        task = progress.add_task("", total=len(chosen))

        def said(result: Result) -> None:
            nonlocal killed
            killed += result.killed
            progress.advance(task)
            done = int(progress.tasks[0].completed)
            progress.update(task, description=f"{killed} killed of {done}")
            if not result.killed:
                console.print(report.survivor_text(result, equivalents), markup=False,
                              soft_wrap=True)  # fmt: skip
            if not console.is_terminal and done % 25 == 0:
                elapsed_s = time.monotonic() - started
                console.print(f"{killed} killed of {done}, {elapsed_s / done:.1f} s each")

        results, failing = try_all(chosen, records, options.processes, options.controls, said)
    score = report.score(seed, results, len(every), equivalents)
    if earlier is not None:
        score = report.joined(earlier, score)
    for count in score.modules:
        rest = f", {count.equivalent} equivalent" if count.equivalent else ""
        console.print(f"{count.module}: {count.killed} of {count.drawn} killed{rest}")
    console.print("\n".join(report.table_lines([score])), markup=False)
    wrong = report.wrongly_listed(results, equivalents)
    for text in wrong:
        console.print(f"Listed as equivalent, and killed: {text}", markup=False, soft_wrap=True)
    for text in failing:
        console.print(f"Fails without a mutant: {text}", markup=False, soft_wrap=True)
    console.print(
        f"{100 * score.share:.1f} % killed, of {score.drawn}; "
        f"{len(score.equivalent)} equivalent (seed {seed})"
    )
    if options.out is not None or options.keep:
        # Imported at the end: it brings what is mutated, which children must not find.
        commit_of = import_module("weft.tools.figures.measure").commit_of
        score = structs.replace(
            score, commit=f"commit {commit_of(ROOT)}, {date.today().isoformat()}"
        )
    try:
        if options.out is not None:
            score.write(options.out)
            console.print(f"Written: {options.out}")
        if options.keep:
            console.print(f"Kept in {report.keep(score)}, and in {report.PAGE.name}")
    except OSError as error:
        raise RunError(f"the score cannot be written: {error.strerror}") from None
    return 0 if score.passes and not wrong and not failing else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(group.name for group in GROUPS)
    parser = argparse.ArgumentParser(
        prog="weft mutate",
        description="Change Weft's code in small ways, and see whether its tests notice.",
    )
    parser.add_argument("--seed", type=int, help=f"of the draw [random; with CI set, {CI_SEED}]")
    parser.add_argument("--mutants", type=int, metavar="N", help=f"how many [{MUTANTS}]")
    parser.add_argument(
        "--processes", type=int, default=PROCESSES, metavar="N",
        help=f"mutants tried side by side [{PROCESSES}]",
    )  # fmt: skip
    parser.add_argument(
        "--module", action="append", default=[], metavar="NAME",
        help=f"a group, {names}, or the path of a module of one; may be repeated [all]",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the score as JSON")
    parser.add_argument(
        "--write-draw", type=Path, metavar="FILE", help="write which are drawn, and try none"
    )
    parser.add_argument(
        "--draw", type=Path, metavar="FILE", help="try those of a draw that are still there"
    )
    parser.add_argument("--keep", action="store_true", help="keep the score in docs/")
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="try those that lived in a score, and join both"
    )
    parser.add_argument(
        "--controls", type=int, default=CONTROLS, metavar="N",
        help=f"mutants whose tests are run without them, too [{CONTROLS}]",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.again and (options.module or options.mutants is not None):
        parser.error("--again: those that lived in a score are all tried; leave --module and "
                     "--mutants")  # fmt: skip
    if options.draw and (options.again or options.mutants is not None):
        parser.error("--draw: all that are still there are tried; leave --again and --mutants")
    if options.mutants is None:
        options.mutants = MUTANTS
    for name, least in (("mutants", 1), ("processes", 1), ("controls", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: at least {least}")
    if options.keep and options.module:
        parser.error("--keep: what is kept is drawn of all modules; leave --module")
    if options.keep and options.mutants < MUTANTS:
        parser.error(f"--mutants {options.mutants}: a score that is kept is of at least {MUTANTS}")
    return options


if __name__ == "__main__":
    sys.exit(main())
