"""Machine code that is kept: without numba it does what numba's function does, and what cannot be
loaded goes through numba."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from weft.base.jit import Jit, Record, Words, record
from weft.base.machine_code import (
    BOOLEAN,
    INTEGER,
    Kind,
    Library,
    Unsuitable,
    bound,
    file_of,
    found_at,
    keep,
    kind_of,
    target_machine,
)
from weft.base.processors import levels_met, llvm

JIT = Jit("tests-kept", [Path(__file__)])


@record
class Pair(Record):
    left: int
    right: Annotated[Words, 2]


@JIT.internal
def halved(number: int) -> int:
    return number // 2


@JIT.compiled
def total(words: Words, factor: int, negative: bool) -> int:
    found = 0
    for word in words:
        found += word * factor
    return -halved(found) if negative else halved(found)


@JIT.compiled
def fill(table: Words, bytes_: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            table[row, column] = 10 * row + column + bytes_[row]


@JIT.compiled
def larger(pair: Pair, than: int) -> bool:
    pair.right[1] += 1
    return bool(pair.left + pair.right[0] > than)


@JIT.compiled
def quotient(dividend: int, divisor: int) -> int:
    return dividend // divisor


@JIT.compiled
def first_of_many(count: int) -> int:
    many = np.arange(count)
    return int(many[0]) + len(many)


def adding(number: int) -> Callable[[int], int]:
    """Makes functions that all have one name."""

    @JIT.compiled
    def add(other: int) -> int:
        return other + number

    return add


@JIT.compiled
def chosen(number: int, negative: bool) -> int:
    return -number if negative else number + 1


@JIT.compiled
def both_chosen(number: int) -> int:
    """Calls a function with constants, for which numba makes code of its own."""
    return 1000 * chosen(number, True) + chosen(number, False)


def answers() -> list[object]:
    """What the functions above answer, for every kind of arguments."""
    words = np.arange(10, dtype=np.int64)
    table = np.zeros((2, 3), np.int64)
    pairs = np.zeros(2, Pair.dtype)
    pairs["left"] = (5, 50)
    pair: Pair = pairs[1]
    fill(table, np.frombuffer(b"\x01\x64", np.uint8))
    fill(table[:, :2].copy(), np.array([1, 2], np.uint8))
    call = bound(total, words, 3, False)
    before, words[0] = call(), 1000
    return [
        total(words, 2, True), total(words[2:4], np.int64(2), False), before, call(),
        table.tolist(), larger(pair, 49), larger(pair, 50), pairs["right"].tolist(),
        quotient(-7, 2), both_chosen(3), chosen(5, True), chosen(5, False),
    ]  # fmt: skip


RIGHT = [
    -1045, 5, 67, 1567, [[1, 2, 3], [110, 111, 112]], True, False, [[0, 0], [0, 2]], -4,
    -2996, -5, 6,
]  # fmt: skip

SCRIPT = """
import sys
from tests.base import test_machine_code as here
from weft.base.machine_code import prepare
assert here.answers() == here.RIGHT, here.answers()
prepare(here.total, here.np.zeros(1, here.np.int64), 1, True)
print("numba" in sys.modules)
"""


def answer_of(script: str, cache: Path) -> tuple[str, str]:
    """What a process of its own prints, with a cache folder, and what it says besides."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"WEFT_CACHE": str(cache)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def run(script: str, cache: Path) -> str:
    """What a process of its own prints, with a cache folder; it says nothing besides."""
    answer, said = answer_of(script, cache)
    assert not said
    return answer


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which a process has left its machine code."""
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    assert run(SCRIPT, folder) == "True"
    return folder


def kept_in(cache: Path) -> list[Path]:
    return sorted(cache.glob("tests-kept/*/*.library"))


def test_numba_is_not_imported_by_who_finds_machine_code(cache: Path) -> None:
    assert answers() == RIGHT
    assert run(SCRIPT, cache) == "False"


def test_what_is_not_whole_is_made_again(cache: Path) -> None:
    kept = kept_in(cache)
    assert len(kept) == 7  # `fill` is of two kinds of arrays
    for number, path in enumerate(kept):
        text = path.read_bytes()
        other = bytes([text[200] ^ 1])
        damaged = (b"", text[:100], text[:-1], text[:200] + other + text[201:])
        path.write_bytes(damaged[number % 4])
        assert found_at(path) is None
    assert run(SCRIPT, cache) == "True"
    assert all(found_at(path) is not None for path in kept)
    assert run(SCRIPT, cache) == "False"


def test_other_kinds_of_arguments_go_through_numba(cache: Path) -> None:
    script = """
import sys
import numpy as np
from tests.base.test_machine_code import answers, total, RIGHT
print(total(np.arange(10, dtype=np.int64), 2, False), "numba" in sys.modules)
print(total(np.arange(10, dtype=np.int64)[::2], 2, False), "numba" in sys.modules)
assert answers() == RIGHT
"""
    assert run(script, cache).splitlines() == ["45 False", "20 True"]


def test_code_that_fails_raises_without_numba_too(cache: Path) -> None:
    script = """
import sys
from tests.base.test_machine_code import quotient
for divisor in (0, 3, 0):
    try:
        print(quotient(7, divisor), "numba" in sys.modules)
    except ArithmeticError as error:
        print(error)
"""
    said = (
        "tests.base.test_machine_code.quotient: compiled code raised an error, such as a division"
    )
    assert run(script, cache).splitlines() == [f"{said} by zero", "2 False", f"{said} by zero"]


def test_code_that_only_numba_can_run_is_not_kept(cache: Path) -> None:
    script = """
import sys
from tests.base.test_machine_code import first_of_many
print(first_of_many(7), "numba" in sys.modules)
"""
    assert [run(script, cache) for _ in range(2)] == ["7 True", "7 True"]


def test_functions_that_a_function_makes_are_not_taken_for_each_other(cache: Path) -> None:
    script = """
from tests.base.test_machine_code import adding
print(adding(1)(5), adding(2)(5))
"""
    assert [run(script, cache) for _ in range(2)] == ["6 7", "6 7"]


def test_a_call_that_fails_is_no_other_threads(cache: Path) -> None:
    script = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.base.test_machine_code import quotient
sys.setswitchinterval(1e-6)

def wrong(divisor):
    found = 0
    for _ in range(20_000):
        try:
            found += quotient(7, divisor) != 2
        except ArithmeticError:
            found += divisor != 0
        else:
            found += divisor == 0
    return found

with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(wrong, (3, 0, 3, 0))), "numba" in sys.modules)
"""
    assert run(script, cache) == "0 False"


def test_settings_that_change_no_code_are_of_no_concern(cache: Path) -> None:
    for name in ("NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR"):
        assert run(f"import os; os.environ['{name}'] = '1'" + SCRIPT, cache) == "False"


def test_numba_is_woken_again_where_that_failed(cache: Path) -> None:
    script = """
import sys
from weft.base import deferred, jit
from tests.base.test_machine_code import RIGHT, answers
failed = []
deferred._at_waking.insert(0, lambda: (failed.append(1), 1 / 0) if not failed else None)
try:
    deferred.wake()
except ZeroDivisionError:
    print(len(failed))
assert answers() == RIGHT
deferred.wake()
assert answers() == RIGHT
print(type(jit.types.made).__name__, type(deferred.ir.made).__name__)
"""
    assert run(script, cache).splitlines() == ["1", "module module"]


def test_code_for_another_processor_is_not_found(cache: Path) -> None:
    script = "import os; os.environ['NUMBA_OPT'] = '1'" + SCRIPT
    assert run(script, cache) == "True"


def shipped_from(cache: Path, folder: Path, level: str) -> list[Path]:
    """What a cache has, as a wheel has it for a level of processors."""
    made = {}
    for file in kept_in(cache):
        place = file.relative_to(cache).as_posix().rpartition("-")[0]
        made[place] = folder / file_of(place, level)
        made[place].parent.mkdir(parents=True, exist_ok=True)
        made[place].write_bytes(file.read_bytes())
    return [*made.values()]


SHIPPED = """
from pathlib import Path
from weft.base import machine_code
machine_code.SHIPPED = Path({folder!r})
"""
A_LEVEL = next((level.name for level in levels_met()), "")
no_level = pytest.mark.skipif(not A_LEVEL, reason="wheels have no code for this processor")


@no_level
def test_what_came_with_weft_is_not_compiled_and_what_is_damaged_is_not_loaded(
    cache: Path, tmp_path: Path
) -> None:
    folder, own = tmp_path / "kernels", tmp_path / "cache"
    own.mkdir(mode=0o700)
    made = shipped_from(cache, folder, A_LEVEL)
    script = SHIPPED.format(folder=str(folder)) + SCRIPT
    assert run(script, own) == "False"
    assert kept_in(own) == []
    damaged = next(file for file in made if file.name.startswith("quotient"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    answer, said = answer_of(script, own)
    assert answer == "True"
    assert said == f"weft: {damaged} is damaged and is not used: install Weft anew\n"
    assert [file.name.split("-")[0] for file in kept_in(own)] == ["quotient"]
    assert run(script, own) == "False"


def test_what_came_with_weft_for_other_processors_is_not_used_and_that_is_said_once(
    cache: Path, tmp_path: Path
) -> None:
    folder, own = tmp_path / "kernels", tmp_path / "cache"
    own.mkdir(mode=0o700)
    made = shipped_from(cache, folder, "another")
    answer, said = answer_of(SHIPPED.format(folder=str(folder)) + SCRIPT, own)
    assert answer == "True"
    assert said == (
        "weft: the machine code that came with Weft (for another) is for other processors, or "
        "other settings of numba: what is needed of it is compiled, and kept\n"
    )
    assert len(kept_in(own)) == len(made)


def test_a_name_that_the_process_does_not_have_is_no_way_to_end_it(tmp_path: Path) -> None:
    target = target_machine()
    text = """declare i64 @no_such_function_anywhere()
    define i64 @anything() {
        %result = call i64 @no_such_function_anywhere()
        ret i64 %result
    }"""
    code = target.emit_object(llvm().parse_assembly(text))
    library = Library(code, {("anything", ()): ("anything", "int64")})
    with pytest.raises(Unsuitable, match="machine code cannot be loaded"):
        library.loaded()
    keep(tmp_path / "kept", library)
    assert found_at(tmp_path / "kept") == library


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, INTEGER), (-(1 << 63), INTEGER), (1 << 63, None), (True, BOOLEAN),
        (np.int64(3), INTEGER), (np.uint64(3), None), (1.0, None), ("a", None),
        (np.zeros((2, 3), np.float32), Kind(np.dtype(np.float32), 2)),
        (np.frombuffer(b"ab", np.uint8), Kind(np.dtype(np.uint8), 1, readonly=True)),
        (np.zeros(6, np.int64)[::2], None), (np.zeros(2, ">i8"), None),
        (np.zeros(2, Pair.dtype), None),
        (np.zeros(2, Pair.dtype)[0], Kind(Pair.dtype)),
        (np.zeros(1, [("left", "<f8"), ("right", [("a", "u1")])])[0],
         Kind(np.dtype([("left", "<f8"), ("right", [("a", "u1")])]))),
        (np.frombuffer(bytes(17), np.uint8)[1:].view(np.int64), None),
    ],
)  # fmt: skip
def test_arguments_are_of_the_kinds_that_machine_code_takes(
    value: object, kind: Kind | None
) -> None:
    assert kind_of(value) == kind


def test_where_nothing_can_be_kept_preparation_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script = """
from tests.base.test_machine_code import chosen
from weft.base.errors import MachineError
from weft.base.machine_code import prepare
try:
    prepare(chosen, 1, True)
except MachineError as error:
    print(error)
"""
    assert "cannot be used" in run(script, tmp_path)


WHOLE = """
import sys
from weft import Scenario, run
from weft.agents.drivers.rank import warm_up
from weft.switch.realtime.process import prepare
assert run(Scenario(world="simulated", size_bytes=4096)).verified
prepare()
warm_up()
print("numba" in sys.modules)
"""


def test_a_second_process_simulates_switches_and_ranks_without_numba() -> None:
    """Whatever numba changes of its own, so that nothing could be kept, is seen here."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WHOLE], capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "False"
