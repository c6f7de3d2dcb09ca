"""Where a debugger's packets come from: a packet test, and single packets besides."""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from weft.base.errors import InputError, RunError
from weft.switch.debugger.debugger import usual
from weft.switch.debugger.memory import LiveMemory, is_number
from weft.switch.interpreter.description import Description
from weft.switch.interpreter.interpreter import Interpreter, Sent, follow
from weft.switch.interpreter.steps import Step
from weft.switch.interpreter.surroundings import Surroundings
from weft.switch.stf.build import MOST_PORT
from weft.switch.stf.report import Output, Report, StfFailure
from weft.switch.stf.run import TestRun
from weft.switch.stf.statements import SendPacket, StfStatement, Test

MOST_FRAME = 1 << 16


def frame_of(text: str) -> tuple[int, bytes]:
    """Return the port and the frame of a packet that is written ``PORT HEX``. Raises
    InputError."""
    port, _, digits = text.strip().partition(" ")
    try:
        frame = bytes.fromhex(digits)
    except ValueError:
        frame = b""
    if not is_number(port) or int(port) > MOST_PORT or not 0 < len(frame) <= MOST_FRAME:
        raise InputError(
            f"{text.strip()[:60]!r} is no packet: PORT HEX, as 1 ffffffffffff02000000, port "
            f"0 to {MOST_PORT}"
        )
    return int(port), frame


def report_lines(report: Report) -> list[str]:
    """Return what has come of a test, in lines."""
    failures = [line for failure in report.failures for line in failure.lines()]
    outcome = f"{len(report.failures)} failures" if report.failures else "passed"
    counts = f"{report.packets} packets sent, {report.expectations} expectations"
    return [*report.warnings, *report.notes, *failures, f"{report.file}: {outcome}; {counts}"]


class PacketSource(Protocol):
    """Where packets come from, and what they leave behind."""

    memory: LiveMemory
    report: Report | None
    """What has come of a test, once it has ended."""

    def send(self, port: int, frame: bytes) -> None:
        """Let a packet come in before all others."""

    def more(self) -> bool:
        """Return whether a packet is left."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all packets."""


class DebuggedTest:
    """A packet test whose packets are interpreted, one step after the other, on the tables,
    registers and counters of a switch of the engine. Without a test there are only single packets.
    """

    def __init__(self, test: Test | None, bmv2_json: str, priority_queues: int = 1) -> None:
        """Raises InputError or ProgramError for a program that cannot be loaded."""
        whole = test or Test("", ())
        self.run = TestRun(whole, bmv2_json, False, False, False, priority_queues)
        self.waiting: deque[StfStatement] = deque(whole.statements)
        self.single: deque[tuple[int, bytes]] = deque()
        """Ports and frames that come before what is left of the test."""
        self.program = Description(self.run.control.pipelines[0].program.document)
        self.memory = LiveMemory.of_switch(self.run.control)
        self.report: Report | None = None
        """What has come of the test, once it has ended."""
        self._has_test = test is not None

    def send(self, port: int, frame: bytes) -> None:
        """Send a single packet before what is left of the test."""
        self.single.append((port, frame))

    def more(self) -> bool:
        """Return whether a packet is left."""
        return bool(self.single or self.waiting)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all packets."""
        while self.single or self.waiting:
            if self.single:
                self.run.control.publish()
                yield from self._interpreted(*self.single.popleft())
                continue
            statement = self.waiting.popleft()
            if isinstance(statement, SendPacket):
                yield from self._send(statement)
            else:
                self.run.carry_out(statement)
        if self._has_test and self.report is None:
            self.report = self.run.finish()

    def _send(self, packet: SendPacket) -> Iterator[Step]:
        self.run.start(packet)
        try:
            for step in self._interpreted(packet.port, packet.frame):
                if isinstance(step, Sent):
                    self.run.outputs.append(Output(step.port, step.frame, packet))
                yield step
        except RunError as error:
            text = f"the switch failed on this packet: {error}"
            self.run.result.failures.append(StfFailure("engine", packet.place, text, packet.port))
        self.run.note_assertions(packet, self.memory.failed_assertions)

    def _interpreted(self, port: int, frame: bytes) -> Iterator[Step]:
        control, dataplane = self.run.control, self.run.dataplane
        self.memory.contents, self.memory.now_ns = control.contents(), self.run.now_ns
        around = Surroundings(
            drop_port=dataplane.drop_port,
            priorities=dataplane.memory.priorities,
            now_us=self.run.now_ns // 1000,
            has_port=lambda number: 0 <= number <= MOST_PORT,
        )
        program = control.pipelines[0].program
        switch = Interpreter(program, self.memory.contents, self.memory, around)
        return follow(switch.run(port, frame), usual)
