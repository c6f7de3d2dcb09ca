"""Files of pipeline schedules of one's own: TOML, with the actions of each stage as one line.

    stages = 2
    microbatches = 3
    actions = [
        "F0 F1 B0 F2 B1 B2",
        "F0 B0 F1 B1 F2 B2",
    ]

``F0.1`` is the forward pass of micro-batch 0 through chunk 1, in a file with ``chunks = 2``. A
``name`` may be given; without it, the schedule has that of the file.
"""

import json
import re
from pathlib import Path

import msgspec

from weft.base.documents import opened, parsed, typed
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.families.pipeline.schedules import KINDS, Action, Kind, Schedule, check

MOST_BYTES = 1 << 24
"""The largest file that is read."""
_WORD = re.compile(r"([FBW])([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)
_KINDS: dict[str, Kind] = {kind: kind for kind in KINDS}


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    stages: int
    microbatches: int
    actions: list[str]
    chunks: int = 1
    name: str = ""


def read_schedule(path: Path) -> Schedule:
    """Return the schedule in a file.

    Raises:
        InputError: it cannot be read, or makes no sense, as
            `weft.experiments.families.pipeline.schedules` has it; the
            message names the file, the stage and the word.
    """
    what = f"schedule {str(path)!r}"
    return _schedule(opened(path, MOST_BYTES, what, "TOML"), what, path.stem)


def parse_schedule(text: str, name: str = "given") -> Schedule:
    """Return the schedule in the text of such a file. Raises InputError as `read_schedule` does."""
    what = f"schedule {name!r}"
    return _schedule(parsed(text, f"{what}: it is not valid TOML", "TOML"), what, name)


def _schedule(document: object, what: str, name: str) -> Schedule:
    given = typed(_Document, document, f"{what} cannot be read")
    if not given.name.isprintable():
        raise InputError(f"{what}: name {shown(given.name)}: give one of printable characters")
    actions = tuple(
        tuple(_action(word, f"{what}: stage {stage}") for word in line.split())
        for stage, line in enumerate(given.actions)
    )
    given.name = given.name or name
    try:
        schedule = Schedule(given.name, given.stages, given.microbatches, given.chunks, actions)
        check(schedule)
    except InputError as error:  # which calls it by its name, and not by that of the file
        said = str(error).removeprefix(f"schedule {shown(given.name)}").removeprefix(":")
        raise InputError(f"{what}: {said.lstrip()}") from None
    return schedule


def _action(word: str, where: str) -> Action:
    found = _WORD.fullmatch(word)
    if not found:
        raise InputError(
            f"{where}: {shown(word)} is no action: write F, B or W and the number of the "
            "micro-batch, as in F0, or F0.1 for chunk 1"
        )
    kind, microbatch, chunk = found.groups()
    return Action(_KINDS[kind], int(microbatch), int(chunk or 0))


def format_schedule(schedule: Schedule) -> str:
    """Return the text of a file with a schedule, from which `parse_schedule` makes the same one.

    Raises:
        InputError: its name has characters that are not printable.
    """
    if not schedule.name.isprintable():
        raise InputError(
            f"{schedule.what}: give it a name of printable characters, to write it to a file"
        )
    lines = "".join(f'    "{" ".join(map(str, actions))}",\n' for actions in schedule.actions)
    chunks = f"chunks = {schedule.chunks}\n" if schedule.chunks > 1 else ""
    return (
        f"name = {json.dumps(schedule.name, ensure_ascii=False)}\n"
        f"stages = {schedule.stages}\nmicrobatches = {schedule.microbatches}\n{chunks}"
        f"actions = [\n{lines}]\n"
    )
