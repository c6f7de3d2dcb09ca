"""The command: ``./weft attack`` or ``python -m weft.tools.attack``.

Exit status: 0 no trial failed; 1 some did; 2 bad options; 130 or 143 if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from rich.console import Console
from tests.support.terminal import progress_line

from weft.tools.attack.kind import Named, find_kinds, lacking
from weft.tools.attack.processes import kill_marked
from weft.tools.attack.schedule import Attack, Failure, Tally
from weft.tools.attack.summary import closing_line, document, failure_text, summary_table

CI_SEED = 1
"""In continuous integration a change is judged by the same trials as the one before it."""
LOOK_S = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    kinds = find_kinds()
    options = _options(arguments, kinds)
    if options.list:
        for named in kinds:
            print(f"{named.name:10} {named.what}")
        return 0
    chosen = [named for named in kinds if named.name in options.only]
    seed = options.seed
    if seed is None:
        seed = CI_SEED if os.environ.get("CI") else secrets.randbelow(1 << 32)
    console = Console(stderr=options.json, highlight=False)

    def failed(failure: Failure) -> None:
        console.print(failure_text(failure), markup=False, soft_wrap=True)

    able = [named for named in chosen if not lacking(named.kind)]
    attack = Attack(able, seed, options.seconds, options.at_once, options.trial, failed)
    names = ", ".join(named.name for named in able) or "nothing"
    console.print(f"Attack with seed {seed} for {options.seconds:g} s: {names}", soft_wrap=True)
    ended_by = _go_on(attack, console)
    for named in chosen:
        if why := lacking(named.kind):
            tally = attack.tallies.setdefault(named.name, _skipped(named, why))
            console.print(f"{named.name} is skipped: {tally.skipped}")
    tallies = [attack.tallies[named.name] for named in chosen]
    console.print()
    console.print(summary_table(tallies))
    console.print(f"{closing_line(tallies)} (seed {seed})")
    if options.json:
        print(json.dumps(document(seed, tallies), indent=1))
    if ended_by:
        return 128 + ended_by
    return 1 if any(tally.failures for tally in tallies) else 0


def _options(arguments: Sequence[str] | None, kinds: Sequence[Named]) -> argparse.Namespace:
    names = [named.name for named in kinds]
    parser = argparse.ArgumentParser(
        prog="weft attack", description="Attack Weft, and say what did not hold."
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="in all [120]")
    parser.add_argument("--seed", type=int, help=f"of all trials [random; with CI set, {CI_SEED}]")
    parser.add_argument(
        "--only", default=",".join(names), metavar="KIND,...", help=f"of {', '.join(names)} [all]"
    )
    parser.add_argument("--trial", type=int, metavar="N", help="trial N alone, of one kind")
    parser.add_argument(
        "--at-once", type=int, default=min(2, len(os.sched_getaffinity(0))), metavar="N",
        help="kinds side by side [2]",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="say which kinds there are")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    for name in options.only:
        if name not in names:
            parser.error(f"--only {name!r}: there is no such kind; there are {', '.join(names)}")
    if options.trial is not None and len(options.only) != 1:
        parser.error(f"--trial {options.trial} is one of which kind? Name one with --only")
    if options.trial is not None and options.trial < 0:
        parser.error(f"--trial {options.trial}: trials count from 0")
    if not 0 < options.seconds <= 1e6:
        parser.error(f"--seconds {options.seconds:g}: more than 0, at most 1e6")
    if options.at_once < 1:
        parser.error(f"--at-once {options.at_once}: at least 1")
    return options


def _skipped(named: Named, why: str) -> Tally:
    return Tally(named.name, skipped=why)


def _go_on(attack: Attack, console: Console) -> int:
    """Attack until all is done; the signal that ended it before, or 0."""
    ended_by: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ended_by.append(number)
        attack.stop()

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    threads = attack.start()
    try:
        with progress_line(console) as progress:
            task = progress.add_task("", total=attack.seconds)
            started = time.monotonic()
            while any(thread.is_alive() for thread in threads):
                _join(threads)
                said = ", ".join(
                    f"{tally.kind} {tally.trials}" for tally in attack.tallies.values()
                )
                progress.update(task, completed=time.monotonic() - started, description=said)
    finally:
        attack.stop()
        for thread in threads:
            thread.join()
        kill_marked(f"{attack.mark}.")
        for number, handler in before.items():
            signal.signal(number, handler)
    return ended_by[0] if ended_by else 0


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LOOK_S / len(threads))


if __name__ == "__main__":
    sys.exit(main())
