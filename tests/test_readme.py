"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.scenario import Scenario, read_file
from switch.cache import CHECKOUT

TEXT = (CHECKOUT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})
    assert "multicast" in capsys.readouterr().out


def test_the_scenario_file_is_one(tmp_path: Path) -> None:
    (found,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    file = tmp_path / "readme.toml"
    file.write_text(found)
    assert isinstance(read_file(file), Scenario)


@pytest.mark.parametrize("file", sorted((CHECKOUT / "experiments" / "scenarios").glob("*.toml")))
def test_the_scenarios_that_come_along_are_valid(file: Path) -> None:
    assert isinstance(read_file(file), Scenario)


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (CHECKOUT / target).exists(), target
