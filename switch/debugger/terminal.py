"""The debugger at a terminal: its prompt and commands."""

import cmd
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

from weft.base import files
from weft.base.errors import InputError, WeftError
from weft.switch.debugger.debugger import Debugger, Frame, Mode, Stop
from weft.switch.debugger.expressions import assign, described, header_text
from weft.switch.debugger.packets import PacketSource, frame_of, report_lines
from weft.switch.debugger.places import Line
from weft.switch.engine.trace.text import event_text
from weft.switch.interpreter.steps import Step

AROUND = 5
"""How many lines ``list`` shows before and behind the one at which the packet is."""
MOST_SOURCE = 16 << 20

TOLD = frozenset((
    "received", "sent", "dropped", "parser_error", "message", "assertion_failed", "cloned",
    "multicast", "resubmitted", "recirculated",
))  # fmt: skip
"""What is told of a packet that goes on to the next breakpoint."""

SHORT = {
    "c": "continue", "r": "continue", "run": "continue", "s": "step", "n": "next", "o": "finish",
    "out": "finish", "b": "break", "d": "delete", "p": "print", "l": "list", "bt": "where",
    "q": "quit", "exit": "quit", "detach": "quit",
}  # fmt: skip


class DebuggerPrompt(cmd.Cmd):
    """The prompt of a debugger. An empty line repeats the last command.

    ``at_terminal``: whether somebody reads the answers before the next command.
    """

    def __init__(
        self,
        test: PacketSource,
        debugger: Debugger,
        commands: TextIO,
        answers: TextIO | None = None,
        *,
        at_terminal: bool = False,
    ) -> None:
        super().__init__(stdin=commands, stdout=answers)
        self.use_rawinput = commands is sys.stdin and commands.isatty()
        self.prompt = "(p4) " if self.use_rawinput or at_terminal else ""
        self.test, self.debugger = test, debugger
        self.traces = False
        self._stepping = False
        self._is_reported = False
        self._sources: dict[str, list[str]] = {}
        debugger.tell = self.told

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self.stdout, flush=True)

    def told(self, step: Step) -> None:
        """Print what has happened to a packet: all of it between two single steps."""
        if self.traces or self._stepping or step.event in TOLD:
            copy = f"copy {step.packet.copy}: " if step.packet.copy else ""
            self.say(f"  {copy}{event_text(step.as_event())}")

    # -- the prompt

    def onecmd(self, line: str) -> bool:
        """Carry out a command; return whether it was the last one. What is wrong with one is
        said."""
        word, _, rest = line.strip().partition(" ")
        if word in SHORT:
            line = f"{SHORT[word]} {rest}"
        try:
            return bool(super().onecmd(line))
        except WeftError as error:
            self.say(f"weft: {error}")
        except KeyboardInterrupt:
            self.say("")
        return False

    def default(self, line: str) -> None:
        """Refuse what is no command."""
        raise InputError(f"there is no command {line.partition(' ')[0]!r}; 'help' lists them")

    def do_EOF(self, _: str) -> bool:
        """Ctrl-D: end."""
        self.say("")
        return True

    def do_quit(self, _: str) -> bool:
        """quit (q): end."""
        return True

    def emptyline(self) -> bool:
        """Repeat the last command at a terminal."""
        return super().emptyline() if self.use_rawinput else False

    def completedefault(self, text: str, line: str = "", begin: int = 0, end: int = 0) -> list[str]:
        """Return the names of numbers that begin so."""
        word = line[:end].rpartition(" ")[2]
        return _ending(word, text, self.debugger.view.names())

    def complete_break(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Return the places that begin so."""
        word = line[:end].rpartition(" ")[2]
        return _ending(word, text, (each.name for each in self.debugger.places.named))

    # -- going on

    def go(self, mode: Mode) -> None:
        """Go on, and say where the packet has stopped."""
        if self.debugger.ended and self.test.more():
            self.debugger.steps, self.debugger.ended = self.test.steps(), False
        if self.debugger.ended:
            raise InputError("there is no packet left: send PORT HEX sends one")
        self._stepping = mode != "continue"
        while True:
            try:
                stop = self.debugger.resume(mode)
                break
            except KeyboardInterrupt:
                self._stepping = True
                mode = "in"
        self.show(stop)

    def show(self, stop: Stop) -> None:
        """Say why it has stopped, and where."""
        if stop.reason == "end":
            self.say("no packet is left")
            self._tell_report()
            return
        if stop.reason == "failed":
            self.say(f"weft: {stop.text}")
            return
        if stop.breakpoints:
            known = self.debugger.breakpoints.all
            self.say(f"breakpoint {', '.join(str(known[one]) for one in stop.breakpoints)}")
        if stop.text:
            self.say(f"weft: {stop.text}")
        if not self.debugger.stack:
            self.say("no packet is here")
            return
        self.say(" > ".join(frame.name for frame in self.debugger.stack))
        line = self.debugger.line
        if line is not None:
            self.say(f"{line}: {self._text(line).strip()}")

    def _tell_report(self) -> None:
        report = self.test.report
        if report is None or self._is_reported:
            return
        self._is_reported = True
        for line in report_lines(report):
            self.say(line)

    def do_continue(self, _: str) -> None:
        """continue (c, run): go on to the next breakpoint, or the end of the test."""
        self.go("continue")

    def do_step(self, _: str) -> None:
        """step (s): one step on, into the action of a table."""
        self.go("in")

    def do_next(self, _: str) -> None:
        """next (n): one step on, over the action of a table."""
        self.go("over")

    def do_finish(self, _: str) -> None:
        """finish (out, o): go on until the action is left; outside of actions, the block."""
        self.go("out")

    def do_send(self, line: str) -> None:
        """send PORT HEX: let a packet come in at a port, before those that are left of the test;
        it begins where the packet that is stopped has ended."""
        self.test.send(*frame_of(line))

    # -- breakpoints

    def do_break(self, line: str) -> None:
        """break (b) PLACE [if CONDITION]: stop at a place: LINE, FILE:LINE, or the name of a
        state, table, action or block (parser, ingress, egress, deparser). Without a place: all
        breakpoints."""
        if line.strip():
            self.say(f"breakpoint {self.debugger.breakpoints.add_text(line)}")
            return
        for one in self.debugger.breakpoints.all.values():
            self.say(str(one))

    def do_delete(self, line: str) -> None:
        """delete (d) [NUMBER...]: remove breakpoints, or all of them."""
        points = self.debugger.breakpoints
        for word in line.split() or map(str, [*points.all]):
            if not (word.isdecimal() and word.isascii() and len(word) < 10):
                raise InputError(f"a breakpoint has a number, not {word!r}")
            points.remove(int(word))

    def do_places(self, _: str) -> None:
        """places: all states, tables, actions and blocks at which one can stop."""
        for one in self.debugger.places.named:
            self.say(str(one))

    # -- looking

    def do_where(self, _: str) -> None:
        """where (bt): the blocks that the packet is in, from the innermost on."""
        for depth, frame in enumerate(reversed(self._stopped())):
            at = f" at {frame.line}" if frame.line else ""
            self.say(f"#{depth} {frame.name}{at}")

    def do_list(self, line: str) -> None:
        """list (l) [LINE]: the source around a line, or around where the packet is."""
        at = self.debugger.line
        if line.strip():
            if not (line.strip().isdecimal() and line.isascii() and len(line) < 10):
                raise InputError(f"a line has a number, not {line.strip()!r}")
            lines = self.debugger.places.lines
            file = at.file if at else lines[0].file if lines else ""
            at = Line(file, int(line))
        if at is None:
            raise InputError("nothing is stopped at a line: list LINE")
        text = self._source(at.file)
        for number in range(max(at.number - AROUND, 1), min(at.number + AROUND, len(text)) + 1):
            mark = ">" if at == Line(at.file, number) else " "
            self.say(f"{mark}{number:5} {text[number - 1]}")

    def do_print(self, line: str) -> None:
        """print (p) EXPRESSION: the value of a P4 expression, as hdr.ipv4.ttl - 1 or
        hdr.ipv4.isValid() && meta.class == 3; of a header, all of its fields; of hdr, all
        headers."""
        self._stopped()
        if line.strip() == "hdr":
            self.do_headers(line)
        else:
            self.say(described(line, self.debugger.view))

    def do_headers(self, _: str) -> None:
        """headers: the valid headers with their fields, and which are not valid."""
        self._stopped()
        view = self.debugger.view
        valid = [name for name in view.headers() if view.packet.is_valid(name)]
        for name in valid:
            self.say(f"hdr.{name} = {header_text(name, view)}")
        others = [f"hdr.{name}" for name in view.headers() if name not in valid]
        if others:
            self.say(f"not valid: {', '.join(others)}")

    def do_metadata(self, _: str) -> None:
        """metadata: the program's metadata, and the standard metadata."""
        view = self.debugger.view
        self._tell([*view.metadata(), *view.standard()])

    def do_locals(self, _: str) -> None:
        """locals: the arguments of the action, and the variables of all blocks."""
        view = self.debugger.view
        self._tell([*(name for name, _ in view.parameters), *view.variables()])

    def _tell(self, names: list[str]) -> None:
        self._stopped()
        view = self.debugger.view
        for name in names:
            self.say(f"{name} = {view.text(view.find(name))}")

    def do_names(self, _: str) -> None:
        """names: every name of a number that there is."""
        for name in self.debugger.view.names():
            self.say(name)

    def do_payload(self, _: str) -> None:
        """payload: the bytes behind the headers, once the packet is parsed."""
        self._stopped()
        self.say(self.debugger.view.packet.payload.hex() or "empty")

    def do_registers(self, line: str) -> None:
        """registers NAME [FIRST [COUNT]]: cells of a register, as registers seen 0 8."""
        self.say(self.test.memory.register_text(line))

    def do_set(self, line: str) -> None:
        """set NAME = EXPRESSION: change a field, a variable, or an argument; set HEADER = true or
        false makes a header valid or not."""
        target, equals, value = line.partition("=")
        if not equals or not value.strip():
            raise InputError("set NAME = EXPRESSION")
        self._stopped()
        assign(target.strip(), value.strip(), self.debugger.view)
        self.do_print(target)

    def do_trace(self, line: str) -> None:
        """trace on|off: tell everything that happens to packets, or only what comes and goes."""
        if line.strip() not in ("on", "off"):
            raise InputError("trace on, or trace off")
        self.traces = line.strip() == "on"

    def _stopped(self) -> list[Frame]:
        if not self.debugger.stack:
            raise InputError("no packet is stopped: set a breakpoint and continue, or step")
        return self.debugger.stack

    def _source(self, file: str) -> list[str]:
        if file not in self._sources:
            self._sources[file] = []
            with suppress(OSError, UnicodeError, InputError):
                path = self.debugger.places.path(file)
                self._sources[file] = files.read_text(path, MOST_SOURCE, endings=()).split("\n")
        return self._sources[file]

    def _text(self, line: Line) -> str:
        source = self._source(line.file)
        return source[line.number - 1] if line.number <= len(source) else ""


def _ending(word: str, text: str, names: Iterator[str]) -> list[str]:
    """Return how names that begin with a word go on behind what readline has of it already."""
    return [name[len(word) - len(text) :] for name in names if name.startswith(word)]
