"""What ``weft switch`` tells of its switches: lines for people, logs, and traces of packets."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.base import files
from weft.base.errors import WeftError
from weft.switch.commands.switch_options import SwitchOptions
from weft.switch.engine.trace.bmv2_log import Bmv2Log
from weft.switch.engine.trace.text import json_lines, log_line

if TYPE_CHECKING:
    from weft.switch.engine.trace.decoder import Event
    from weft.switch.realtime.process import SwitchProcess

STEP_S = 0.1
"""The time between two looks at a trace."""

LOG_LEVEL = 5
"""The log level of BMv2's "trace", which Python's logging does not have."""

_PATTERN = "[%(asctime)s.%(msecs)03d] [bmv2] [%(levelname).1s] [thread %(thread)d] %(message)s"
"""What BMv2's lines begin with: the time, its name, the level's letter, and the thread."""

_LEVELS = {"trace": LOG_LEVEL, "debug": 10, "info": 20, "warn": 30, "error": 40, "off": 100}

_OF_EVENTS = {"message": _LEVELS["info"], "assertion_failed": _LEVELS["error"]}
"""The levels at which events of traces are logged; of the others the level of packets' ways."""
_LOGGED = ("log_msg", "assert", "assume")


class SwitchLog:
    """What is told of one switch: on the console, or in the file in its place, and in its log.

    With ``shares_console`` others may use the same console, where its name begins its lines. Raises
    ``InputError`` for a file that cannot be written. The console is standard output and error, or
    ``console``.
    """

    def __init__(
        self,
        options: SwitchOptions,
        *,
        shares_console: bool = False,
        console: tuple[TextIO, TextIO] | None = None,
    ) -> None:
        self._title = f"{options.name}: " if shares_console and options.console is None else ""
        self.out, self.errors = console or (sys.stdout, sys.stderr)
        level = _LEVELS[options.log_level]
        self._log = logging.Logger(options.name, level)
        self.packets = logging.Logger(f"packets of {options.name}", level)
        """What packets go through is logged here."""
        if options.console is not None:
            self.out = self.errors = _opened(options.console, "the console")
        self.handlers: list[logging.Handler] = []
        if options.log_console:
            self.handlers.append(logging.StreamHandler(self.out))
        if options.log_file is not None:
            with files.told_as_input(f"cannot write the log {str(options.log_file)!r}"):
                self.handlers.append(_log_file(options.log_file, options))
            self._log.addHandler(self.handlers[-1])
        self._log.addHandler(logging.NullHandler())  # without any, warnings go to standard error
        logging.addLevelName(LOG_LEVEL, "TRACE")
        for handler in self.handlers:
            handler.setFormatter(logging.Formatter(_PATTERN, "%H:%M:%S"))
            handler.setLevel(level)
            self.packets.addHandler(handler)
        self.logs_packets = bool(self.handlers) and level <= _LEVELS["info"]
        """Whether there is a log whose level, as with BMv2, includes what log_msg says; up to debug
        it has every packet's way."""

    def say(self, line: str) -> None:
        """Tell how things are."""
        self._log.info(line)
        print(f"{self._title}{line}", file=self.out, flush=True)

    def note(self, line: str) -> None:
        """Tell of an option that does nothing."""
        print(f"weft: note: {self._title}{line}", file=self.errors, flush=True)

    def log(self, level: int, line: str) -> None:
        """Have a line in the log alone."""
        self._log.log(level, line)


class ProcessLog:
    """What is told of all switches of a process, which the lines name: each log has it."""

    def __init__(self, logs: Sequence[SwitchLog]) -> None:
        self._logs = logs
        servers = logging.getLogger("weft.switch")
        servers.propagate = False
        servers.setLevel(1)
        self._handlers = [handler for log in logs for handler in log.handlers]
        for handler in self._handlers:
            servers.addHandler(handler)
        servers.addHandler(logging.NullHandler())

    def close(self) -> None:
        """Have no more of what servers say in these logs."""
        for handler in self._handlers:
            logging.getLogger("weft.switch").removeHandler(handler)

    def say(self, line: str) -> None:
        """Tell how things are."""
        self._tell(logging.INFO, line, [log.out for log in self._logs], line)

    def note(self, line: str) -> None:
        """Tell of what goes as it should."""
        self._tell(logging.INFO, line, [log.errors for log in self._logs], f"weft: note: {line}")

    def warn(self, line: str) -> None:
        """Tell of what does not."""
        self._tell(logging.WARNING, line, [log.errors for log in self._logs], f"weft: {line}")

    def _tell(self, level: int, line: str, consoles: Sequence[TextIO], text: str) -> None:
        for log in self._logs:
            log.log(level, line)
        for console in dict.fromkeys(consoles):
            print(text, file=console, flush=True)


class TraceLines:
    """A switch's trace as lines in a file, on its console or in its log, from a thread of its own.

    ``file`` is None for no file, ``-`` for the console, or a name; if that ends in .jsonl, JSON
    lines are written. Raises ``InputError`` for a file that cannot be written.
    """

    def __init__(
        self, process: SwitchProcess, number: int, file: str | None, log: SwitchLog
    ) -> None:
        self._process = process
        self._number = number
        self._name = process.config.switches[number].name
        self._log = log
        self._json = file is not None and Path(file).suffix == ".jsonl"
        self._file = log.out if file == "-" else _opened(file, "the trace") if file else None
        self._ended = threading.Event()
        self._passed = 0
        self._bmv2: Bmv2Log | None = None
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
        control = self._process.controls[self._number]
        if self._file is None:
            while not control.program_loaded:
                if self._ended.wait(STEP_S):
                    return
            if not self._log.packets.isEnabledFor(_LEVELS["debug"]):
                self._await_messages()
                if self._ended.is_set():
                    return
            self._process.traces.start(self._name)
            if self._log.packets.isEnabledFor(_LEVELS["debug"]):
                self._log.packets.info("packets are logged from here on")
        while not self._ended.wait(STEP_S):
            self.write()

    def _await_messages(self) -> None:
        """Wait until a program runs that calls log_msg, or for the end: of others nothing would be
        logged at this level, and a trace slows a switch."""
        without: list[Any] = []
        while not self._ended.wait(STEP_S):
            now = self._process.controls[self._number].pipelines
            if any(each not in without and _is_logged(each.program.document) for each in now):
                return
            without = now

    def _words(self) -> Bmv2Log:
        """Return what makes lines of events, which is of the program that runs."""
        program = self._process.controls[self._number].pipelines[0].program
        if self._bmv2 is None or self._bmv2.program is not program:
            self._bmv2 = Bmv2Log(program)
        return self._bmv2

    def write(self) -> None:
        """Write what has happened since the last time."""
        taken = self._process.traces.take(self._name)
        events: list[Event] = taken["events"]
        missed = taken["passed"] - self._passed
        self._passed = taken["passed"]
        if self._log.logs_packets:
            step = LOG_LEVEL if self._log.packets.isEnabledFor(LOG_LEVEL) else _LEVELS["debug"]
            for event in events:
                level = _OF_EVENTS.get(event["event"], step)
                if self._log.packets.isEnabledFor(level):
                    for line in self._words().lines(event):
                        self._log.packets.log(level, line)
            if missed:
                self._log.packets.warning("%d packets came too fast to be traced", missed)
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
            if self._file is not self._log.out:
                self._file.close()


def _opened(file: str | Path, what: str) -> TextIO:
    with files.told_as_input(f"cannot write {what} {str(file)!r}"):
        return open(files.create(Path(file)), "w", encoding="utf-8")


class _LogFile(RotatingFileHandler):
    """A log file takes the place of what was there before; no link is followed."""

    def _open(self) -> TextIOWrapper:
        return open(files.create(Path(self.baseFilename)), "w", encoding="utf-8")


def _log_file(path: Path, options: SwitchOptions) -> logging.Handler:
    """Return a log that begins a new file when one is full, and names older ones NAME.1.txt as BMv2
    does."""
    handler = _LogFile(path, maxBytes=options.log_file_bytes, backupCount=max(options.log_files, 1))
    handler.namer = lambda name: re.sub(r"\.txt(\.\d+)$", r"\1.txt", name)
    return handler


def _is_logged(part: Any) -> bool:
    """Return whether BMv2's JSON, or a part of it, calls what is logged."""
    if isinstance(part, dict):
        return part.get("op") in _LOGGED or any(map(_is_logged, part.values()))
    return isinstance(part, list) and any(map(_is_logged, part))
