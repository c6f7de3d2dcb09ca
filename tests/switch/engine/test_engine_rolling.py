"""Runs of statements become loops that do the same, and only those that are such runs."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.base.deferred import numba
from weft.switch.engine.codegen.rolling import LEAST_REPEATS, roll
from weft.switch.engine.dataplane import hashes

NAMES = {f"FIELD_{number}": number + 3 for number in range(40)}


def write(lines: list[str]) -> str:
    return "\n".join(["def run(phv):", *(f"    {line}" for line in lines), "    return phv"]) + "\n"


def result(source: str) -> list[int]:
    """What a function leaves in a PHV of 64 words."""
    scope: dict[str, Any] = dict(NAMES)
    exec(source, scope)
    found: list[int] = scope["run"](list(range(100, 164)))
    return found


def loops(source: str) -> int:
    return source.count("for turn in range(")


def rolled(lines: list[str]) -> str:
    return roll(write(lines), NAMES)


def test_a_run_is_one_loop_with_names_and_numbers_in_steps() -> None:
    source = rolled([f"phv[FIELD_{i}] = phv[{i + 1}] + {1000 - 3 * i} * 0x10" for i in range(20)])
    assert source == write(
        [
            "for turn in range(20):",
            "    phv[FIELD_0 + turn] = phv[1 + turn] + (1000 + -3 * turn) * 0x10",
        ]
    )


def test_blocks_with_conditions_are_rolled_whole() -> None:
    lines = []
    for i in range(12):
        lines += [f"if phv[{i}] > 105:", f"    phv[FIELD_{2 * i}] = {i}", "else:", "    phv[0] = 7"]
    source = rolled([*lines, "phv[1] = 2"])
    assert loops(source) == 1
    assert result(source) == result(write([*lines, "phv[1] = 2"]))


def test_a_last_block_that_goes_on_is_left_out() -> None:
    lines = [text for i in range(12) for text in (f"if phv[{i}] > 105:", f"    phv[{i}] = 1")]
    for end in (["else:", "    phv[40] = 5"], ["    phv[40] = 5"], ["elif phv[0]:", "    pass"]):
        source = rolled([*lines, *end])
        assert "range(11)" in source
        assert result(source) == result(write([*lines, *end]))


def test_what_is_no_run_stays_as_it_is() -> None:
    irregular = [f"phv[{i * i % 37}] = {i}" for i in range(30)]
    short = [f"phv[{i}] = 1" for i in range(LEAST_REPEATS - 1)]
    for lines in (irregular, short):
        assert rolled(lines) == write(lines)


STATEMENTS = st.sampled_from(
    [
        ["phv[{a}] = phv[{b}] + {c}"],
        ["phv[FIELD_{a}] += {c}", "phv[{b}] ^= 0x1f"],
        ["if phv[{a}] & 1:", "    phv[{b}] = {c}"],
        ["if phv[{a}] & 1:", "    phv[{b}] = {c}", "else:", "    phv[{a}] = -{c}"],
        ["x = phv[{a}]", "phv[{b}] = x - (1 << {a})"],
        ["for i in range({a}):", "    phv[i] += {c}"],
    ]
)


@given(
    st.lists(
        st.tuples(
            st.lists(STATEMENTS, min_size=1, max_size=3),
            st.integers(1, 14),
            st.integers(0, 12),
            st.tuples(st.integers(-1, 2), st.integers(0, 2), st.integers(-50, 50)),
        ),
        max_size=5,
    )
)
def test_rolled_code_does_what_the_statements_do(
    runs: list[tuple[list[list[str]], int, int, tuple[int, int, int]]],
) -> None:
    lines = []
    for block, count, start, steps in runs:
        for turn in range(count):
            a, b = abs(start + steps[0] * turn), start + steps[1] * turn
            for text in (line for statement in block for line in statement):
                lines.append(text.format(a=a, b=b, c=1000 + steps[2] * turn))
    assert result(rolled(lines)) == result(write(lines))


@lru_cache(maxsize=1)
def compiled_crc32() -> Any:
    """``crc32`` as compiled code calls it."""
    crc32 = hashes.crc32

    def call(data: Any, start: int, length: int) -> int:
        return crc32(data, start, length)

    return numba.njit(call)


@given(st.binary(max_size=300), st.integers(0, 20))
def test_crc32_is_zlibs(data: bytes, start: int) -> None:
    padded = np.frombuffer(data + bytes(16 + start), np.uint8)
    length = max(len(data) - start, 0)
    found = compiled_crc32()(padded, start, length)
    assert found == zlib.crc32(data[start : start + length])
