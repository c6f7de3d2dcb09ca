"""Objects that modules register: found by importing them once, and known without that later."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from weft.base.registry import Registry

TWO = """
class Thing:
    def __init__(self, name, colours):
        self.name, self.colours = name, colours

THINGS = (Thing("apple", {"red", "green"}), Thing("plum", frozenset({"blue"})))
"""
NONE = "HELPS = ('what registers nothing',)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The modules of a package."""
    modules = tmp_path / "shop" / "fruit"
    modules.mkdir(parents=True)
    for each in (modules, modules.parent):
        (each / "__init__.py").touch()
    (modules / "trees.py").write_text(TWO)
    (modules / "tools.py").write_text(NONE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield modules
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "shop"]:
        del sys.modules[name]


class Facts(msgspec.Struct):
    colours: list[str]


def fruit() -> Registry[Any]:
    return Registry("weft.no_such_group", "shop.fruit:THINGS", facts=Facts)


def is_imported() -> bool:
    return "shop.fruit.trees" in sys.modules


def test_modules_are_imported_once_and_then_only_for_their_objects(folder: Path) -> None:
    assert tuple(fruit()) == ("apple", "plum") and is_imported()
    forget()
    again = fruit()
    assert tuple(again) == ("apple", "plum")
    assert again.fact("apple", "colours") == ["green", "red"] and "apple" in again.own
    assert not is_imported()
    assert again["plum"].colours == {"blue"} and is_imported()


def test_another_module_or_another_content_is_found(folder: Path) -> None:
    assert tuple(fruit()) == ("apple", "plum")
    forget()
    (folder / "bushes.py").write_text(TWO.replace("apple", "berry").replace("plum", "currant"))
    assert tuple(fruit()) == ("berry", "currant", "apple", "plum")
    forget()
    (folder / "bushes.py").write_text(TWO.replace("apple", "holly").replace("plum", "currant"))
    assert tuple(fruit()) == ("holly", "currant", "apple", "plum")
    forget()
    (folder.parent / "base.py").write_text("# Objects may be made of what is here.")
    assert tuple(fruit()) and is_imported()


@pytest.mark.parametrize(
    "spoilt", ["", "{", '{"apple": ', "[]", '{"apple": 5}', '{"apple": {"module": "trees"}}']
)
def test_what_is_kept_and_cannot_be_read_is_found_anew(folder: Path, spoilt: str) -> None:
    assert tuple(fruit())
    (kept,) = (folder.parent.parent / "cache").iterdir()
    good = kept.read_text()
    kept.write_text(spoilt)
    forget()
    assert tuple(fruit()) == ("apple", "plum")
    assert kept.read_text() == good


def test_without_a_cache_folder_modules_are_imported_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        forget()
        assert tuple(fruit()) == ("apple", "plum") and is_imported()


@pytest.mark.parametrize("asked", ["--version", "--help", "run"])
def test_without_a_cache_folder_the_command_line_says_what_it_needs_it_for(
    tmp_path: Path, asked: str
) -> None:
    (tmp_path / "file").touch()
    words = [asked, "allgather", "--world", "simulated"] if asked == "run" else [asked]
    done = subprocess.run(
        [sys.executable, "-m", "weft", *words], capture_output=True, text=True, cwd=tmp_path,
        env={"PYTHONPATH": ":".join(sys.path), "WEFT_CACHE": str(tmp_path / "file")}, check=False,
    )  # fmt: skip
    if asked == "run":
        assert done.returncode == 2 and not done.stdout
        (line,) = done.stderr.splitlines()
        assert line == (
            f"weft: cache folder {tmp_path / 'file'} cannot be used: it is not a folder; name "
            "another with WEFT_CACHE"
        )
    else:
        assert done.returncode == 0 and done.stdout and not done.stderr


def test_several_processes_may_look_at_once(folder: Path) -> None:
    cache = folder.parent.parent / "cache"
    code = (
        "import msgspec\n"
        "from weft.base.registry import Registry\n"
        "Facts = msgspec.defstruct('Facts', [('colours', list[str])])\n"
        "print(*Registry('weft.no_such_group', 'shop.fruit:THINGS', facts=Facts))\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
            env={"PYTHONPATH": ":".join(sys.path), "WEFT_CACHE": str(cache)},
        )
        for _ in range(4)
    ]  # fmt: skip
    assert [each.communicate(timeout=60)[0] for each in running] == ["apple plum\n"] * 4
    assert len(list(cache.iterdir())) == 1


def test_names_of_algorithms_and_schemes_need_no_numpy(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from weft.agents.collectives.names import algorithms, baseline, flow_algorithms\n"
        "from weft.experiments.paths.names import scheme_names\n"
        "algorithms(), baseline(), flow_algorithms(), scheme_names()\n"
        "print('numpy' in sys.modules)\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONPATH": ":".join(sys.path), "WEFT_CACHE": str(tmp_path / "cache")},
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert said == ["True\n", "False\n"]  # the first has to look
