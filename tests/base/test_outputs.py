"""What a child process prints: the same as the standard library's, but within a limit, and in
time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from weft.base.children import run_tool
from weft.base.errors import RunError
from weft.base.outputs import PIECE_BYTES, Late, TooMuch, communicate, kill


def begun(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 65536, 1_000_000])
def test_input_goes_in_and_output_comes_out_whole(size: int) -> None:
    text = "aé\n" * size
    with begun("sh", "-c", "tee /dev/stderr; exit 3") as process:
        assert communicate(process, text) == (text, text)
    assert process.returncode == 3


def test_what_reads_no_input_is_not_waited_for() -> None:
    with begun("true") as process:
        assert communicate(process, "x" * 1_000_000, timeout_s=60.0) == ("", "")


def test_lines_end_and_wrong_bytes_are_replaced_as_the_standard_library_does() -> None:
    with begun("printf", r"a\r\nb\rc\377\n") as process:
        assert communicate(process) == ("a\nb\nc\N{REPLACEMENT CHARACTER}\n", "")


@pytest.mark.parametrize("where", ["", ">&2"])
def test_a_flood_ends_at_the_limit_and_not_in_memory(where: str) -> None:
    most = 1 << 20
    with begun("sh", "-c", f"yes {where}") as process:
        with pytest.raises(TooMuch, match=r"^printed more than 1 MiB$") as raised:
            communicate(process, timeout_s=60.0, most_bytes=most)
        kill(process)
    said = raised.value.output + raised.value.errors
    assert most < len(said) <= most + 2 * PIECE_BYTES
    assert process.returncode == -9


def test_a_time_limit_holds_for_one_that_prints_all_the_time() -> None:
    before = time.monotonic()
    with begun("sh", "-c", "while echo x; do sleep 0.01; done") as process:
        with pytest.raises(Late, match=r"^took longer than 0\.5 s$") as raised:
            communicate(process, timeout_s=0.5)
        kill(process)
    assert raised.value.output.startswith("x\n")
    assert 0.5 <= time.monotonic() - before < 10.0


def test_who_keeps_the_output_open_is_waited_for_no_longer_and_killed_too() -> None:
    before = time.monotonic()
    with begun("sh", "-c", "sleep 600 & echo $!") as process:
        with pytest.raises(Late) as raised:
            communicate(process, timeout_s=0.5)
        kill(process)
    assert time.monotonic() - before < 60.0
    left = Path(f"/proc/{int(raised.value.output)}/cmdline")
    while left.exists() and left.read_bytes():  # a zombie's is empty
        assert time.monotonic() - before < 60.0
        time.sleep(0.01)


def test_a_process_without_a_group_of_its_own_takes_nobody_along() -> None:
    process = subprocess.Popen(["sleep", "600"], text=True)
    kill(process)
    assert process.returncode == -9


def test_a_tool_that_floods_is_killed_and_named() -> None:
    with pytest.raises(
        RunError, match=r"^yes \(pid \d+\) printed more than 64 MiB, and was killed; try again$"
    ):
        run_tool(["yes"])
