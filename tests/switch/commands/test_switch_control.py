"""``weft switch --control-fd``: whoever started the switches is told of them, and ends them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from weft.base.errors import InputError
from weft.switch.commands.switch_control import ControlSocket

DEADLINE_S = 60.0


class Controlled:
    """The owner's end, and what became of two switches."""

    def __init__(self) -> None:
        self.owner, theirs = socket.socketpair()
        self.owner.settimeout(DEADLINE_S)
        self.lines = self.owner.makefile("r")
        self.stopped: list[str] = []
        self.ended = threading.Event()
        stops = {name: lambda name=name: self.stopped.append(name) for name in ("s1", "s2")}
        self.control = ControlSocket(theirs.detach(), stops, self.ended.set)

    def ask(self, line: str) -> str:
        self.owner.sendall(f"{line}\n".encode())
        return self.lines.readline().strip()


@pytest.fixture
def controlled() -> Iterator[Controlled]:
    made = Controlled()
    yield made
    made.control.close()
    made.lines.close()
    made.owner.close()


def test_switches_are_stopped_one_by_one_and_all_ends_with_the_last(controlled: Controlled) -> None:
    controlled.control.tell("ready s1")
    assert controlled.lines.readline() == "ready s1\n"
    assert controlled.ask("stop s1") == "stopped s1"
    assert not controlled.ended.is_set()
    assert controlled.ask("stop s1") == "error 'stop s1' is none of: stop s2"
    assert controlled.ask("stop s2") == "stopped s2"
    assert controlled.ended.wait(DEADLINE_S)
    assert controlled.stopped == ["s1", "s2"]


def test_the_end_of_the_owner_is_the_end_of_all(controlled: Controlled) -> None:
    controlled.owner.shutdown(socket.SHUT_RDWR)
    assert controlled.ended.wait(DEADLINE_S)
    controlled.control.tell("ready s1")  # which nobody hears


def test_what_is_no_socket_is_refused() -> None:
    descriptor = os.memfd_create("no socket")
    try:
        with pytest.raises(InputError, match=f"--control-fd {descriptor}: it is no socket"):
            ControlSocket(descriptor, {}, lambda: None)
    finally:
        os.close(descriptor)


def test_without_a_descriptor_nothing_is_told() -> None:
    control = ControlSocket(None, {}, lambda: None)
    control.tell("ready s1")
    control.close()
