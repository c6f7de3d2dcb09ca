"""``weft switch``'s traces: what every packet goes through, as lines while it happens."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from weft.base import files
from weft.base.errors import WeftError
from weft.switch.engine.trace_text import json_lines, log_line

if TYPE_CHECKING:
    from weft.switch.engine.trace import Event
    from weft.switch.realtime.process import SwitchProcess

STEP_S = 0.1
"""The time between two looks at a trace."""

LOG_LEVEL = 5
"""The log level of BMv2's "trace", which Python's logging does not have."""

_log = logging.getLogger("weft.switch.packets")


class TraceLines:
    """Writes a switch's trace to a file, standard output or the log, from a thread of its own.

    ``file``: None: no file; ``-``: standard output; a name that ends in .jsonl: JSON lines.
    Raises ``InputError`` for a file that cannot be written.
    """

    def __init__(self, process: SwitchProcess, file: str | None, *, logged: bool) -> None:
        self._process = process
        self._name = process.config.switches[0].name
        self._logged = logged
        self._json = file is not None and Path(file).suffix == ".jsonl"
        self._file = _open(file)
        self._ended = threading.Event()
        self._passed = 0
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
        if self._file is not None:
            process.traces.start(self._name)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    def _run(self) -> None:
        """Write until the end. A trace that fails says so and ends, while the switch goes on."""
        try:
            self._follow()
        except (WeftError, OSError) as error:
            print(f"weft: the trace ends: {error}", file=sys.stderr)

    def _follow(self) -> None:
        """Follow the switch until the end. If there is only a log, the trace begins once a program
        runs, so that the switch is ready before."""
        control = self._process.controls[0]
        if self._file is None:
            while not control.program_loaded:
                if self._ended.wait(STEP_S):
                    return
            self._process.traces.start(self._name)
            _log.info("packets are logged from here on")
        while not self._ended.wait(STEP_S):
            self.write()

    def write(self) -> None:
        """Write what has happened since the last time."""
        taken = self._process.traces.take(self._name)
        events: list[Event] = taken["events"]
        missed = taken["passed"] - self._passed
        self._passed = taken["passed"]
        if self._logged:
            for event in events:
                _log.log(LOG_LEVEL, log_line(event))
            if missed:
                _log.warning("%d packets came too fast to be traced", missed)
        if self._file is not None:
            if self._json:
                self._file.write(json_lines(events))
            else:
                self._file.writelines(f"{log_line(event)}\n" for event in events)
                if missed:
                    self._file.write(f"{missed} packets came too fast to be traced\n")
            self._file.flush()

    def close(self) -> None:
        """Write what is left, and end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._file is not None:
            self.write()
            if self._file is not sys.stdout:
                self._file.close()


def _open(file: str | None) -> TextIO | None:
    if file is None:
        return None
    if file == "-":
        return sys.stdout
    with files.told_as_input(f"cannot write the trace {file!r}"):
        return open(files.create(Path(file)), "w", encoding="utf-8")
