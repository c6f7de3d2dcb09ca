"""A debugger's packets that are those of a switch which forwards: they are taken at its ports, go
through its program step by step, and leave it as they would without a debugger."""

import ctypes
import random
import threading
from collections import deque
from collections.abc import Iterator

import numpy as np

from weft.base.errors import InputError, RunError, WeftError, refuse
from weft.base.machine_code import prepare
from weft.switch.debugger.debugger import WAITING
from weft.switch.debugger.memory import LiveMemory
from weft.switch.engine.codegen.loading import CALLBACK
from weft.switch.engine.control.contents import Contents
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import events, pipeline, pool
from weft.switch.engine.dataplane import layout as at
from weft.switch.engine.dataplane.hooks import ARRIVED
from weft.switch.engine.switches import MOST_PASSES, Dataplane
from weft.switch.interpreter.description import Description
from weft.switch.interpreter.interpreter import Interpreter, Sent, follow
from weft.switch.interpreter.packet import Packet
from weft.switch.interpreter.steps import Choice, Step
from weft.switch.interpreter.surroundings import Surroundings
from weft.switch.stf.report import Report

MOST_WAITING = 1024
"""How many packets wait for the one that is stopped."""
WAIT_S = 0.05
"""How long to wait for a packet before somebody is asked whether to go on."""
DROPS = {
    "ingress": at.DROPS_INGRESS, "egress": at.DROPS_EGRESS, "port": at.DROPS_NO_PORT,
    "queue": at.DROPS_PRIORITY,
}  # fmt: skip
"""Where a packet is dropped, and how the switch counts that."""


class AttachedSwitch:
    """A switch that forwards, whose packets a debugger has from `attach` to `detach`.

    Those that come meanwhile wait; if too many do, they are dropped, and counted as those that find
    the queue full of the port where they came. A packet takes no time and meets empty queues.
    """

    report: Report | None = None

    def __init__(self, dataplane: Dataplane, control: SwitchControl) -> None:
        """Raises InputError for a switch without a program."""
        loaded = control.values.state.pipeline
        if loaded is None:
            raise InputError(f"switch {control.name!r} has no program yet: nothing can be debugged")
        self.dataplane, self.control, self.loaded = dataplane, control, loaded
        self.program = Description(loaded.program.document)
        self.state = control.values.state
        with control.lock:
            self.memory = LiveMemory.of_switch(control)
            self._image = self.state.image
        self.waiting: deque[tuple[int, bytes, int]] = deque()
        """Ports and frames, and when they came, in ns."""
        self.dropped = 0
        """How many packets found no room."""
        self._callback = CALLBACK(self._take)
        self._came = threading.Event()
        self._leaving = False
        first = control.switch * dataplane.port_count
        self._ports = dataplane.ports[first : first + dataplane.port_count]

    def attach(self) -> None:
        """Take the packets that come from now on. Raises InputError if somebody has them."""
        some = np.frombuffer(b"\0", np.uint8)
        for function in (pipeline.receive_frame, pipeline.send_frame):
            prepare(function, self.dataplane.context, 0, 0, some, 0)
        prepare(events.advance_some, self.dataplane.context, 0, 0)
        prepare(pool.release, self.dataplane.context, 0)
        self.control.host.at_once(self._attach)

    def _attach(self) -> None:
        refuse(
            bool(np.any(self._ports.watcher)),
            f"switch {self.control.name!r} cannot be debugged: its packets are watched already",
        )
        self._ports.watcher = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.state.debugged = True

    def detach(self) -> None:
        """Let the switch have its packets again, those that wait included. What is left of the
        steps is to be taken before: `leave`."""
        self.control.host.at_once(self._detach)

    def _detach(self) -> None:
        self._ports.watcher = 0
        self.state.debugged = False
        context, now_ns = self.dataplane.context, self.control.host.clock_ns()
        while self.waiting:
            port, frame, _ = self.waiting.popleft()
            counted = self._ports[port].counted
            counted.rx_packets -= 1  # it comes once more
            counted.rx_bytes -= len(frame)
            data = np.frombuffer(frame, np.uint8)
            pipeline.receive_frame(context, self.control.switch, port, data, now_ns)
            events.advance_some(context, now_ns, MOST_PASSES)

    def leave(self, steps: Iterator[Step]) -> None:
        """Let the packet that is stopped go its way."""
        self._leaving = True
        for _ in steps:
            pass

    def _take(self, address: int, what: int, where: int, packet: int, now_ns: int) -> int:
        """Take a packet that has arrived at a port."""
        if what != ARRIVED:
            return 0
        memory, port = self.dataplane.memory, where % self.dataplane.port_count
        row = memory.packets[packet]
        start, size = int(row.frame), int(row.frame_length)
        if len(self.waiting) < MOST_WAITING:
            frame = memory.buffers[row.buffer, start : start + size].tobytes()
            self.waiting.append((port, frame, now_ns))
            self._came.set()
        else:
            self.dropped += 1
            counted = self._ports[port].counted
            counted.queue_drops += 1
            counted.queue_drop_bytes += size
        pool.release(self.dataplane.context, packet)
        return 1

    # -- what a debugger asks

    def send(self, port: int, frame: bytes) -> None:
        """Let a packet come in before those that wait. Raises InputError for a port that the switch
        has not, or a frame that is too long."""
        if not self._has_port(port):
            raise InputError(f"the switch has no port {port}")
        most = self.control.host.frame_bytes
        refuse(
            len(frame) > most, f"a packet of {len(frame)} bytes: the switch takes {most} at most"
        )
        counted = self._ports[port].counted
        counted.rx_packets += 1
        counted.rx_bytes += len(frame)
        self.waiting.appendleft((port, frame, self.control.host.clock_ns()))

    def more(self) -> bool:
        """Return True: packets may come as long as it is attached."""
        return True

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all packets, and of none while there is none. Raises RunError when the
        switch gets another program."""
        while not self._leaving:
            if self.state.pipeline is not self.loaded:
                raise RunError("the switch has got another program: attach to it again")
            if self.waiting:
                yield from self._through(*self.waiting.popleft())
            else:
                self._came.wait(WAIT_S)
                self._came.clear()
                yield Step(WAITING, Packet(self.program, b""))

    def _through(self, port: int, frame: bytes, came_ns: int) -> Iterator[Step]:
        """Yield the steps of a packet, and do to the switch what they do."""
        memory, words = self.memory, self.state.words
        memory.contents, memory.now_ns = self._contents(), came_ns
        around = Surroundings(
            drop_port=self.dataplane.drop_port,
            priorities=self.dataplane.memory.priorities,
            now_us=(came_ns - int(words.epoch_ns)) // 1000,
            cpu_port=self.state.cpu_port,
            has_port=self._has_port,
        )
        switch = Interpreter(self.loaded.program, memory.contents, memory, around)
        failed = memory.failed_assertions
        self.loaded.plain_packets[self.control.switch] += 1
        try:
            for step in follow(switch.run(port, frame), chosen):
                if isinstance(step, Sent):
                    self._send(step.port, step.frame)
                elif step.event == "dropped":
                    words.drops[DROPS[step.told["where"]]] += 1
                yield step
        except WeftError as error:
            told = {"where": "ingress", "why": f"the program fails: {error}"}
            yield Step("dropped", Packet(self.program, frame), told)
        words.assertions += memory.failed_assertions - failed

    def _contents(self) -> Contents:
        """Return what packets meet now."""
        if self._image is not self.state.image:
            with self.control.lock:
                self.memory.contents = self.control.contents()
                self._image = self.state.image
        return self.memory.contents

    def _has_port(self, port: int) -> bool:
        return 0 <= port < len(self._ports) and bool(self._ports[port].up)

    def _send(self, port: int, frame: bytes) -> None:
        host, data = self.control.host, np.frombuffer(frame, np.uint8)
        context, switch = self.dataplane.context, self.control.switch
        host.at_once(lambda: pipeline.send_frame(context, switch, port, data, host.clock_ns()))


def chosen(choice: Choice) -> int:
    """Return which way a packet goes: what a switch would choose, or at random."""
    if choice.usual is not None:
        return choice.usual
    ways = choice.alternatives
    count = ways.stop - ways.start if isinstance(ways, range) else len(ways)
    return random.randrange(count)
