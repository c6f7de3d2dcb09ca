"""Clients by others work on the built-in switch unchanged: finsy, and the library of the P4
tutorials. p4runtime-shell is in test_p4runtime_shell.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.p4runtime_support import Files

from weft.switch.engine.switches import Dataplane
from weft.switch.p4runtime.server import P4RuntimeServer

pytest_plugins = ["tests.support.p4runtime_fixtures"]

FINSY_PYTHON = "WEFT_FINSY_PYTHON"
"""Names a Python that has finsy, whose protobuf need not be Weft's."""
TUTORIALS = "WEFT_TUTORIALS"
"""Names a checkout of p4lang/tutorials."""
CONTROLLER = (sys.executable, "-m", "weft.compat.p4runtime")
"""Runs controllers that import the package p4runtime."""
SUPPORT = Path(__file__).parents[2] / "support"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sent_to(dataplane: Dataplane) -> list[int]:
    """The ports that a packet leaves by which the entry of a test is for."""
    dataplane.receive(0, 1, [bytes([1, 0x10, 0x20]) + bytes(57)], 1000)
    return [departure.port for departure in dataplane.transmit(10**9)]


@pytest.mark.skipif(FINSY_PYTHON not in os.environ, reason=f"${FINSY_PYTHON} names no Python")
def test_finsy(server: P4RuntimeServer, dataplane: Dataplane, every_entity: Files) -> None:
    said = run(
        os.environ[FINSY_PYTHON], str(SUPPORT / "finsy_side.py"), server.address, "1",
        str(every_entity.p4info), str(every_entity.json),
    )  # fmt: skip
    assert said.splitlines() == ["exact_table {'a': 1, 'b': 258}"]
    assert sent_to(dataplane) == [5]


@pytest.mark.skipif(TUTORIALS not in os.environ, reason=f"${TUTORIALS} names no checkout")
def test_the_library_of_the_p4_tutorials(
    server: P4RuntimeServer, dataplane: Dataplane, every_entity: Files, tmp_path: Path
) -> None:
    said = run(
        *CONTROLLER, str(SUPPORT / "tutorials_side.py"), os.environ[TUTORIALS], server.address,
        str(every_entity.p4info), str(every_entity.json), str(tmp_path / "requests.txt"),
    )  # fmt: skip
    assert "TheIngress.exact_table TheIngress.send" in said.splitlines()
    assert sent_to(dataplane) == [5]


def test_a_controller_that_imports_the_package_p4runtime(
    server: P4RuntimeServer, dataplane: Dataplane, every_entity: Files
) -> None:
    said = run(
        *CONTROLLER, str(SUPPORT / "controller_side.py"), server.address,
        str(every_entity.p4info), str(every_entity.json),
    )  # fmt: skip
    assert said.splitlines() == ["master", "[b'\\x01', b'\\x01\\x02']"]
    assert sent_to(dataplane) == [5]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "write python -m weft.compat.p4runtime SCRIPT.py ARGUMENTS"),
        (("none.py",), "script 'none.py': there is no such file"),
    ],
)
def test_no_controller(words: tuple[str, ...], error: str) -> None:
    done = subprocess.run([*CONTROLLER, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"weft: {error}\n")
