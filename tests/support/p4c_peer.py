"""p4c beside Weft's compiler: what it makes of a program, and what older ones do not know."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pytest
from google.protobuf import text_format
from tests.support.compiler_support import p4c

from weft.switch.compiler import ProgramFiles
from weft.switch.messages import p4info_pb2

CURRENT = (1, 2, 5)
"""From this version on p4c takes all of the tests' programs, and says all that P4Info has."""
_LATER = {
    "tables": ("initial_default_action", "has_initial_entries"),
    "action_profiles": ("sum_of_weights", "sum_of_members"),
}
"""Fields of P4Info that are newer than p4c 1.2.4.0."""
_LATER_ANNOTATIONS = ("@selector_size_semantics(", "@max_member_weight(")
"""Annotations that became such fields."""


@lru_cache(maxsize=1)
def p4c_version() -> tuple[int, ...]:
    """The version of the p4c that is installed."""
    compiler = p4c()
    assert compiler is not None
    shown = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"Version (\d+(?:\.\d+)*)", shown.stdout + shown.stderr)
    assert found is not None
    return tuple(map(int, found[1].split(".")))


def compile_with_p4c(source: Path, output: Path, *options: object) -> None:
    """Write the BMv2 JSON that p4c makes of a source; skip where p4c is not installed, or is an
    older one that does not take the program."""
    compiler = p4c()
    if compiler is None:
        pytest.skip("p4c is not installed: no p4c-bm2-ss on the PATH, no WEFT_P4C")
    command = [compiler, *map(str, options), "-o", str(output), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and p4c_version() < CURRENT:
        (problem, *_) = [line for line in done.stderr.splitlines() if "error" in line] or [""]
        version = ".".join(map(str, p4c_version()))
        pytest.skip(f"p4c {version} does not take {source.name}: {problem[-120:]}")
    assert not done.returncode, done.stderr
    output.write_text(json.dumps(json.loads(output.read_text())))  # without 100 MB of blanks


def with_p4c(source: Path, folder: Path, macros: Iterable[str] = ()) -> ProgramFiles:
    """What p4c makes of a program: BMv2 JSON and P4Info."""
    files = ProgramFiles(folder / "p4c.json", folder / "p4c.p4info.txt")
    defines = [f"-D{macro}" for macro in macros]
    compile_with_p4c(source, files.json, *defines, "--p4runtime-files", files.p4info)
    return files


def in_both(text: str) -> p4info_pb2.P4Info:
    """A P4Info, in text form, without what the installed p4c is too old for."""
    info = text_format.Parse(text, p4info_pb2.P4Info())
    if p4c_version() >= CURRENT:
        return info
    info.ClearField("pkg_info")  # @platform_property became fields
    info.ClearField("type_info")  # @name of types counts later
    for objects, fields in _LATER.items():
        for item in getattr(info, objects):
            for field in fields:
                item.ClearField(field)
            given = [
                note
                for note in item.preamble.annotations
                if not note.startswith(_LATER_ANNOTATIONS)
            ]
            item.preamble.ClearField("annotations")
            item.preamble.annotations.extend(given)
    return info
