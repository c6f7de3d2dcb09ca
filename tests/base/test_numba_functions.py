"""What is kept of single functions: where one of a program's functions is changed, it alone is
compiled anew, with those that it means something to."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import ModuleType

import pytest

from weft.base.deferred import wake
from weft.base.jit import Jit

wake()
from numba.core import event  # noqa: E402

JIT = Jit("tests-functions", [Path(__file__)])

ENGINE = """
@jit
def shared(value):
    return value // 2
"""

PROGRAM = """
from tests_engine import shared

ADDED = 5
LEFT_ALONE = 7

@jit
def first(value):
    return value + ADDED

@jit
def second(value):
    return shared(value) * 2

@jit
def pipeline(value):
    return first(value) * 1000 + second(value)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path


def module(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module, made anew as another process would."""
    made = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    made.__dict__["jit"] = JIT.part
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def compiled(source: str, monkeypatch: pytest.MonkeyPatch, value: int = 4) -> tuple[int, set[str]]:
    """Compile a program; return what it gives, and which functions numba was asked about."""
    module("tests_engine", ENGINE, monkeypatch)
    program = module("tests_program", source, monkeypatch)
    with event.install_recorder("numba:compile") as recorder:
        library = JIT.for_c("program", program.__dict__["pipeline"].py_func)
    asked = {one.data["dispatcher"].py_func.__qualname__ for _, one in recorder.buffer}
    ((address, _),) = library.loaded().values()
    result = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value)
    return result, asked


def test_nothing_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"first", "second", "shared", "pipeline"}
    assert compiled(PROGRAM, monkeypatch) == (9004, everything)
    assert compiled(PROGRAM, monkeypatch) == (9004, set())


@pytest.mark.parametrize(
    ("was", "now", "result", "asked"),
    [
        ("value + ADDED", "value - ADDED", -996, {"first"}),
        ("ADDED = 5", "ADDED = 6", 10004, {"first"}),
        ("LEFT_ALONE = 7", "LEFT_ALONE = 8", 9004, set()),
        ("\n\n@jit", "\n# A comment.\n\n@jit", 9004, set()),
        ("shared(value) * 2", "shared(value) * 3", 9006, {"second"}),
        # A function that is called in place of another.
        ("+ second(value)", "+ shared(value)", 9002, {"pipeline"}),
    ],
)
def test_a_change_costs_what_it_means_something_to(
    was: str, now: str, result: int, asked: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(PROGRAM, monkeypatch)
    assert compiled(PROGRAM.replace(was, now), monkeypatch) == (result, asked)
    assert compiled(PROGRAM, monkeypatch) == (9004, set())


def test_what_calls_a_function_of_another_type_is_compiled_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled(PROGRAM, monkeypatch)
    other = PROGRAM.replace("value + ADDED", "value > ADDED")
    assert compiled(other, monkeypatch) == (4, {"first", "pipeline"})


def test_what_is_damaged_is_made_again(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    compiled(PROGRAM, monkeypatch)
    kept = [path for path in cache.rglob("functions/*/*") if path.is_file()]
    assert len(kept) == 4
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])
    result, asked = compiled(PROGRAM, monkeypatch)
    assert (result, len(asked)) == (9004, 4)
    assert compiled(PROGRAM, monkeypatch) == (9004, set())
