"""Signals that end a command: nothing swallows one wherever it comes, nor cuts a clean-up short."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.base import signals
from weft.base.errors import Ended, RunError
from weft.base.signals import ending_on_signals, signals_held, watched

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

HEAD = """
import ctypes, os, signal, sys, time, weakref
from weft.cli import command_line as cli
from weft.base.errors import RunError

def busy():
    os.write(1, b"busy\\n")
    until = time.monotonic() + 300
    while time.monotonic() < until:
        pass

class Thing:
    pass

def finalizer():
    Thing.__del__ = lambda self: busy()
    thing = Thing()
    del thing

def finalizer_of_a_cycle():
    import gc
    Thing.__del__ = lambda self: busy()
    thing = Thing()
    thing.itself = thing
    del thing
    gc.collect()

def weak_reference():
    thing = Thing()
    kept = weakref.ref(thing, lambda _: busy())
    del thing

def compiled_code():
    ctypes.CFUNCTYPE(None)(busy)()

def somebody_who_catches_everything():
    global kept
    try:
        busy()
    except BaseException as error:
        kept = error  # and its traceback, and this frame

def clean_up_that_fails():
    try:
        try:
            busy()
        finally:
            raise RunError("the clean-up failed")
    except RunError:
        pass  # the next of several runs

def work():
    busy()
    print("went on to the end", flush=True)

def main(run):
    cli.app = lambda **_: run()
    cli.main()
"""


class Command:
    """A process of the command line, with other work in place of a command's."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD + script], env=ENVIRONMENT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_signals,
        )  # fmt: skip

    def wait_for(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{line}\n"

    def end(self) -> tuple[int, str, str]:
        """Status, and what it printed since; it has a minute."""
        try:
            output, errors = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        return self.process.returncode, output, errors


def _heed_signals() -> None:
    """Whoever runs the tests may ignore these, as nohup and shells' background jobs do."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(
    "place",
    [
        "finalizer", "finalizer_of_a_cycle", "weak_reference", "compiled_code",
        "somebody_who_catches_everything", "clean_up_that_fails",
    ],
)  # fmt: skip
def test_a_signal_that_is_swallowed_ends_the_command_all_the_same(place: str) -> None:
    for number in SIGNALS:
        command = Command(f"main(lambda: ({place}(), work()))")
        command.wait_for("busy")
        command.process.send_signal(number)
        status, output, errors = command.end()
        assert (status, output.replace("busy\n", ""), errors) == (128 + number, "", "")


def test_a_signal_is_raised_again_for_as_long_as_it_is_swallowed() -> None:
    command = Command("main(lambda: ([finalizer() for _ in range(5)], work()))")
    command.wait_for("busy")
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == (143, "busy\n" * 5, "")


def test_a_second_signal_ends_what_has_swallowed_the_first() -> None:
    command = Command(
        "from weft.base import signals\nsignals.LOOK_S = 1000\nmain(lambda: (finalizer(), work()))"
    )
    command.wait_for("busy")
    command.process.send_signal(signal.SIGTERM)
    command.wait_for("busy")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == (143, "", "")


CLEAN_UP = """
import contextlib

@contextlib.contextmanager
def cleaned():
    try:
        yield
    finally:
        with contextlib.suppress(KeyError):
            {}["nothing"]
        try:
            {}["nothing"]
        except KeyError:
            time.sleep(0.5)
        with contextlib.ExitStack() as stack:
            stack.callback(time.sleep, 0.5)
        os.write(1, b"cleaned up\\n")

def run():
    finalizer()
    with cleaned():
        work()

main(run)
"""


def test_what_is_raised_again_does_not_cut_a_clean_up_short() -> None:
    command = Command(CLEAN_UP)
    for number in (signal.SIGTERM, signal.SIGHUP):
        command.wait_for("busy")
        command.process.send_signal(number)
    for _ in range(20):
        if command.process.poll() is None:
            command.process.send_signal(signal.SIGINT)
            time.sleep(0.01)
    assert command.end() == (143, "cleaned up\n", "")


def test_a_clean_up_that_fails_says_so_and_the_status_is_the_signals() -> None:
    command = Command(
        "def run():\n try:\n  work()\n finally:\n  raise RunError('no room')\nmain(run)"
    )
    command.wait_for("busy")
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == (143, "", "weft: no room\n")


def within_a_finalizer(number: int) -> None:
    class Slow:
        def __del__(self) -> None:
            signal.raise_signal(number)
            raise AssertionError("the signal did not end the finalizer")

    Slow()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_uses_a_world_without_the_command_line_hears_of_signals_as_well(
    number: int,
) -> None:
    before = [signal.getsignal(each) for each in (number, signal.SIGALRM)]
    with pytest.raises(Ended) as ended, ending_on_signals():
        within_a_finalizer(number)
        with ending_on_signals():
            wait_forever()
    assert ended.value.code == 128 + number
    assert [signal.getsignal(each) for each in (number, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Let SIGINT raise `KeyboardInterrupt`, and SIGHUP end a process, also where the tests run in
    the background of a script, whose shell has the one ignored, or under nohup, which does the
    other."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_that_python_throws_away_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    with pytest.raises(KeyboardInterrupt), ending_on_signals():
        within_a_finalizer(signal.SIGINT)
        wait_forever()
    with pytest.raises(KeyboardInterrupt), ending_on_signals():
        within_a_finalizer(signal.SIGINT)
    assert (sys.unraisablehook, signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert "KeyboardInterrupt" not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_is_not_raised_where_it_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the timer may go off before the hook that has set it is left."""
    set_timer = signals._set_timer

    def late() -> None:
        set_timer()
        if signals._state.lost:
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(signals, "_set_timer", late)
    with pytest.raises(KeyboardInterrupt), ending_on_signals():
        within_a_finalizer(signal.SIGINT)
        wait_forever()


def wait_forever() -> None:
    assert not threading.Event().wait(60), "nothing ended it"
    raise AssertionError("nothing ended it")


def test_handlers_stay_until_the_last_of_several_worlds_is_down() -> None:
    before = signal.getsignal(signal.SIGTERM)
    one, other = ending_on_signals(), ending_on_signals()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)
    other.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGTERM) == before


def test_signals_that_are_held_are_raised_once_afterwards() -> None:
    done = []
    with pytest.raises(Ended) as ended, ending_on_signals():
        with signals_held():
            with signals_held():
                for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTERM):
                    signal.raise_signal(number)
            time.sleep(3 * signals.LOOK_S)
            done.append("held")
        done.append("went on")
    assert ended.value.code == 128 + signal.SIGHUP
    assert done == ["held"]


def test_signals_that_another_handles_are_held_and_given_to_it() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        handler = signal.getsignal(signal.SIGINT)
        with signals_held():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert not came
        assert came == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_in_a_clean_up_waits_for_its_end() -> None:
    done = []
    with pytest.raises(Ended) as ended, ending_on_signals():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGHUP)
            with signals_held():
                signal.raise_signal(signal.SIGHUP)
            done.append("cleaned up")
    assert ended.value.code == 143
    assert done == ["cleaned up"]


def test_what_is_watched_is_raised_where_input_is_waited_for_and_again_if_swallowed() -> None:
    before = signal.getsignal(signal.SIGALRM)
    reading, writing = os.pipe()

    def check() -> None:
        raise RunError("it broke")

    with os.fdopen(reading) as commands, os.fdopen(writing, "w"), watched(check):
        for _ in range(2):
            with pytest.raises(RunError, match="it broke"):
                commands.buffer.raw.read(1)  # type: ignore[attr-defined]
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_signal_goes_before_what_is_watched_and_its_clean_up_is_left_alone() -> None:
    checked: list[int] = []
    done = []
    with pytest.raises(Ended), ending_on_signals(), watched(lambda: checked.append(1)):
        while not checked:
            time.sleep(0.01)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            checked.clear()
            time.sleep(2 * signals.WATCH_S)
            done.append(len(checked))
    assert done == [0]


RUNS = """
import random
from weft import Scenario, run

def again():
    scenario = Scenario(
        world="simulated", topology="single", hosts_per_leaf=3, size_bytes=4096,
        algorithms=("ring", "multicast"),
    )
    run(scenario)
    os.write(1, b"busy\\n")
    while True:
        run(scenario)

main(again)
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_simulated_runs_at_any_moment(number: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(2):
        command = Command(RUNS)
        command.wait_for("busy")
        time.sleep(chance.random())  # the moment itself, not a wait for something
        command.process.send_signal(number)
        assert command.end() == (128 + number, "", "")
