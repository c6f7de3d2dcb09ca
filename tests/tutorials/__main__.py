"""``python -m tests.tutorials PATH [EXERCISE...] [--write]``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.tutorials.exercise import GRPC_PORT, Exercise, Lab, Unfulfilled
from tests.tutorials.exercises import EXERCISES

import weft
from weft.base.cache import CHECKOUT
from weft.base.errors import WeftError

PAGE = CHECKOUT / "docs" / "tutorials.md"
HEAD = """# The exercises of p4lang/tutorials

Each exercise comes up from its own `topology.json`, with the program of its `solution` folder and
its own scripts, and is asked what its README promises of a solution. Nothing of it is changed or
translated, and no exercise is part of Weft:

    git clone https://github.com/p4lang/tutorials
    sudo .venv/bin/python -m tests.tutorials tutorials [EXERCISE...] [--write]

`--write` makes this page anew. An exercise by hand is `sudo ./weft up topology.json --program
solution/ecn.p4` in its folder ([p4.md](p4.md#network-files-of-other-tools)); one with a controller
of its own wants `--no-controller --grpc-port 50051`, too, and finds device ids 0, 1, 2 there, as
with Mininet.

| exercise | expectation | seen | |
|---|---|---|---|
"""


def tried(exercise: Exercise, root: Path) -> tuple[str, bool]:
    """Bring an exercise up, and return what was seen, and whether it is as expected."""
    folder = (root / "exercises" / exercise.name).resolve()
    programs = exercise.programs
    with tempfile.TemporaryDirectory() as work:
        try:
            with weft.up(
                folder / exercise.topology,
                program={name: folder / each for name, each in programs.items()}
                if isinstance(programs, Mapping)
                else folder / programs,
                controller=exercise.controlled,
                grpc_port=None if exercise.controlled else GRPC_PORT,
            ) as net:
                net.backend.wait_for_code()
                return exercise.check(Lab(folder, Path(work), net)), True
        except (Unfulfilled, WeftError) as error:
            return str(error), False


def main() -> int:
    """Try exercises, print a table, and write the page if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.tutorials")
    parser.add_argument("path", type=Path, help="a copy of p4lang/tutorials")
    parser.add_argument("exercises", nargs="*", help="some of them; by default all")
    parser.add_argument("--write", action="store_true", help="make docs/tutorials.md anew")
    given = parser.parse_args()
    known = {each.name: each for each in EXERCISES}
    for name in given.exercises:
        if name not in known:
            parser.error(f"there is no exercise {name!r}: choose from {', '.join(known)}")
    if not (given.path / "exercises").is_dir():
        parser.error(f"{given.path} is no copy of p4lang/tutorials: it has no folder exercises")
    rows = kept()
    failed = False
    for name in given.exercises or known:
        begin = time.monotonic()
        seen, held = tried(known[name], given.path)
        failed |= not held
        cells = (name, known[name].expectation, seen, "yes" if held else "**no**")
        rows[name] = f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        print(
            f"{name} ({time.monotonic() - begin:.0f} s): {'holds' if held else 'FAILS'}: {seen}",
            flush=True,
        )
    if given.write:
        PAGE.write_text(HEAD + "\n".join(rows[name] for name in known if name in rows) + "\n")
    return int(failed)


def kept() -> dict[str, str]:
    """Return the rows that the page has, by the names of their exercises."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}


if __name__ == "__main__":
    sys.exit(main())
