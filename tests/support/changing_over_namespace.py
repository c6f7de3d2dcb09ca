"""Run by test_changing_over.py in a network namespace of its own: numbered frames go through a
switch while its program changes over from the plain form to machine code.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from tests.support.engine_programs import router
from tests.support.engine_support import packet
from tests.support.realtime_namespace import collect, make_links

from weft.base.errors import RunError
from weft.switch.engine import build
from weft.switch.engine.codegen.loading import load
from weft.switch.engine.control.entities import (
    ActionCall,
    Lpm,
    MemberTarget,
    ProfileMember,
    TableEntry,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.realtime import compiling
from weft.switch.realtime.config import config_of
from weft.switch.realtime.packet_sockets import open_port
from weft.switch.realtime.process import SwitchProcess

WINDOW = 16
"""So many frames are under way at a time: none is lost for want of room."""


class Stream:
    """Numbered frames, from one host to another."""

    def __init__(self) -> None:
        self._from, self._to = open_port("h1"), open_port("h2")
        self._to.setblocking(True)
        self.sent = 0
        self.came: list[int] = []

    def go_on(self, windows: int) -> None:
        """Send more, and wait for them."""
        for _ in range(windows):
            for _ in range(WINDOW):
                frame = packet("10.1.0.1", source_port=self.sent >> 16)
                self._from.send(frame[:-2] + (self.sent & 0xFFFF).to_bytes(2, "big"))
                self.sent += 1
            for _, frame in collect(self._to, WINDOW):
                high = int.from_bytes(frame[34:36], "big") << 16
                self.came.append(high + int.from_bytes(frame[-2:], "big"))

    def rest(self) -> int:
        """How many frames have come beside those that were waited for."""
        self._to.setblocking(False)
        count = 0
        while True:
            try:
                self._to.recv(65536)
            except BlockingIOError:
                return count
            count += 1


def form(process: SwitchProcess) -> str:
    found: str = process.statistics()["switches"][0]["form"]
    return found


def program(control: SwitchControl, text: str) -> None:
    """Load a program, and lead the stream to port 2."""
    control.load_program(text, load="save")
    control.commit_program()
    control.insert_member(ProfileMember("ecmp", 2, ActionCall("forward", (2, 5))))
    control.insert_entry(TableEntry("route", (Lpm(0x0A010000, 16),), MemberTarget(2)))
    control.publish()


def main() -> None:
    make_links()
    ports = [{"port": port, "interface": f"s{port}"} for port in (1, 2)]
    leaf = {"name": "leaf0", "device_id": 1, "address": "unix:none", "ports": ports}
    document = {"switches": [leaf], "at_once": True}
    process = SwitchProcess(config_of(document, "the test"))
    seen: dict[str, Any] = {"said": [], "notes": []}
    process.say, process.note = seen["said"].append, seen["notes"].append
    goes, started = threading.Event(), compiling._started

    def start_when_told(source: Any) -> Any:
        goes.wait()
        return started(source)

    with pytest.MonkeyPatch.context() as patch:
        # As if nothing were in the cache.
        patch.setattr(build, "load_at_once", lambda *both: load(*both, plain=True))
        patch.setattr(compiling, "_started", start_when_told)
        process.start()
        control = process.controls[0]
        program(control, router())
        stream = Stream()
        stream.go_on(10)
        seen["forms"] = [form(process)]
        goes.set()
        while form(process) == "plain":
            stream.go_on(1)
        stream.go_on(10)
        seen["forms"].append(form(process))
        process.forms.wait()
        (told,) = process.statistics()["switches"]
        counted = control.values.read_counters("port_ingress")[1]
        seen |= {
            "sent": stream.sent,
            "came": list(stream.came),
            "counted": [counted.packets, counted.bytes],
            "statistics": told,
        }
        patch.setattr(
            compiling, "_command", lambda source: ["sh", "-c", "echo no room >&2; exit 1"]
        )
        goes.clear()
        program(control, f"{router()} ")
        goes.set()
        before = len(stream.came)
        try:
            process.forms.wait()
        except RunError as error:
            seen["refused"] = str(error)
        stream.go_on(10)
        seen["forms"].append(form(process))
        seen["after"] = stream.came[before:] == list(range(before, stream.sent))
        seen["rest"] = stream.rest()
        process.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
