"""``weft bench start``: its program, what it measures without root, its words."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from weft.base.errors import RunError
from weft.switch.compiler import compile_program
from weft.switch.engine.switches import Dataplane, Queue
from weft.tools.bench import compiling, start, thrift
from weft.tools.bench.first_packets import PROGRAM, fresh_program
from weft.tools.bench.switch_traffic import HOST, frames


def test_a_frame_goes_through_the_program_whatever_its_number() -> None:
    left = []
    for salt in ("0", "4294967295"):
        dataplane = Dataplane(1, 3, packets=128, plain=True)
        for port in (1, 2):
            dataplane.set_port(0, port, Queue())
        control = dataplane.control(0)
        control.load_program(
            compile_program(PROGRAM, defines={"SALT": salt}).bmv2_json, load="save"
        )
        control.commit_program()
        (sent, *_) = frames(128, HOST)
        dataplane.receive(0, 1, [sent], 0)
        (departure,) = dataplane.transmit(0)
        assert (departure.port, departure.frame[22]) == (2, sent[22] - 1)
        left.append(departure.frame)
    assert left[0] == left[1]


def test_a_program_is_another_one_each_time(tmp_path: Path) -> None:
    one, other = (fresh_program(tmp_path).json.read_text() for _ in range(2))
    assert one != other


def test_without_root_the_command_line_is_measured_and_the_rest_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    figures = start.measure(attempts=1)
    assert [*figures["rows"]] == [*start.COMMANDS, compiling.NEW, compiling.CHANGED]
    for row in figures["rows"].values():
        assert len(row["s"]) == len(row["cpu_s"]) == 1
    assert figures["skipped"] == ["all with switches: it needs root, use sudo"]


def test_lines_have_medians_and_ratios_to_what_was_measured_beside() -> None:
    rows: dict[str, Any] = {
        start.NUMBA: {"s": [0.4, 0.5, 9.0], "cpu_s": [0.4, 0.4, 0.4]},
        "demo": {"s": [1.0, 2.0, 3.0]},
        start.PACKETS["cold"]: {"s": [0.3, 0.3, 0.3], "cpu_s": [0.2, 0.25, 0.3]},
        start.PACKETS["bmv2"]: {"s": [0.1, 0.1, 0.1], "cpu_s": [0.1, 0.1, 0.1]},
    }
    figures = {"attempts": 3, "rows": rows, "skipped": ["something"]}
    *text, last = start.lines(figures)
    demo, packet = (
        next(line.split() for line in text if name in line) for name in ("demo", "new program")
    )
    assert [*filter(lambda word: word != "│", demo)] == ["demo", "2.000", "1.000", "3.000", "4.00"]
    assert {"0.250", "0.60", "3.0"} < {*packet}
    assert last == "left out: something"


@pytest.mark.parametrize("swaps", [True, False])
def test_simple_switch_is_given_a_program_by_two_calls_or_says_why_not(swaps: bool) -> None:
    """The answers are those of BMv2's simple_switch, with and without --enable-swap."""
    taken = [
        b"\x80\x01\x00\x02\x00\x00\x00\x12bm_load_new_config\x00\x00\x00\x00\x00",
        b"\x80\x01\x00\x02\x00\x00\x00\x0fbm_swap_configs\x00\x00\x00\x00\x00",
    ]
    refused = taken[0][:-1] + b"\x0c\x00\x01\x08\x00\x01\x00\x00\x00\x01\x00\x00"

    def serve(listener: socket.socket) -> list[bytes]:
        connection, _ = listener.accept()
        with connection:
            heard = []
            for answer in taken if swaps else [refused]:
                heard.append(connection.recv(1 << 16))
                connection.sendall(answer)
            return heard

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as others:
        switch = others.submit(serve, listener)
        port = listener.getsockname()[1]
        if swaps:
            thrift.load(b"{}", port)
        else:
            with pytest.raises(RunError, match="refuses bm_load_new_config"):
                thrift.load(b"{}", port)
        first, *_ = switch.result()
    assert first == (
        b"\x80\x01\x00\x01\x00\x00\x00\x1bstandard:bm_load_new_config\x00\x00\x00\x00"
        b"\x0b\x00\x01\x00\x00\x00\x02{}\x00"
    )
