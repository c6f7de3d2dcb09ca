"""``weft load``: another P4 program into the switches of a testbed that is up."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from weft.base.errors import WeftError
from weft.controller.client import LoadableProgram, Session
from weft.controller.inspection import Inspector
from weft.controller.remote import SwitchError
from weft.switch.compiler import compile_program
from weft.topo.worlds.emulated.testbeds import RunningSwitch, RunningTestbed

WATCH_S = 0.3
"""Between two looks at the files of a program that is loaded whenever it is saved."""
LATE = "DEADLINE_EXCEEDED"
"""gRPC's code for a switch that has not answered yet, of which nothing else can be concluded."""

Say = Callable[[str], None]


def load(
    testbed: RunningTestbed,
    names: Sequence[str],
    program: Path,
    include_dirs: Sequence[Path],
    defines: Mapping[str, str | None],
    say: Say,
) -> None:
    """Compile a program and have switches of a testbed run it, all if none are named; a line for
    each.

    If Weft's controller owns the switches, they are taken over from it for as long as it takes. If
    not, a switch is left alone that another controller owns.
    Entries, groups and members that fit the new program stay, where the switch can do that (the
    built-in one can); else its tables are empty.

    Raises:
        InputError: the program cannot be read, or is wrong; nothing was loaded then.
        SwitchError: a switch refused it.
    """
    compiled = compile_program(program, include_dirs=include_dirs, defines=defines)
    for warning in compiled.warnings:
        say(str(warning))
    loaded = LoadableProgram(compiled.p4info, compiled.bmv2_json.encode())
    for name, switch in testbed.choose(names).items():
        before = _entries(name, switch)
        _load_into(name, switch, loaded, testbed.controlled)
        after = _entries(name, switch)
        testbed.loaded(name, program, emptied=after < before)
        say(f"{name}: the program runs, with {after} entries (before it {before})")


def _load_into(name: str, switch: RunningSwitch, program: LoadableProgram, over: bool) -> None:
    owner = Session(name, switch.device_id, switch.address, election_id=None)
    with closing(owner) as session:
        session.connect(over=over)
        try:
            session.push_program(program, keep=True)
        except SwitchError as error:
            if error.code == LATE:  # it can, and may be about to
                raise
            session.push_program(program)


def watch(program: Path, include_dirs: Sequence[Path], again: Callable[[], None], say: Say) -> None:
    """Do something again whenever a program's sources change, until interrupted: P4 files in its
    folder, and in those that it looks for includes in.

    What is wrong with the program is said, and the next change waited for.
    """
    folders = [program.parent, *include_dirs]
    seen = _stamp(folders)
    say(f"waiting for changes of {program} (Ctrl-C ends it)")
    while True:
        time.sleep(WATCH_S)
        stamp = _stamp(folders)
        if stamp != seen:
            seen = stamp
            try:
                again()
            except WeftError as error:
                say(str(error))


def _stamp(folders: Sequence[Path]) -> list[tuple[str, int]]:
    found = []
    for file in sorted(file for folder in folders for file in folder.rglob("*.p4")):
        with suppress(OSError):
            found.append((str(file), file.stat().st_mtime_ns))
    return found


def _entries(name: str, switch: RunningSwitch) -> int:
    try:
        with Inspector(name, switch.device_id, switch.address) as inspector:
            return inspector.entries()
    except SwitchError as error:
        if error.code == LATE:
            raise
        return 0  # no program yet
