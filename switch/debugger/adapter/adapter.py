"""The debug adapter: requests in, responses and events out.

Debug Adapter Protocol 1.x: https://microsoft.github.io/debug-adapter-protocol/specification
"""

import queue
import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, BinaryIO

from weft.base.errors import InputError, WeftError
from weft.switch.debugger.adapter import variables
from weft.switch.debugger.adapter.framing import (
    MalformedMessageError,
    Message,
    encoded,
    read_message,
)
from weft.switch.debugger.debugger import Debugger, Mode
from weft.switch.debugger.expressions import assign, described
from weft.switch.debugger.packets import PacketSource, report_lines
from weft.switch.debugger.places import Line, Named
from weft.switch.debugger.terminal import TOLD
from weft.switch.engine.trace.text import event_text
from weft.switch.interpreter.steps import Step

Launch = Callable[[Mapping[str, Any]], tuple[PacketSource, Debugger]]

CAPABILITIES = (
    "supportsConfigurationDoneRequest", "supportsFunctionBreakpoints",
    "supportsConditionalBreakpoints", "supportsSetVariable", "supportsEvaluateForHovers",
    "supportsTerminateRequest",
)  # fmt: skip

THREAD = 1
"""One packet is looked at at a time."""

GOING_ON: dict[str, Mode] = {
    "continue": "continue", "next": "over", "stepIn": "in", "stepOut": "out",
}  # fmt: skip
"""Requests after which the packet goes on."""


class Adapter:
    """An adapter between an editor and a debugger, which `launch` makes of the editor's arguments.

    Requests are answered one after the other, also while packets run.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, launch: Launch) -> None:
        self._incoming, self._outgoing, self._launch = incoming, outgoing, launch
        self._requests: queue.Queue[Message | MalformedMessageError | None] = queue.Queue()
        self._numbers = count(1)
        self._base = 1
        """The number of the first line, and of the first column."""
        self._test: PacketSource | None = None
        self._debugger: Debugger | None = None
        self._stops_on_entry = False
        self._mode: Mode | None = None
        """How the packet is to go on, once the request is answered."""
        self._pausing = self._ended = self._over = False

    def serve(self) -> None:
        """Answer until the editor disconnects, or closes its end."""
        threading.Thread(target=self._read, name="debug adapter", daemon=True).start()
        while not self._ended:
            self._answer(self._requests.get())
            if self._mode is not None:
                self._go()

    def _read(self) -> None:
        while True:
            try:
                message = read_message(self._incoming)
            except MalformedMessageError as error:
                self._requests.put(error)
                continue
            except (OSError, ValueError):
                message = None
            self._requests.put(message)
            if message is None:
                return

    # -- messages

    def _send(self, kind: str, **content: Any) -> None:
        message = {"seq": next(self._numbers), "type": kind, **content}
        try:
            self._outgoing.write(encoded(message))
            self._outgoing.flush()
        except (OSError, ValueError):
            self._ended = True

    def _event(self, event: str, **body: Any) -> None:
        self._send("event", event=event, body=body)

    def _output(self, text: str, category: str = "console") -> None:
        self._event("output", category=category, output=f"{text}\n")

    def _refuse(self, seq: Any, command: str, why: str) -> None:
        error = {"id": 1, "format": why.replace("{", "(").replace("}", ")"), "showUser": True}
        self._send("response", request_seq=seq if isinstance(seq, int) else 0, success=False,
                   command=command, message=why, body={"error": error})  # fmt: skip

    def _answer(self, message: Message | MalformedMessageError | None) -> None:
        """Answer a request, or say what is wrong with it."""
        if message is None:
            self._ended = True
            return
        if isinstance(message, MalformedMessageError):
            self._refuse(0, "", str(message))
            return
        seq, command = message.get("seq"), message.get("command")
        if message.get("type") == "response":
            return
        if message.get("type") != "request" or not isinstance(command, str):
            self._refuse(seq, str(command), "a message is no request with a command")
            return
        arguments = message.get("arguments") or {}
        method = getattr(self, f"_do_{command}", None) if command.isidentifier() else None
        try:
            if not isinstance(arguments, dict) or not isinstance(seq, int):
                raise InputError(f"{command} needs a number 'seq', and an object as arguments")
            if method is not None:
                body = method(arguments)
            elif command in GOING_ON:
                body = self._go_on(command)
            else:
                raise InputError(f"there is no request {command!r}")
        except WeftError as error:
            self._refuse(seq, command, str(error))
            return
        except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
            self._refuse(seq, command, f"{command} has wrong arguments: {error!r}")
            return
        self._send("response", request_seq=seq, success=True, command=command, body=body or {})
        if command in ("launch", "attach"):
            self._event("initialized")

    # -- from the start to the end

    def _do_initialize(self, arguments: Message) -> Message:
        self._base = 0 if arguments.get("linesStartAt1") is False else 1
        return dict.fromkeys(CAPABILITIES, True)

    def _do_launch(self, arguments: Message) -> None:
        self._test, self._debugger = self._launch(arguments)
        self._stops_on_entry = bool(arguments.get("stopOnEntry"))
        self._debugger.tell = self._tell
        self._debugger.paused, self._debugger.idle = self._look, self._look_for_the_end

    _do_attach = _do_launch

    def _do_configurationDone(self, _: Message) -> None:
        self._ready()
        self._mode = "in" if self._stops_on_entry else "continue"

    def _do_disconnect(self, _: Message) -> None:
        self._ended = True

    def _do_terminate(self, _: Message) -> None:
        self._finish(0)

    def _ready(self) -> Debugger:
        if self._debugger is None:
            raise InputError("nothing is launched")
        return self._debugger

    def _stopped(self) -> Debugger:
        debugger = self._ready()
        if self._mode is not None or self._over or not debugger.stack:
            raise InputError("no packet is stopped")
        return debugger

    # -- going on

    def _go_on(self, command: str) -> Message:
        self._stopped()
        self._mode = GOING_ON[command]
        return {"allThreadsContinued": True} if command == "continue" else {}

    def _do_pause(self, _: Message) -> None:
        self._ready()
        self._pausing = self._mode is not None

    def _go(self) -> None:
        """Let packets go on; requests are answered meanwhile."""
        debugger, mode = self._ready(), self._mode
        assert mode is not None
        self._pausing = False
        stop = debugger.resume(mode)
        while stop.reason == "pause" and not (debugger.stack or self._ended or self._over):
            stop = debugger.resume("in")  # the packet has left: it is to stop in the next one
        self._mode = None
        if self._ended or self._over:
            return
        if stop.reason in ("end", "failed"):
            if stop.text:
                self._output(stop.text, "stderr")
            self._finish(self._report())
            return
        if stop.text:
            self._output(stop.text, "stderr")
        reason: str = stop.reason
        if reason == "step" and self._stops_on_entry:
            reason = "entry"
        if stop.breakpoints:
            at = debugger.breakpoints.all[stop.breakpoints[0]].at
            reason = "function breakpoint" if isinstance(at, Named) else "breakpoint"
        self._stops_on_entry = False
        self._event("stopped", reason=reason, threadId=THREAD, allThreadsStopped=True,
                    hitBreakpointIds=list(stop.breakpoints))  # fmt: skip

    def _look(self) -> bool:
        """Answer what has come while packets run; return whether they are to stop."""
        while not self._requests.empty():
            self._answer(self._requests.get())
        return self._pausing or self._ended or self._over

    def _look_for_the_end(self) -> bool:
        """Answer what has come while there is no packet; return whether to wait for none. A pause
        is in the next one that comes."""
        self._look()
        return self._ended or self._over

    def _report(self) -> int:
        """Tell what has come of the test; return the exit status."""
        report = self._test.report if self._test else None
        if report is None:
            return 0
        for line in report_lines(report):
            self._output(line, "stdout")
        return int(bool(report.failures))

    def _finish(self, status: int) -> None:
        if not self._over:
            self._over = True
            self._event("exited", exitCode=status)
            self._event("terminated")

    def _tell(self, step: Step) -> None:
        if step.event in TOLD:
            copy = f"copy {step.packet.copy}: " if step.packet.copy else ""
            self._output(f"{copy}{event_text(step.as_event())}")

    # -- breakpoints

    def _do_setBreakpoints(self, arguments: Message) -> Message:
        debugger = self._ready()
        points, source = debugger.breakpoints, arguments["source"]
        file = str(source.get("path") or source.get("name"))
        own = debugger.places.file(file)
        for number, one in [*points.all.items()]:
            if isinstance(one.at, Line) and one.at.file == own:
                points.remove(number)
        found = []
        for asked in arguments.get("breakpoints") or ():
            try:
                at = debugger.places.line(file, int(asked["line"]) + 1 - self._base)
                new = points.add(at, asked.get("condition") or "")
            except InputError as error:
                found.append({"verified": False, "message": str(error)})
                continue
            line = at.number - 1 + self._base
            found.append({"id": new.number, "verified": True, "line": line, "source": source})
        return {"breakpoints": found}

    def _do_setFunctionBreakpoints(self, arguments: Message) -> Message:
        points = self._ready().breakpoints
        for number, one in [*points.all.items()]:
            if isinstance(one.at, Named):
                points.remove(number)
        found: list[Message] = []
        for asked in arguments["breakpoints"]:
            try:
                at = points.places.name(str(asked["name"]))
                new = points.add(at, asked.get("condition") or "")
            except InputError as error:
                found.append({"verified": False, "message": str(error)})
                continue
            found.append({"id": new.number, "verified": True})
        return {"breakpoints": found}

    def _do_setExceptionBreakpoints(self, _: Message) -> Message:
        return {"breakpoints": []}

    # -- looking

    def _do_threads(self, _: Message) -> Message:
        name = self._debugger.stack[0].name if self._debugger and self._debugger.stack else "packet"
        return {"threads": [{"id": THREAD, "name": name}]}

    def _do_stackTrace(self, arguments: Message) -> Message:
        debugger = self._stopped()
        frames = []
        for depth, frame in reversed([*enumerate(debugger.stack)]):
            item: Message = {"id": depth + 1, "name": frame.name, "line": 0, "column": 0}
            if frame.line is not None:
                path = debugger.places.path(frame.line.file)
                item |= {
                    "line": frame.line.number - 1 + self._base,
                    "column": self._base,
                    "source": {"name": path.name, "path": str(path)},
                }
            frames.append(item)
        first = max(int(arguments.get("startFrame") or 0), 0)
        levels = int(arguments.get("levels") or 0) or len(frames)
        return {"stackFrames": frames[first : first + levels], "totalFrames": len(frames)}

    def _do_scopes(self, _: Message) -> Message:
        self._stopped()
        return {"scopes": variables.scopes()}

    def _do_variables(self, arguments: Message) -> Message:
        view = self._stopped().view
        return {"variables": variables.variables(int(arguments["variablesReference"]), view)}

    def _do_setVariable(self, arguments: Message) -> Message:
        view = self._stopped().view
        reference, name = int(arguments["variablesReference"]), str(arguments["name"])
        return {"value": variables.set_variable(reference, name, str(arguments["value"]), view)}

    def _do_evaluate(self, arguments: Message) -> Message:
        """Return the value of an expression; ``NAME = EXPRESSION`` changes what a name means."""
        view, text = self._stopped().view, str(arguments["expression"])
        target, equals, value = text.partition("=")
        if equals and value[:1] != "=" and target[-1:] not in ("!", "<", ">", "="):
            assign(target.strip(), value.strip(), view)
            text = target
        return {"result": described(text.strip(), view), "variablesReference": 0}
