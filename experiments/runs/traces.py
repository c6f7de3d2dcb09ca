"""The trace of a run: it shows what the first packets of one switch went through, in the results
folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.errors import RunError
from weft.base.progress import Progress
from weft.experiments.runs.waiting import wait_for_code
from weft.switch.engine.trace.text import json_lines, packets_text
from weft.topo.worlds.world import World

TRACE_FILES = ("trace.jsonl", "trace.txt")

TRACED_PACKETS = 1000
"""How many packets are traced; later ones are only counted."""


@contextlib.contextmanager
def traced(
    world: World,
    switch: str,
    folder: Path | None,
    progress: Progress,
    notes: list[str],
) -> Iterator[None]:
    """Trace a switch of a world that is up, if one is named, and write the trace at the end.

    Raises RunError if the trace cannot begin; a trace that breaks with the network is noted.
    """
    if not switch or folder is None:
        yield
        return
    with progress.stage("trace", f"Make {switch} ready for its trace"):
        world.start_trace(switch, TRACED_PACKETS)
        wait_for_code(world, progress)
    try:
        yield
    finally:
        try:
            notes.append(write_trace(folder, switch, world.take_trace(switch, end=True)))
        except RunError as error:
            notes.append(f"there is no trace of {switch}: {error}")
        except OSError as error:
            notes.append(f"the trace of {switch} could not be written: {error.strerror}")


def write_trace(folder: Path, switch: str, taken: dict[str, Any]) -> str:
    """Write ``trace.jsonl`` and ``trace.txt``; return what to say of them."""
    events = taken["events"]
    said = f"{taken['packets']} packets of {switch} are traced in trace.txt and trace.jsonl"
    if taken["passed"]:
        said += f"; {taken['passed']} came later, or too fast, and are not"
    if taken["lost_records"]:
        said += f"; {taken['lost_records']} steps of those that are found no room"
    files.write_whole(folder / TRACE_FILES[0], json_lines(events))
    files.write_whole(folder / TRACE_FILES[1], f"{packets_text(events)}\n{said}\n")
    return said
