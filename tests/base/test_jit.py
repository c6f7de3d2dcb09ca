"""The layer above numba: records are the same memory in every form, machine code is never stale."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from weft.base import jit as layer
from weft.base import processors
from weft.base.jit import Jit, Record, Words, record

JIT = Jit("tests", [Path(__file__)])


@dataclass
class Counters:
    seen: int = 0
    lost: int = 0


@record
class Inner(Record):
    first: int
    counted: Counters


@record
class Outer(Record):
    inner: Inner
    last: int
    table: Annotated[Words, 3]


@JIT.internal
def add_one(inner: Inner) -> int:
    inner.counted.lost += 1
    return inner.first


@JIT.compiled
def change(address: int, index: int) -> int:
    row = Outer(address, index)
    row.last = add_one(row.inner) * 2
    row.table[1] = row.table.ctypes.data - address
    return Outer(address).last


PLAIN = """
import sys
from weft.tools.mutation.plain import use_plain_form
use_plain_form()
from tests.base import test_jit
rows = test_jit.changed_rows()
address = rows.ctypes.data
assert type(test_jit.Outer(address).inner.counted.lost).__name__ == "int64"
assert type(test_jit.Outer.at(address).inner.counted.lost) is int
print(rows.view('int64').tolist())
"""


def changed_rows() -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """A table of which compiled code, or its plain form, changes row 1."""
    rows = np.zeros(2, Outer.dtype)
    rows["inner"]["first"] = (20, 21)
    rows["last"] = 7
    assert change(rows.ctypes.data, 1) == 7
    return rows


def test_compiled_code_python_and_numpy_see_the_same_record() -> None:
    rows = changed_rows()
    row = Outer.at(rows.ctypes.data, 1)
    assert (row.inner.first, row.inner.counted.lost, row.last) == (21, 1, 42)
    assert row.table.tolist() == [0, Outer.dtype.itemsize + 32, 0]
    row.inner.counted.seen = -1
    row.table[2] = 5
    whole = rows.view(np.int64).reshape(2, -1).tolist()
    assert whole == [[20, 0, 0, 7, 0, 0, 0], [21, -1, 1, 42, 0, Outer.dtype.itemsize + 32, 5]]


def test_the_plain_form_does_the_same_to_a_record() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == str(changed_rows().view(np.int64).tolist())


def test_a_changed_callee_has_another_folder_and_another_numba_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callee = tmp_path / "callee.py"
    monkeypatch.setattr(layer, "_ROOT", Path("/"))
    callee.write_text("ONE = 1\n")
    before = Jit("tests", [callee]).digest
    assert Jit("tests", [callee]).digest == before
    callee.write_text("ONE = 2\n")
    assert Jit("tests", [callee]).digest != before
    made_here = processors.processor()
    monkeypatch.setattr(processors, "version", lambda name: "0.0.0")
    assert processors.processor.__wrapped__() != made_here


def test_numba_is_not_imported_to_show_help() -> None:
    code = (
        "import sys; from weft.cli.command_line import main\n"
        "sys.argv = ['weft', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('numba' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stderr.strip() == "False"
