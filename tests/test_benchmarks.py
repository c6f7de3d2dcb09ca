"""``weft bench``: names of benchmarks, and where figures are written."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any, cast

import pytest

from weft.base.errors import InputError
from weft.experiments.bench import benchmarks

FIGURES = {"ns": 3, "by_size": {"64": 1.5}}


def module(**functions: Any) -> ModuleType:
    return cast(ModuleType, SimpleNamespace(**functions))


@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_every_benchmark_measures_and_says_what(name: str) -> None:
    found = benchmarks.load(name)
    assert callable(found.measure)
    template = Path(benchmarks.__file__).with_name("templates") / f"{name}.txt"
    assert template.is_file() or callable(found.lines)


def test_a_name_that_is_none_is_said_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'transprot' \(did you mean transport\?\)"):
        benchmarks.load("transprot")


def test_figures_and_plots_are_written_where_there_are_some(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    benchmarks.check_writable(folder)
    assert not folder.parent.exists()
    (file,) = benchmarks.write(module(), "one", FIGURES, folder)
    assert json.loads(file.read_text()) == FIGURES

    class Drawing:
        def savefig(self, file: IO[bytes], format: str) -> None:
            file.write(format.encode())

    def plot(figures: dict[str, Any]) -> Drawing:
        return Drawing()

    files = benchmarks.write(module(plot=plot), "two", FIGURES, folder)
    assert [each.name for each in files] == ["two.json", "two.svg", "two.png"]
    assert [each.read_text() for each in files[1:]] == ["svg", "png"]


def test_a_folder_that_cannot_be_written_is_named_before_and_after(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "x"
    with pytest.raises(InputError, match="file/x' cannot be written"):
        benchmarks.check_writable(folder)
    with pytest.raises(InputError, match="file/x' cannot be written: Not a directory"):
        benchmarks.write(module(), "one", FIGURES, folder)
