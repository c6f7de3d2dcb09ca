"""Debuggers of the switches of a running process, each at the other end of a stream socket.

What goes over the stream is what goes over a terminal, or the debug adapter protocol. The end of
the stream is the end of the debugging, whoever ends it: the switch has its packets again then.
"""

import select
import socket
import threading
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TextIO, cast

from weft.base.errors import InputError, refuse
from weft.switch.debugger.adapter.adapter import Adapter
from weft.switch.debugger.attached import AttachedSwitch
from weft.switch.debugger.debugger import Debugger
from weft.switch.debugger.places import Places
from weft.switch.debugger.terminal import DebuggerPrompt
from weft.switch.realtime.process import SwitchProcess

KINDS = ("terminal", "commands", "dap")
"""What is at the other end: somebody who reads, a list of commands, an editor."""


class CommandLines:
    """The lines that come over a socket, as they come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines: deque[str] = deque()
        self._changed = threading.Condition()
        self._ended = self._gone = False
        threading.Thread(target=self._read, name="debugger", daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._connection.makefile("r", encoding="utf-8", errors="replace"):
                self._note(line)
            self._note("")
            poll = select.poll()
            poll.register(self._connection, 0)  # POLLHUP: nobody reads answers any more
            poll.poll()
        with self._changed:
            self._ended = self._gone = True
            self._changed.notify_all()

    def _note(self, line: str) -> None:
        with self._changed:
            self._ended |= not line
            if line:
                self._lines.append(line)
            self._changed.notify_all()

    def readline(self) -> str:
        """Return the next line, or nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended)
            return self._lines.popleft() if self._lines else ""

    def stops(self) -> bool:
        """Return whether packets are to stop: an empty line has come, or nobody is there."""
        with self._changed:
            if self._lines and not self._lines[0].strip():
                self._lines.popleft()
                return True
            return self._gone


class Debugging:
    """The debuggers that are attached to switches of a process: one each at most."""

    def __init__(self, process: SwitchProcess) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._attached: dict[str, socket.socket] = {}

    def close(self) -> None:
        """End all of them."""
        with self._lock, suppress(OSError):
            for connection in self._attached.values():
                connection.shutdown(socket.SHUT_RDWR)

    def serve(self, connection: socket.socket, name: str, kind: str, folder: str) -> None:
        """Debug a switch until the stream ends; ``folder`` is where the sources of its program are.
        An empty document says that it is attached.

        Raises InputError for what cannot be debugged; then nothing was sent.
        """
        controls = {control.name: control for control in self._process.controls}
        if name not in controls:
            raise InputError(f"there is no switch {name!r}; there are: {', '.join(controls)}")
        if kind not in KINDS:
            raise InputError(f"a debugger is one of {', '.join(KINDS)}, not {kind!r}")
        switch = AttachedSwitch(self._process.dataplane, controls[name])
        places = Places(switch.loaded.program.document, Path(folder))
        debugger = Debugger(switch.program, places, switch.steps())
        with self._lock:
            refuse(name in self._attached, f"switch {name!r} is debugged already")
            self._attached[name] = connection
        try:
            switch.attach()
            with ExitStack() as at_end:
                at_end.callback(switch.detach)
                at_end.callback(switch.leave, debugger.steps)
                with suppress(OSError):  # whoever debugs has gone
                    connection.settimeout(None)
                    connection.sendall(b"{}\n")
                    _debug(connection, kind, switch, debugger)
        finally:
            with self._lock:
                del self._attached[name]
        with suppress(OSError):
            if kind != "dap":
                connection.sendall(_ended(name, switch).encode())
            connection.shutdown(socket.SHUT_RDWR)


def _debug(
    connection: socket.socket, kind: str, switch: AttachedSwitch, debugger: Debugger
) -> None:
    if kind == "dap":
        incoming, outgoing = connection.makefile("rb"), connection.makefile("wb")
        Adapter(incoming, outgoing, lambda _: (switch, debugger)).serve()
        return
    commands = CommandLines(connection)
    debugger.paused = debugger.idle = commands.stops
    answers = connection.makefile("w", encoding="utf-8")
    at_terminal = kind == "terminal"
    lines = cast(TextIO, commands)
    DebuggerPrompt(switch, debugger, lines, answers, at_terminal=at_terminal).cmdloop()


def _ended(name: str, switch: AttachedSwitch) -> str:
    dropped = f"; {switch.dropped} packets found no room" if switch.dropped else ""
    return f"{name} has its packets again{dropped}\n"
