"""Inputs that never end, or are too large, are refused by name before they fill the memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import WEFT, start
from tests.support.input_readers import READERS

from weft.base.errors import InputError
from weft.experiments.scenario.scenario import Scenario
from weft.switch.commands.p4c import compile_to_files
from weft.switch.compiler import CompileError, compile_program
from weft.tools.bench.switch_rows import TWELVE_TABLES


def an_endless_one(file: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as sparse:
            sparse.truncate(1 << 42)


REASON = {
    "pipe": "it is a pipe or a socket, and a regular file is needed",
    "device": "it is a device, and a regular file is needed",
    "large": "it has 4,398,046,511,104 bytes, and at most ",
}


@pytest.mark.parametrize("kind", REASON)
@pytest.mark.parametrize("name", READERS)
def test_a_file_without_an_end_is_an_input_error_that_names_it(
    tmp_path: Path, name: str, kind: str
) -> None:
    an_endless_one(tmp_path / name, kind)
    with pytest.raises(InputError) as failure:
        READERS[name](tmp_path / name)
    assert REASON[kind] in str(failure.value)
    assert name in str(failure.value)


NOT_NESTED = ("program.json", "s1-commands.txt")
"""What is not looked into when it is read, and what has lines alone."""


@pytest.mark.parametrize("content", ["[" * 200_000, "a = " + "[" * 200_000, '{"a":' * 200_000])
@pytest.mark.parametrize("name", [name for name in READERS if name not in NOT_NESTED])
def test_a_file_that_is_nested_too_deeply_is_an_input_error_that_names_it(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=name):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("kind", REASON)
def test_a_program_or_an_include_without_an_end_is_an_error_at_its_place(
    tmp_path: Path, kind: str
) -> None:
    an_endless_one(tmp_path / "endless.p4", kind)
    with pytest.raises(CompileError, match=f"cannot read: {REASON[kind]}"):
        compile_program(tmp_path / "endless.p4")
    (tmp_path / "main.p4").write_text('\n#include "endless.p4"\n')
    with pytest.raises(CompileError) as failure:
        compile_program(tmp_path / "main.p4")
    assert f"main.p4:2:1: error: cannot read {tmp_path}/endless.p4: {REASON[kind]}" in str(
        failure.value
    )


def test_a_script_of_the_prompt_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script").symlink_to("/dev/zero")
    done = start(*WEFT, "up", "--script", "script", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "weft: script 'script': it is a device, and a regular file is needed\n"


@pytest.mark.parametrize("kind", REASON)
def test_a_switchs_program_without_an_end_is_called_what_it_is(tmp_path: Path, kind: str) -> None:
    an_endless_one(tmp_path / "endless.json", kind)
    done = start(*WEFT, "switch", "--grpc-server-addr", "unix:s", "endless.json", cwd=tmp_path)
    assert done.returncode == 2
    assert ("it has 4,398," if kind == "large" else "it is no regular file") in done.stderr
    assert done.stderr.count("\n") == 1


def test_p4info_beside_a_program_is_not_passed_over_when_it_cannot_be_read(tmp_path: Path) -> None:
    compile_to_files(TWELVE_TABLES, out=str(tmp_path / "p.json"))
    (tmp_path / "p.p4info.txtpb").unlink()
    (tmp_path / "p.p4info.txtpb").symlink_to("/dev/zero")
    done = start(*WEFT, "switch", "--grpc-server-addr", "unix:s", "p.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "'p.p4info.txtpb' beside the program cannot be read: it is a device" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "1%"}, "loss '1%' is not a number"),
        ({"algorithms": "ring"}, "algorithms 'ring' is no sequence: give a list or a tuple"),
    ],
)
def test_options_of_another_type_are_an_input_error(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scenario(**options)


@pytest.mark.parametrize("faults", [("leaf0-spine1:loss=0.1",), (7,), "leaf0-spine1:fail", None])
def test_faults_that_are_no_faults_are_an_input_error(faults: object) -> None:
    with pytest.raises(InputError, match="fault"):
        Scenario(faults=faults)
