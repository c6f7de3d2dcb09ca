"""The debug adapter, by raw messages as an editor sends them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.debug_editor import Editor

from weft.switch.commands.debug import serve_editor
from weft.switch.debugger.adapter.framing import MalformedMessageError, encoded, read_message

STF = Path(__file__).resolve().parents[2] / "stf"
BASIC = {"program": str(STF / "basic.p4"), "test": str(STF / "basic.stf")}
SOURCE = {"path": str(STF / "basic.p4")}
Message = dict[str, Any]


@contextmanager
def editing() -> Iterator[Editor]:
    """An adapter in a thread, and an editor at the other end."""
    pipes = [os.pipe(), os.pipe()]
    its_in, mine = os.fdopen(pipes[0][0], "rb"), os.fdopen(pipes[0][1], "wb")
    my_in, its = os.fdopen(pipes[1][0], "rb"), os.fdopen(pipes[1][1], "wb")
    server = threading.Thread(target=serve_editor, args=(its_in, its, None, []))
    server.start()
    editor = Editor(mine, my_in)
    try:
        yield editor
        editor.ask("disconnect")
    finally:
        mine.close()
        server.join(30)
        assert not server.is_alive()
        for each in (my_in, its):
            each.close()


def test_an_editor_steps_through_a_program_and_changes_a_packet() -> None:
    with editing() as editor:
        editor.launch(**BASIC)
        asked = [{"line": 66}, {"line": 10_000}, {"line": 56, "condition": "("}]
        points = editor.ask("setBreakpoints", source=SOURCE, breakpoints=asked)["breakpoints"]
        assert [each["verified"] for each in points] == [True, False, False]
        assert points[0]["line"] == 66
        names = [{"name": "drop"}, {"name": "nothing"}]
        named = editor.ask("setFunctionBreakpoints", breakpoints=names)["breakpoints"]
        assert [each["verified"] for each in named] == [True, False]
        editor.ask("setExceptionBreakpoints", filters=[])
        editor.ask("configurationDone")
        stopped = editor.event("stopped")
        assert stopped["reason"] == "breakpoint"
        assert stopped["hitBreakpointIds"] == [points[0]["id"]]
        assert editor.ask("threads")["threads"] == [{"id": 1, "name": "packet at ingress, port 1"}]
        frames = editor.ask("stackTrace", threadId=1)["stackFrames"]
        assert [frame["name"] for frame in frames] == [
            "TheIngress.ipv4_lpm", "ingress", "packet at ingress, port 1",
        ]  # fmt: skip
        assert frames[0]["source"]["path"] == str(STF / "basic.p4")
        scopes = {each["name"]: each["variablesReference"]
                  for each in editor.ask("scopes", frameId=1)["scopes"]}  # fmt: skip
        headers = editor.ask("variables", variablesReference=scopes["Headers"])["variables"]
        ipv4 = next(each for each in headers if each["name"] == "hdr.ipv4")
        fields = editor.ask("variables", variablesReference=ipv4["variablesReference"])
        ttl = next(each for each in fields["variables"] if each["name"] == "ttl")
        assert (ttl["value"], ttl["evaluateName"]) == ("0x40 (64)", "hdr.ipv4.ttl")
        for scope in scopes.values():
            editor.ask("variables", variablesReference=scope)
        changed = editor.ask("setVariable", variablesReference=ipv4["variablesReference"],
                             name="dst_addr", value="0x0a000101")  # fmt: skip
        assert changed["value"].startswith("0x0a000101")
        assert editor.ask("evaluate", expression="hdr.ipv4.ttl == 64")["result"] == "true"
        assert editor.ask("evaluate", expression="hdr.ipv4.ttl = 9")["result"] == "0x09 (9)"
        editor.ask("stepIn", threadId=1)
        assert editor.event("stopped")["reason"] == "step"
        name, _ = editor.top()
        assert name == "TheIngress.ipv4_forward"
        port = editor.ask("variables", variablesReference=scopes["Locals"])["variables"]
        assert ("port", "0x001 (1)") in [(each["name"], each["value"]) for each in port]
        editor.ask("setVariable", variablesReference=scopes["Locals"], name="port", value="3")
        editor.ask("next", threadId=1)
        editor.event("stopped")
        editor.ask("stepOut", threadId=1)  # out of the last node of the packet
        assert editor.event("output")["output"] == "sent at port 3, 36 bytes\n"
        editor.event("stopped")
        editor.ask("setBreakpoints", source=SOURCE, breakpoints=[])
        editor.ask("continue", threadId=1)
        assert editor.event("stopped")["reason"] == "function breakpoint"
        assert editor.top()[0] == "TheIngress.drop"
        editor.ask("setFunctionBreakpoints", breakpoints=[])
        editor.ask("continue", threadId=1)
        assert editor.event("exited")["exitCode"] == 1
        editor.event("terminated")
        assert "no packet is stopped" in editor.refused("continue", threadId=1)


def test_a_program_may_stop_at_its_entry_and_be_paused() -> None:
    packets = ["1:" + "00" * 40] * 5000
    with editing() as editor:
        editor.launch(program=BASIC["program"], packets=packets, stopOnEntry=True)
        editor.ask("configurationDone")
        assert editor.event("stopped")["reason"] == "entry"
        assert editor.top() == ("start", 35)
        editor.ask("continue", threadId=1)
        editor.ask("pause", threadId=1)
        assert editor.event("stopped")["reason"] == "pause"
        editor.ask("terminate")
        editor.event("terminated")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Content-Length: 3\r\n\r\n{x}", "no JSON"),
        (b"Content-Length: 2\r\n\r\n[]", "no object"),
        (b"Content-Type: x\r\n\r\nnonsense\r\n\r\n", "without Content-Length"),
        (b"nonsense\r\n\r\n", "without Content-Length: b'nonsense'"),
        (encoded({"type": "request", "seq": 1}), "no request with a command"),
        (encoded({"type": "event", "seq": 1, "command": "x"}), "no request with a command"),
        (encoded({"type": "request", "seq": 5, "command": "fly"}), "no request 'fly'"),
        (encoded({"type": "request", "seq": "5", "command": "threads"}), "needs a number 'seq'"),
        (encoded({"type": "request", "seq": 5, "command": "threads", "arguments": 3}), "object"),
        (encoded({"type": "request", "seq": 5, "command": "setBreakpoints"}), "nothing is launch"),
        (encoded({"type": "request", "seq": 5, "command": "launch"}), "needs a 'program'"),
        (encoded({"type": "request", "seq": 5, "command": "launch",
                  "arguments": {"program": "absent.json"}}), "cannot read the program"),
        (encoded({"type": "request", "seq": 5, "command": "launch",
                  "arguments": {"program": BASIC["program"], "packets": 3}}), "wrong arguments"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_answered_with_an_error(data: bytes, message: str) -> None:
    with editing() as editor:
        editor.raw(data)
        answer = editor.read()
        assert (answer["type"], answer["success"]) == ("response", False)
        assert message in answer["message"] and answer["body"]["error"]["id"] == 1
        if b"nonsense" in data and data.startswith(b"Content-Type"):
            assert not editor.read()["success"]
        editor.ask("initialize")


def test_requests_with_wrong_arguments_are_refused_and_the_editor_goes_on() -> None:
    with editing() as editor:
        editor.launch(**BASIC, stopOnEntry=True)
        assert "wrong arguments" in editor.refused("setBreakpoints")
        assert "no packet is stopped" in editor.refused("stackTrace", threadId=1)
        editor.ask("configurationDone")
        editor.event("stopped")
        assert "there are no variables 99" in editor.refused("variables", variablesReference=99)
        assert "wrong arguments" in editor.refused("variables", variablesReference="x")
        assert "no expression" in editor.refused("evaluate", expression="(")
        assert "does not fit" in editor.refused("evaluate", expression="hdr.ipv4.ttl = 256")


@given(st.binary(max_size=120))
@example(b"Content-Length: 999999999999\r\n\r\nx")
@example(b"Content-Length: 2\r\n\r\n{}Content-Length: 1\r\n\r\n")
def test_any_bytes_are_messages_or_malformed_and_come_to_an_end(data: bytes) -> None:
    stream = io.BytesIO(data)
    for _ in range(len(data) + 2):
        try:
            if read_message(stream) is None:
                return
        except MalformedMessageError:
            pass
    raise AssertionError("no end")


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=4))
def test_messages_are_read_as_they_were_written(messages: list[Message]) -> None:
    stream = io.BytesIO(b"".join(map(encoded, messages)))
    read: Callable[[], Message | None] = lambda: read_message(stream)  # noqa: E731
    assert list(iter(read, None)) == messages


def test_the_command_itself_speaks_nothing_but_the_protocol() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "debug", "--dap"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, cwd=STF.parents[1],
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    with process:
        editor = Editor(process.stdin, process.stdout)  # type: ignore[arg-type]
        editor.launch(**BASIC)
        editor.ask("configurationDone")
        assert editor.event("exited")["exitCode"] == 0
        editor.ask("disconnect")
        assert process.wait(timeout=60) == 0  # whether or not the editor closes its end
