"""The debugger itself: it takes one step of a packet after the other, and stops where it is to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from weft.base.errors import WeftError
from weft.switch.debugger.breakpoints import Breakpoints
from weft.switch.debugger.places import Line, Named, Places, line_of
from weft.switch.debugger.values import View
from weft.switch.interpreter.description import Description
from weft.switch.interpreter.packet import Packet
from weft.switch.interpreter.steps import PAUSES, Choice, Entered, Step

Mode = Literal["continue", "in", "over", "out"]
Reason = Literal["entry", "step", "breakpoint", "pause", "failed", "end"]

QUIET = PAUSES | {"primitive", "choice"}
"""Events that nobody is told."""

WAITING = "waiting"
"""The event of a step that no packet takes: none is there."""

_KINDS = {"parser_state": "state", "action": "action", "block": "block"}
PACKET, BLOCK, NODE, ACTION = range(4)
"""The depths of a stack: a packet is in a block, in a state or a node of it, and in an action."""


@dataclass
class Frame:
    """A packet, or a block, state, table or action that it is in."""

    name: str
    line: Line | None = None


@dataclass(frozen=True)
class Stop:
    """Why the debugger has stopped; ``text`` says more of it."""

    reason: Reason
    text: str = ""
    breakpoints: tuple[int, ...] = ()


@dataclass
class Debugger:
    """A debugger of packets, whose steps come from ``steps``.

    ``tell`` is called with all that happens to packets meanwhile; ``paused`` is asked at each step
    whether to stop there, and ``idle``, while no packet is there, whether to wait no longer.
    """

    program: Description
    places: Places
    steps: Iterator[Step]
    tell: Callable[[Step], None] = lambda step: None
    paused: Callable[[], bool] = lambda: False
    idle: Callable[[], bool] = lambda: False
    breakpoints: Breakpoints = field(init=False)
    stack: list[Frame] = field(default_factory=list)
    """From the packet on inwards."""
    step: Step | None = None
    """What comes next, where it has stopped."""
    ended: bool = False

    def __post_init__(self) -> None:
        self.breakpoints = Breakpoints(self.places)
        self._parameters: list[tuple[str, int]] = []
        self._arguments: list[int] = []
        self._selected = 0

    @property
    def packet(self) -> Packet | None:
        """Return the packet that has stopped."""
        return None if self.step is None else self.step.packet

    @property
    def view(self) -> View:
        """Return what can be seen of the packet."""
        packet = self.packet or Packet(self.program, b"")
        return View(self.program, packet, self._parameters, self._arguments)

    @property
    def line(self) -> Line | None:
        """Return the line at which it has stopped."""
        return self.stack[-1].line if self.stack else None

    # -- going on

    def resume(self, mode: Mode) -> Stop:
        """Go on: to a breakpoint, or but for one step: into actions, over them, or out of the
        action, the state, or the block."""
        start = (self.packet, list(self.stack), len(self.stack) - 1, self.line)
        before = (self.stack[-1] if self.stack else None, self.line)
        while True:
            try:
                step = next(self.steps, None)
            except WeftError as error:
                self._forget()
                return Stop("failed", str(error))
            if step is None:
                self._forget()
                self.ended = True
                return Stop("end")
            if step.event == WAITING:
                self._forget()
                has_left = mode != "continue" and start[0] is not None
                if self.idle() or has_left:
                    return Stop("pause")
                continue
            named = self._note(step)
            if step.event not in QUIET:
                self.tell(step)
            if named is None and not self._is_place(step):
                continue
            self.step = step
            line = line_of(step.source)
            now = (self.stack[-1], line)
            arrived = now != before or named is not None
            before = now
            if not arrived:
                continue
            numbers, wrong = self.breakpoints.hit(line, named, self.view)
            if numbers:
                return Stop("breakpoint", wrong, tuple(numbers))
            if self.paused():
                return Stop("pause")
            if self._is_reached(mode, *start):
                return Stop("step")

    def _forget(self) -> None:
        self.step, self.stack = None, []
        self._parameters, self._arguments = [], []

    def _is_place(self, step: Step) -> bool:
        """Return whether one can stop before a step."""
        if step.event == "node":
            return step.told["node"] not in self.places.statements
        return step.event in ("operation", "transition", "primitive") and step.source is not None

    def _is_reached(
        self, mode: Mode, packet: Packet | None, stack: list[Frame], depth: int, line: Line | None
    ) -> bool:
        if mode == "continue":
            return False
        if self.packet is not packet or not stack:
            return len(self.stack) > NODE
        now = len(self.stack) - 1
        if mode == "in":
            return now >= NODE
        if mode == "over":
            return NODE <= now <= depth or (now >= NODE and self.stack[BLOCK] is not stack[BLOCK])
        if depth == ACTION:
            return now == NODE
        return now >= NODE and self.stack[BLOCK] is not stack[BLOCK]

    def _note(self, step: Step) -> Named | None:
        """Follow a step with the stack; return the place that it enters, if that has a name."""
        stack, told = self.stack, step.told
        match step.event:
            case "received" | "egress":
                where = "ingress" if step.event == "received" else "egress"
                copy = f", copy {step.packet.copy}" if step.packet.copy else ""
                self.stack = [Frame(f"packet at {where}, port {told['port']}{copy}")]
            case "block":
                self._enter(BLOCK, told["block"], step)
            case "parser_state":
                self._enter(NODE, told["state"], step)
            case "node":
                name = told["node"]
                self._enter(NODE, name, step)
                kind = "table" if told["kind"] == "tables" else "node"
                if kind == "table" and name not in self.places.statements:
                    return Named("table", name)
                return None
            case "action":
                self._arrive(step)
                if told["action"] in self.places.statements:
                    return None
                self._enter(ACTION, told["action"], step)
                return Named("action", told["action"])
            case "operation" | "transition" | "primitive":
                if stack:
                    stack[-1].line = line_of(step.source) or stack[-1].line
        entered = _KINDS.get(step.event)
        if entered is None:
            return None
        return Named(entered, told[step.event.removeprefix("parser_")])

    def _arrive(self, step: Step) -> None:
        """Take the arguments of an action."""
        entry = self.program.action_names[step.told["action"]]
        self._parameters = [(item["name"], item["bitwidth"]) for item in entry["runtime_data"]]
        self._arguments = step.arguments if isinstance(step, Entered) else []

    def _enter(self, depth: int, name: str, step: Step) -> None:
        """Put a frame on the stack; what was at its place and above it is left."""
        while len(self.stack) < depth:
            self.stack.append(Frame("?"))
        del self.stack[depth:]
        self.stack.append(Frame(name, line_of(step.source)))
        if depth < ACTION:
            self._parameters, self._arguments = [], []


def usual(choice: Choice) -> int:
    """Return what a switch would choose; of random numbers the first."""
    return choice.usual or 0
