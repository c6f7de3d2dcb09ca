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

`--write` makes this page anew.

By hand, in an exercise's folder and with `weft` on PATH (the script of that name in a clone):

    sudo weft up topology.json --program solution/ecn.p4
    sudo weft exec h2 weft python receive.py                  # in another terminal
    sudo weft exec h1 weft python send.py 10.0.2.2 hi 30      # in a third one

`weft python` has the scapy that the scripts want; where the system's Python has it, too,
`./send.py` will do. In `basic`, `firewall` and `link_monitor` the file is
`pod-topo/topology.json`. An exercise with a controller of its own, such as `p4runtime`, finds
device ids 0, 1, 2 as with Mininet:

    sudo weft up topology.json --program advanced_tunnel.p4 --no-controller --grpc-port 50051
    weft p4c advanced_tunnel.p4 -o build                      # in another terminal
    weft python -m weft.compat.p4runtime mycontroller.py \\
        --p4info build/advanced_tunnel.p4info.txtpb --bmv2-json build/advanced_tunnel.json

`weft.compat.p4runtime` runs a script whose `p4.v1.p4runtime_pb2`, `p4.tmp.p4config_pb2` and so
on are Weft's, so that no package has to be looked for. A script in `solution/` finds
`p4runtime_lib` if `PYTHONPATH=../../utils` stands before the command. PTF tests of an exercise,
which want a folder for their logs, run by `mkdir -p logs; sudo weft ptf solution/basic.p4 ptf`.

The controller of `flowcache` ends itself where two packets of a flow reach it before the first
one's entry is written, as the second entry is refused (`ALREADY_EXISTS`): on a busy machine send
one ping, and the next ones when it is answered. BMv2 refuses that entry, too.

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
