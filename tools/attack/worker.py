"""The process in which the trials of one kind are made, one after the other.

It is told all on the command line, and tells its parent in lines of JSON: which trial begins, and
what came of it. A trial that brings the process down, or hangs in it, takes nothing else with it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from weft.tools.attack.kind import MARK, Broken, Kind, Trial, load_kind

MOST_TEXT = 6000
"""Characters of a failure that are told."""


def main(arguments: list[str]) -> None:
    """MODULE SEED FIRST LAST SECONDS: make trials FIRST to LAST, but none after so many seconds."""
    module, seed, first, last, seconds = arguments
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a trial prints does not get between

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), file=out, flush=True)

    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    end = time.monotonic() + float(seconds)
    named = load_kind(module)
    elsewhere = Elsewhere()
    for number in range(int(first), int(last) + 1):
        if number > int(first) and time.monotonic() >= end:
            break
        tell(begun=number)
        started = time.monotonic()
        outcome, failure, notes = make_trial(named.kind, named.name, int(seed), number, elsewhere)
        tell(
            ended=number, outcome=outcome, failure=_shortened(failure), notes=notes,
            seconds=time.monotonic() - started,
        )  # fmt: skip
    tell(finished=True)


def _shortened(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[: MOST_TEXT // 2]}\n...\n{text[-MOST_TEXT // 2 :]}"


def make_trial(
    kind: Kind, name: str, seed: int, number: int, elsewhere: Elsewhere
) -> tuple[str, str, list[str]]:
    """One trial: (what came of it, how it failed or nothing, its notes)."""
    folder = Path(tempfile.mkdtemp(prefix=f"attack-{name}-"))
    mark = f"{os.environ.get(MARK, '')}{number}"
    trial = Trial(name, seed, number, folder, mark)
    outcome = failure = ""
    try:
        outcome = kind.attack(trial)
    except Broken as broken:
        failure = str(broken)
    except BaseException as error:  # SystemExit, too: whoever raises that in a trial ends it alone
        failure = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failure = failure or elsewhere.take()
    return outcome, failure, trial.notes


class Elsewhere:
    """What was raised where nobody catches it: in threads, and in finalizers."""

    def __init__(self) -> None:
        self._found: list[str] = []
        threading.excepthook = self._note
        sys.unraisablehook = self._note

    def _note(self, what: Any, /) -> None:
        lines = traceback.format_exception(what.exc_type, what.exc_value, what.exc_traceback)
        self._found.append("".join(lines))

    def take(self) -> str:
        """What has been raised since it was last taken."""
        found, self._found = self._found, []
        return f"raised where nobody catches it:\n{''.join(found)}" if found else ""


if __name__ == "__main__":
    main(sys.argv[1:])
