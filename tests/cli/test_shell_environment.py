"""``weft shell`` makes the environment of p4runtime-shell where ``./weft setup`` has not."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from weft.base.errors import MachineError
from weft.cli import shell_environment
from weft.cli.shell_environment import shell_python

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip installs Weft: no environment beside the interpreter's packages, and a cache."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def wheel(folder: Path) -> None:
    """A p4runtime-shell that says what it was called with."""
    folder.mkdir()
    files = {
        "p4runtime_sh/__init__.py": "",
        "p4runtime_sh/__main__.py": "import sys; print('shell', *sys.argv[1:])",
        "p4runtime_shell-9.dist-info/METADATA": (
            "Metadata-Version: 2.1\nName: p4runtime-shell\nVersion: 9\n"
        ),
        "p4runtime_shell-9.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "p4runtime_shell-9.dist-info/RECORD"
    with zipfile.ZipFile(folder / "p4runtime_shell-9-py3-none-any.whl", "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
        file.writestr(record, "".join(f"{name},,\n" for name in [*files, record]))


def test_the_first_call_makes_it_in_the_cache_and_later_ones_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path / "wheels")
    (tmp_path / "shell.txt").write_text("p4runtime-shell==9\n")
    monkeypatch.setattr(shell_environment, "PINS", tmp_path / "shell.txt")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    python = shell_python()
    assert "installing p4runtime-shell into" in capsys.readouterr().err
    assert python.is_relative_to(tmp_path / "cache")
    command = [str(python), "-I", "-m", "p4runtime_sh", "--device-id", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "shell --device-id 7\n"
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert shell_python() == python
    assert not capsys.readouterr().err
    (tmp_path / "shell.txt").write_text("p4runtime-shell==10\n")
    with pytest.raises(MachineError, match="No matching distribution found for p4runtime-shell"):
        shell_python()
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_without_an_index_one_error_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        shell_python()
    assert str(caught.value) == (
        "p4runtime-shell, which 'weft shell' opens, could not be installed: No matching "
        "distribution found for backcall==0.2.0; once pip reaches a package index, run it again"
    )
    assert not list((tmp_path / "cache").iterdir())


def test_that_of_the_set_up_is_taken_where_it_is_there(tmp_path: Path) -> None:
    made = tmp_path / "prefix" / "shell" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert shell_python() == made


def test_an_installed_weft_has_the_pins() -> None:
    assert shell_environment.PINS.read_text() == (ROOT / "requirements/shell.txt").read_text()
