"""The statistics socket of a switch process: whatever is asked, its packet loop goes on."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulated_support import wait_until
from tests.support.engine_programs import router

from weft.base.children import python_command
from weft.switch.realtime import statistics
from weft.switch.realtime.config import config_of
from weft.switch.realtime.process import SwitchProcess
from weft.switch.realtime.statistics import StatisticsSocket

DEADLINE_S = 60


class Talker:
    """A process of two switches that are joined inside it, which forwards, and its socket."""

    def __init__(self, folder: Path) -> None:
        def switch(name: str, number: int, far: str) -> dict[str, Any]:
            port = {"port": 1, "patch": [far, 1], "rate_bps": 10**9}
            return {"name": name, "device_id": number, "address": "unix:/x", "ports": [port]}

        switches = [switch("a", 1, "b"), switch("b", 2, "a")]
        document = {"switches": switches, "buffers": 64, "frame_bytes": 2048}
        self.process = SwitchProcess(config_of(document, "the test"))
        self.process.start()
        self.process.controls[0].load_program(router(), load="save")
        self.process.controls[0].commit_program()
        self.path = str(folder / "s.sock")
        self.socket = StatisticsSocket(self.process, self.path)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)  # and wait while there are many before it
        client.settimeout(DEADLINE_S)
        return client

    def ask(self, request: bytes, *, end: bool = True) -> dict[str, Any]:
        with self.connect() as client:
            client.sendall(request)
            if end:
                client.shutdown(socket.SHUT_WR)
            return answer(client)

    def goes_on(self) -> bool:
        """Whether the packet loop takes what it is to do, and has not failed."""
        done: list[bool] = []
        self.process.at_once(lambda: done.append(True))
        return bool(done) and self.process.failure is None and self.process._takes_requests


def answer(client: socket.socket) -> dict[str, Any]:
    """The whole document that comes, up to the end of the stream."""
    found = json.loads(b"".join(iter(lambda: client.recv(65536), b"")))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talker]:
    found = Talker(tmp_path_factory.mktemp("statistics"))
    yield found
    found.socket.close()
    found.process.stop()


def test_a_process_that_was_stopped_knows_though_no_frame_came(tmp_path: Path) -> None:
    port = {"port": 1, "patch": ["a", 2]}, {"port": 2, "patch": ["a", 1]}
    address = f"unix:{tmp_path}/a.sock"
    switch = {"name": "a", "device_id": 1, "address": address, "ports": [*port]}
    own = str(tmp_path / "s.sock")
    document = {"switches": [switch], "buffers": 64, "frame_bytes": 2048, "stats_socket": own}
    (tmp_path / "config.json").write_text(json.dumps(document))

    def stood_ns(request: bytes = b"") -> int:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(own)
            client.settimeout(DEADLINE_S)
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            found = answer(client)
            assert "lateness_ns" in found, found
            return int(found["lateness_ns"]["stood"])

    process = subprocess.Popen(
        python_command("weft.switch.realtime", str(tmp_path / "config.json")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        stood_ns(b"reset\n")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.8)
        process.send_signal(signal.SIGCONT)
        end = time.monotonic() + DEADLINE_S
        while (stood := stood_ns()) < 600_000_000 and time.monotonic() < end:
            time.sleep(0.01)
        process.terminate()
    assert 600_000_000 <= stood < 10_000_000_000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"link", "not understood: reset, loads"),
        (b"link a 1", "not understood"),
        (b"link a 1 sideways", "not understood"),
        (b"link a 1 up now", "not understood"),
        (b"link c 1 up", "port 1 of 'c': there is no such port"),
        (b"link a 7 up", "port 7 of 'a': there is no such port"),
        (b"link a -1 up", "PORT '-1' is no whole number"),
        (b"link a 1.5 up", "PORT '1.5' is no whole number"),
        (b"link a 99999999999999999999 up", "PORT '99999999999999999999' is no whole number"),
        (b"link a " + b"9" * 5000 + b" up", "999... is no whole number"),
        ("link a \u0661 up".encode(), "PORT '\u0661' is no whole number"),
        (b"rates a 1 0", "rate 0 bit/s of port 1 of 'a' is out of range: 1 to"),
        (b"rates a 1 9999999999999999999", "is out of range"),
        (b"rates a 1 5 b", "not understood"),
        (b"rates a 1 nan", "BPS 'nan' is no whole number"),
        (b"figures a 1 out 5 0 0", "not understood"),
        (b"figures a 7 out 5 0 0 0", "port 7 of 'a': there is no such port"),
        (b"figures a 1 through 5 0 0 0", "direction 'through': it is in or out"),
        (b"figures a 1 out 5 1000000001 0 0", "DELAY_NS 1000000001: it is 0 to 1000000000"),
        (b"figures a 1 out 5 0 0 4294967297", "LOSS 4294967297: it is 0 to 4294967296"),
        (b"loads 1 0", "no such times"),
        (b"loads 9223372036854775807 1", "no such times"),
        (b"loads -1 1", "START_NS '-1' is no whole number"),
        (b"trace c start 1", "there is no switch 'c'; there are: a, b"),
        (b"trace a start 0", "a trace of 0 packets of 'a': 1 to"),
        (b"trace a start 9999999999999999999", "a trace of 9999999999999999999 packets"),
        (b"trace a start 1_0", "PACKETS '1_0' is no whole number"),
        (b"trace b take", "switch 'b' is not traced"),
        (b"captures begin", "not understood"),
        (b"link a\xff 1 up", "is no text in UTF-8"),
        (b"reset " * 1000, "reset r... is not understood"),
        (b"x" * statistics.MOST_REQUEST_BYTES + b"yz", "bytes or more: a line has at most 1048576"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_request_that_cannot_be_done_is_refused(talker: Talker, line: bytes, words: str) -> None:
    assert words in talker.ask(line + b"\n", end=False)["error"]
    assert talker.goes_on()


@pytest.mark.parametrize("half", [b"link a 1 do", b"rates a 1 100", b"reset", b" "])
def test_a_request_that_is_cut_short_is_not_taken_for_a_whole_one(
    talker: Talker, half: bytes
) -> None:
    assert "cut short" in talker.ask(half)["error"]


def test_a_request_that_does_not_end_is_given_up(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "CLIENT_WAIT_S", 0.2)
    for begun in (b"", b"link a 1 do"):
        assert "has not ended after 0.2 s" in talker.ask(begun, end=False)["error"]


def test_what_comes_behind_a_request_takes_its_answer_from_nobody(talker: Talker) -> None:
    assert "not understood" in talker.ask(b"what?\n" + b"more\n" * 10_000)["error"]
    assert talker.ask(b"rates\nwhat?\n") == {}


def test_clients_that_say_nothing_keep_no_other_from_asking(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "CLIENT_WAIT_S", DEADLINE_S)
    with contextlib.ExitStack() as stack:
        silent: list[socket.socket] = []
        for number in range(2 * statistics.MOST_CLIENTS):
            silent.append(stack.enter_context(talker.connect()))
            if number % 2 == 0:  # at once: it is cut off when many more have come
                silent[-1].sendall(b"link a 1 do")
        assert talker.ask(b"rates\n") == {}
        # Those that came first have made room for the others.
        assert "cut short" in answer(silent[0])["error"]
        assert "switches" in answer(silent[1])
        silent[-1].sendall(b"rates\n")
        assert answer(silent[-1]) == {}
    assert talker.goes_on()


def test_many_clients_ask_at_the_same_time_and_each_has_its_answer(talker: Talker) -> None:
    lines = [b"", b"reset\n", b"rates a 1 1000000\n", b"link a 1 down\n", b"link b 1 up\n", b"?\n"]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(talker.ask, lines * 50))
    for line, one in zip(lines * 50, answers, strict=True):
        if line in (b"", b"reset\n"):
            assert len(one["switches"]) == 2
        else:
            assert list(one) == (["error"] if line == b"?\n" else [])
    assert talker.goes_on()


def test_a_client_that_goes_away_is_nobodys_concern(talker: Talker) -> None:
    for request in (b"", b"link", b"reset\n"):
        for _ in range(20):
            with talker.connect() as client:
                client.sendall(request)
    assert talker.ask(b"rates\n") == {} and talker.goes_on()


def test_a_closed_socket_takes_its_thread_along(talker: Talker, tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    before = set(threading.enumerate())
    other = StatisticsSocket(talker.process, str(path))
    (thread,) = set(threading.enumerate()) - before
    other.close()
    wait_until(lambda: not thread.is_alive(), "the thread ends")
    assert not path.exists()


def test_the_socket_serves_on_when_there_were_no_descriptors_left(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = socket.socket.accept
    failures = [OSError(24, "Too many open files")] * 3

    def fail_at_first(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fail_at_first)
    talker.ask(b"rates\n")  # wakes whoever waits in the method that was there before
    assert talker.ask(b"rates\n") == {} and not failures


NAMES = st.sampled_from(["a", "b", "c", "", "A", "a\0", "\u00e4", "leaf0"]) | st.text(max_size=8)
NUMBERS = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        ["0", "1", "-1", "2", "511", "1e3", "0x1", "1_0", "", "nan", "\u0661", "9" * 5000,
         str((1 << 63) - 1), str(1 << 63), str(1 << 40), str(10**13), "+1", " "]
    ),
    st.text(max_size=6),
)  # fmt: skip
WORDS = st.sampled_from(
    ["link", "rates", "loads", "trace", "captures", "reset", "up", "down", "start", "take", "end"]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines that begin as they should, each word right, wrong or missing."""
    kind = draw(st.sampled_from(["link", "rates", "loads", "trace", "captures", "reset", "any"]))
    states = st.sampled_from(["up", "down", "UP", ""])
    verbs = st.sampled_from(["start", "take", "end", "begin"])
    words = {
        "link": lambda: ["link", draw(NAMES), draw(NUMBERS), draw(states)],
        "rates": lambda: ["rates", *draw(st.lists(NAMES | NUMBERS, max_size=12))],
        "loads": lambda: ["loads", draw(NUMBERS | st.just("end")), draw(NUMBERS)],
        "trace": lambda: ["trace", draw(NAMES), draw(verbs), draw(NUMBERS)],
        "captures": lambda: ["captures", draw(verbs)],
        "reset": lambda: ["reset"],
        "any": lambda: draw(st.lists(WORDS | NAMES | NUMBERS, max_size=6)),
    }[kind]()
    if draw(st.integers(0, 4)) == 0 and words:
        del words[draw(st.integers(0, len(words) - 1))]
    return " ".join(words)


@given(
    st.one_of(
        lines().map(lambda line: f"{line}\n".encode("utf-8", "surrogatepass")),
        st.binary(max_size=60),
        st.tuples(lines(), st.integers(0, 30)).map(
            lambda both: both[0].encode("utf-8", "surrogatepass")[: both[1]]
        ),
    )
)
def test_whatever_is_asked_is_answered_and_the_packet_loop_goes_on(
    talker: Talker, request_: bytes
) -> None:
    found = talker.ask(request_)
    assert found.keys() <= {"error"} or found.keys() & {"switches", "events", "captures"}
    # An error of the process itself would have its class's name before it.
    assert "Error: " not in found.get("error", "")
    assert talker.goes_on()


def test_the_packet_loop_goes_on_while_requests_come(talker: Talker) -> None:
    """Not only when nothing else is asked of it: from several threads at a time."""
    end = time.monotonic() + DEADLINE_S
    requests = [b"link a 1 down\n", b"link a 1 up\n", b"rates b 1 7777777\n", b"trace a end\n"]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            assert time.monotonic() < end
            assert list(pool.map(talker.ask, requests)) == [{}] * 4
    assert talker.goes_on()
