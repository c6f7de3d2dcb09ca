"""Damaged programs are errors, never anything worse."""

from __future__ import annotations

import json
import re
import tempfile
from functools import lru_cache
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.compiler_support import PROGRAMS, check_document

from weft.switch.compiler import CompileError, compile_program
from weft.switch.compiler.diagnostics import InternalError
from weft.tools.attack.mutations import mutate_text
from weft.tools.attack.splices import Splicer

_WORD = re.compile(r'"[^"]*"|[A-Za-z_0-9]+|\s+|&&&|<<|>>|\+\+|.', re.DOTALL)


@lru_cache(maxsize=1)
def _programs() -> list[list[str]]:
    return [_WORD.findall(path.read_text()) for path in sorted(PROGRAMS.glob("*.p4"))]


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    words = {word for text in _programs() for word in text if word.strip()}
    return sorted(words | {"@", "{#}", "...", "varbit", "for", "table", "99999999999", "0", "|+|"})


@st.composite
def damaged_programs(draw: st.DrawFn) -> str:
    """One of the test programs with a few of its words changed."""
    words = list(draw(st.sampled_from(_programs())))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words) - 1))
        change = draw(st.sampled_from(["delete", "replace", "insert", "copy", "swap"]))
        if change == "delete":
            del words[place]
        elif change == "replace":
            words[place] = draw(st.sampled_from(_vocabulary()))
        elif change == "insert":
            words.insert(place, draw(st.sampled_from(_vocabulary())) + " ")
        else:
            other = draw(st.integers(0, len(words) - 1))
            if change == "swap":
                words[other] = words[place]
            words[place] = words[other]
    return "".join(words)


def _compile(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.p4"
        source.write_text(text)
        try:
            result = compile_program(source)
        except InternalError:
            raise
        except CompileError as problem:
            assert problem.diagnostics
            assert all(item.message for item in problem.diagnostics)
            return
    check_document(json.loads(result.bmv2_json))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(damaged_programs())
def test_a_damaged_program_compiles_or_is_an_error(text: str) -> None:
    _compile(text)


@given(st.randoms(use_true_random=True), st.integers(0, 10**6))
def test_a_program_as_the_attacks_mutate_it_compiles_or_is_an_error(
    random: Random, program: int
) -> None:
    paths = sorted(PROGRAMS.glob("*.p4"))
    _compile(mutate_text(random, paths[program % len(paths)].read_text()))


@lru_cache(maxsize=1)
def _splicer() -> Splicer:
    return Splicer(sorted(PROGRAMS.glob("*.p4")))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**9))
def test_a_program_made_of_parts_of_others_compiles_or_is_an_error(seed: int) -> None:
    _compile(_splicer().splice(Random(seed)))


@given(st.text(alphabet='#define include ifend"<>(){};:=@_ab1\\\n/*&|+ typehadrconl', max_size=200))
def test_random_text_compiles_or_is_an_error(text: str) -> None:
    _compile(text)
