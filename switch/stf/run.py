"""Carrying out a test on a switch of its own, in virtual time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.base.errors import RunError, WeftError, refuse
from weft.switch.engine.control.errors import ControlError
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.decoder import Decoder
from weft.switch.engine.trace.entries import no_queue
from weft.switch.engine.trace.text import packets_text
from weft.switch.engine.trace.tracer import Tracer
from weft.switch.stf import commands
from weft.switch.stf.build import MOST_PORT
from weft.switch.stf.report import Output, PacketPath, Report, StfFailure, compare_port
from weft.switch.stf.statements import (
    Add,
    CheckCell,
    Command,
    Expect,
    NewGroup,
    NewMember,
    NoPacket,
    Remove,
    RemoveEntry,
    SendPacket,
    SetDefault,
    StfStatement,
    Test,
    Wait,
)
from weft.switch.stf.tables import Tables

PACKET_GAP_NS = 1_000_000
SETTLE_NS = 1_000_000_000
"""The time that passes before a packet after the test changed something, as in p4c's runner."""


def run_test(
    test: Test,
    bmv2_json: str,
    *,
    compiled: bool = False,
    strict: bool = False,
    trace: bool = False,
    priority_queues: int = 1,
) -> Report:
    """Run a test on a new switch with a program.

    Each port has ``priority_queues`` queues. With ``strict`` a packet that leaves at a port that no
    statement names is a failure, too. With ``trace`` the report has the path of every packet. A
    failure has the path of its packet in any case: the test is run once more for it. Raises
    `InputError` for a test that does not fit the program, or a program that cannot be loaded.
    """
    report = TestRun(test, bmv2_json, compiled, strict, trace, priority_queues).report()
    if report.failures and not trace:
        again = TestRun(test, bmv2_json, False, strict, True, priority_queues).report()
        if [each.message for each in again.failures] == [each.message for each in report.failures]:
            report.failures = again.failures
    return report


class TestRun:
    """A run has a switch, and knows what a test has done to it so far."""

    __test__ = False  # to pytest

    def __init__(
        self,
        test: Test,
        bmv2_json: str,
        compiled: bool,
        strict: bool,
        trace: bool,
        priority_queues: int,
    ) -> None:
        self.test = test
        self.strict = strict
        self.result = Report(test.file)
        self.dataplane = Dataplane(
            1, MOST_PORT + 1, plain=not compiled, priority_queues=priority_queues
        )
        self.dataplane.on_denied = self._warn_denied
        for port in range(MOST_PORT + 1):
            self.dataplane.set_port(0, port, Queue())
        self.control = self.dataplane.control(0, "the switch")
        self.control.load_program(bmv2_json, load="save")
        self.control.commit_program()
        self.tables = Tables(self.control, self.dataplane.build(bmv2_json).program)
        self.arrays = commands.Arrays(self.tables)
        self.tracer = Tracer(self.control) if trace else None
        if self.tracer is not None:
            self.dataplane.start_trace(self.tracer)
        self.decoder = Decoder()
        self.outputs: list[Output] = []
        self.expected: list[Expect] = []
        self.now_ns = 0
        self.changed = True
        self.broken = False
        """Whether packets multiplied without end, and the rest of the test is left out."""
        self.assertions = 0
        """How many assertions of the program have failed so far."""
        self.last: SendPacket | None = None
        self.silent: list[NoPacket] = []
        self.does: dict[type[StfStatement], Callable[[Any], None]] = {
            Add: self.tables.add,
            SetDefault: self.tables.set_default,
            Remove: self.tables.remove,
            RemoveEntry: self.tables.remove_entry,
            NewMember: self.tables.new_member,
            NewGroup: self.tables.new_group,
            SendPacket: self._send,
            Expect: self.expected.append,
            NoPacket: self._expect_nothing,
            Wait: self._wait,
            CheckCell: self._check,
            Command: self._command,
        }

    def report(self) -> Report:
        """Carry everything out, then compare what left the switch with what the test expects."""
        for statement in self.test.statements:
            if self.broken:
                break
            self.carry_out(statement)
        return self.finish()

    def carry_out(self, statement: StfStatement) -> None:
        """Carry out one statement."""
        try:
            self.does[type(statement)](statement)
        except commands.REFUSALS as error:
            self.result.warnings.append(
                statement.place.describe(f"{error}; the test goes on without it", "warning")
            )
        except ControlError as error:
            raise statement.place.error(str(error)) from None
        if not isinstance(statement, (SendPacket, Expect, NoPacket, Wait)):
            self.changed = True

    def finish(self) -> Report:
        """Compare what left the switch with what the test expects."""
        self._compare()
        self.result.failures.sort(key=lambda failure: failure.place.line)
        return self.result

    # -- packets

    def start(self, packet: SendPacket) -> None:
        """Let the time pass until a packet, which is to meet all that was set before."""
        self.control.publish()
        self.now_ns += SETTLE_NS if self.changed else PACKET_GAP_NS
        self.changed = False
        self.last = packet
        self.result.packets += 1

    def _send(self, packet: SendPacket) -> None:
        self.start(packet)
        try:
            self.dataplane.receive(0, packet.port, [packet.frame], self.now_ns)
            self._collect(packet)
            self._note_path(packet)
            self._check_assertions(packet)
        except Exception as error:
            self.broken = isinstance(error, RunError)
            reason = str(error) if isinstance(error, WeftError) else repr(error)
            self.result.failures.append(
                StfFailure(
                    "engine",
                    packet.place,
                    f"the switch failed on this packet: {reason}",
                    packet.port,
                )
            )

    def _warn_denied(self, switch: int, priority: int, queues: int) -> None:
        assert self.last is not None
        text = f"a packet was dropped that has {no_queue(priority, queues)}"
        self.result.warnings.append(self.last.place.describe(text, "warning"))

    def _check_assertions(self, packet: SendPacket) -> None:
        """Note a failure if assertions of the program have not held for a packet, or its copies."""
        self.note_assertions(packet, self.dataplane.failed_assertions(0))

    def note_assertions(self, packet: SendPacket, failed: int) -> None:
        """Note a failure if more assertions have failed than before."""
        before = self.assertions
        self.assertions = failed
        if failed > before:
            count = "an assertion" if failed == before + 1 else f"{failed - before} assertions"
            self.result.failures.append(
                StfFailure(
                    "assertion",
                    packet.place,
                    f"{count} of the program failed on this packet",
                    packet.port,
                )
            )

    def _collect(self, packet: SendPacket) -> None:
        """Take what leaves the switch until nothing is under way."""
        until = self.now_ns
        while True:
            self.outputs += [
                Output(departure.port, departure.frame, packet)
                for departure in self.dataplane.transmit(until)
            ]
            lost = int(self.dataplane.context.no_buffer)
            refuse(
                lost,
                f"there was no room for {lost} copies of it, with "
                f"{self.dataplane.memory.packet_count} under way: the program multiplies packets",
                RunError,
            )
            deadline = self.dataplane.deadline()
            if deadline is None or deadline > self.now_ns + SETTLE_NS:
                return
            until = max(deadline, until)

    def _note_path(self, packet: SendPacket) -> None:
        """Keep what the packet went through, for the report and for the frames that came of it."""
        if self.tracer is not None:
            text = packets_text(self.decoder.feed(self.tracer.take()))
            self.result.paths.append(PacketPath(packet.place, text))
            self.outputs = [
                replace(output, path=text) if output.cause is packet else output
                for output in self.outputs
            ]

    def _path_before(self, failure: StfFailure) -> StfFailure:
        """Return a failure, with the path of the packet sent last before it if a packet is
        missing, or that of its own packet if an assertion failed."""
        last = failure.place.line - (failure.kind == "missing")
        earlier = [one for one in self.result.paths if one.place.line <= last]
        if failure.kind not in ("missing", "assertion") or not earlier:
            return failure
        return replace(failure, path=earlier[-1].text)

    def _expect_nothing(self, statement: NoPacket) -> None:
        self.result.expectations += 1
        self.result.failures += [
            StfFailure(
                "unexpected",
                statement.place,
                f"the packet of line {output.cause.place.line} left at port {output.port}",
                output.port,
                frame=output.frame,
                path=output.path,
            )
            for output in self.outputs
            if output.cause is self.last
        ]

    def _wait(self, wait: Wait) -> None:
        self.now_ns += wait.seconds * 1_000_000_000

    def _compare(self) -> None:
        named = {
            statement.port
            for statement in self.test.statements
            if isinstance(statement, (SendPacket, Expect))
        }
        seen = {output.port for output in self.outputs}
        self.result.expectations += len(self.expected)
        for port in sorted(named | (seen if self.strict else set())):
            self.result.failures += compare_port(
                port,
                [expect for expect in self.expected if expect.port == port],
                [output for output in self.outputs if output.port == port],
            )
        self.result.failures = [self._path_before(failure) for failure in self.result.failures]
        for port in sorted(seen - named) if not self.strict else ():
            first = next(output for output in self.outputs if output.port == port)
            self.result.warnings.append(
                first.cause.place.describe(
                    f"a packet left at port {port}, which no statement names: it is not compared "
                    "(--strict makes it a failure)",
                    "note",
                )
            )

    # -- commands

    def _command(self, command: Command) -> None:
        note = self.arrays.carry_out(command)
        if note:
            self.result.notes.append(f"{command.place.file}:{command.place.line}: {note}")

    def _check(self, check: CheckCell) -> None:
        self.result.expectations += 1
        what, got = self.arrays.check(check)
        if check.comparison is None:
            self.result.notes.append(f"{check.place.file}:{check.place.line}: {what} is {got}")
        elif not commands.COMPARISONS[check.comparison](got, check.value):
            message = f"{what} is {got}, expected {check.comparison} {check.value}"
            self.result.failures.append(StfFailure(check.kind, check.place, message))
