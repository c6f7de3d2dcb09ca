"""The examples on the page of the Python interface, in every world that they can run in."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.support.plugin_support import LOADED

from weft.base.cache import CHECKOUT

pytest_plugins = ["pytester"]

TEXT = (CHECKOUT / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SCRIPTS = [block for block in BLOCKS if "weft.up(" in block]
TESTS = [block for block in BLOCKS if "def test_" in block]
OTHERS = [block for block in BLOCKS if block not in SCRIPTS and block not in TESTS]
SIMULATED = 'world="simulated"'

emulated = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


def name_of(block: str) -> str:
    return str(re.findall(r"weft\.up\(.*|net\.\w+\(.*", block)[0])


def test_the_page_has_examples_of_both_worlds() -> None:
    assert sum(SIMULATED in block for block in SCRIPTS) >= 4
    assert sum(SIMULATED not in block for block in SCRIPTS) >= 2
    assert len(TESTS) == 1


@pytest.mark.parametrize("block", [one for one in SCRIPTS if SIMULATED in one], ids=name_of)
def test_examples_run_in_virtual_time(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "python.md", "exec"), {})
    assert "False" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "block", [pytest.param(one, marks=emulated, id=name_of(one)) for one in SCRIPTS]
)
def test_examples_run_on_namespaces(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = block.replace(SIMULATED, 'world="emulated"')
    exec(compile(code, "python.md", "exec"), {})
    assert "False" not in capsys.readouterr().out


@pytest.mark.parametrize("block", OTHERS)
def test_examples_without_a_network_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "python.md", "exec"), {})
    assert "False" not in capsys.readouterr().out


@pytest.mark.parametrize("block", TESTS)
def test_the_example_of_a_test_passes(block: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(block)
    pytester.runpytest_subprocess(*LOADED).assert_outcomes(passed=1)


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (CHECKOUT / "docs" / target).exists(), target
