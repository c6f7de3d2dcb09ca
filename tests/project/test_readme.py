"""What the README shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.support.collective_names import COLLECTIVES

from weft.base.cache import CHECKOUT
from weft.base.units import format_rate
from weft.cli import command_line as cli
from weft.cli import run as cli_run
from weft.experiments.scenario.sweep import Experiment, read_file
from weft.tools.bench import benchmarks

TEXT = (CHECKOUT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})
    assert "multicast" in capsys.readouterr().out


@pytest.mark.parametrize("found", re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL))
def test_scenario_files_are_ones(found: str, tmp_path: Path) -> None:
    file = tmp_path / "readme.toml"
    file.write_text(found)
    assert read_file(file).points


def test_commands_that_run_something_name_options_and_values_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Experiment] = []

    def run(experiment: Experiment, *_: object, **__: object) -> None:
        asked.append(experiment)

    monkeypatch.setattr(cli_run, "run_and_tell", run)
    commands = re.findall(r"^    (?:sudo )?\./weft (run [a-z-]+ .*)$", TEXT, re.MULTILINE)
    assert len(commands) > 10
    for command in commands:
        words = shlex.split(command.partition(" > ")[0], comments=True)
        cli.app(words, standalone_mode=False)
    assert len(asked) == len(commands)


def test_the_demos_output_is_that_of_its_rate_and_algorithms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Experiment] = []
    monkeypatch.setattr(
        cli_run, "run_and_tell", lambda experiment, *_, **__: asked.append(experiment)
    )
    cli.app(["demo"], standalone_mode=False)
    ((point,),) = [experiment.points for experiment in asked]
    scenario = point.scenario
    (title,) = re.findall(r"^    Allgather of 1 MiB a rank, .*$", TEXT, re.MULTILINE)
    rate = format_rate(scenario.rate_bps)
    assert title.endswith(f", {scenario.ranks} ranks, leaf-spine, {rate} links")
    assert f"8 hosts with {rate} links" in TEXT
    rows = re.findall(r"^     (\w+) +verified ", TEXT, re.MULTILINE)
    assert tuple(rows) == scenario.algorithms


def test_all_collectives_algorithms_and_benchmarks_are_named() -> None:
    for names in (COLLECTIVES, *COLLECTIVES.values(), benchmarks.NAMES):
        for name in names:
            assert f"`{name}`" in TEXT, name


@pytest.mark.parametrize("file", sorted((CHECKOUT / "experiments" / "scenarios").glob("*.toml")))
def test_the_scenarios_that_come_along_are_valid(file: Path) -> None:
    assert read_file(file).points


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (CHECKOUT / target).exists(), target
