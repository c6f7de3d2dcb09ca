"""docs/first-program.md: every step is run, and comes to what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.plugin_support import LOADED
from tests.support.system_support import ENVIRONMENT, WEFT, left_as_it_was, runs_of, weft

from weft.base.cache import CHECKOUT

pytest_plugins = ["pytester"]

PAGE = (CHECKOUT / "docs" / "first-program.md").read_text()


def blocks(kind: str) -> list[str]:
    """The page's blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


PROGRAM, MEND = blocks("p4")
(ENTRIES,) = blocks("text")
(TEST,) = blocks("python")
*AT_THE_PROMPT, OF_PYTEST = blocks("console")


def test_the_program_compiles_and_its_test_fails_until_it_is_mended(
    pytester: pytest.Pytester,
) -> None:
    folder = pytester.path
    (folder / "wire.p4").write_text(PROGRAM)
    (folder / "test_wire.py").write_text(TEST)
    assert "\n    weft p4c wire.p4\n" in PAGE
    assert weft("p4c", "wire.p4", cwd=folder).returncode == 0
    assert {"wire.json", "wire.p4info.txtpb"} <= {file.name for file in folder.iterdir()}
    found = pytester.runpytest_subprocess(*LOADED)
    found.assert_outcomes(passed=1, failed=1)
    for line in OF_PYTEST.splitlines():
        assert line in found.outlines
    applied = "        wire.apply();\n"
    (folder / "wire.p4").write_text(PROGRAM.replace(applied, applied + MEND))
    pytester.runpytest_subprocess(*LOADED).assert_outcomes(passed=2)


def alike(line: str) -> re.Pattern[str]:
    """A line of output of which times, counts and a packet's number may be others."""
    varying = r"time=[\d.]+ ms|packet \d+:|: \d+ packets, \d+ bytes"
    shown = re.sub(varying, "\0", line.removeprefix("weft> ").strip())
    return re.compile(re.escape(shown).replace("\0", ".+"))


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_network_says_at_its_prompt_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "wire.p4").write_text(PROGRAM)
    (tmp_path / "entries.txt").write_text(ENTRIES)
    up = re.search(r"^    sudo weft (up .*)$", PAGE, re.MULTILINE)
    assert up and "\n    sudo weft cli leaf0 < entries.txt\n" in PAGE
    with left_as_it_was():
        prompt = subprocess.Popen(
            [*WEFT, *up[1].split()], cwd=tmp_path, env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert prompt.stdin is not None and prompt.stdout is not None
        while "another terminal" not in prompt.stdout.readline():
            assert prompt.poll() is None
        (run_id,) = runs_of(prompt.pid)
        with open(tmp_path / "entries.txt") as entries:
            filled = [*WEFT, "cli", "--run", run_id, "leaf0"]
            subprocess.run(filled, stdin=entries, env=ENVIRONMENT, check=True, timeout=300)
        lines = "".join(AT_THE_PROMPT).splitlines()
        commands = [line.removeprefix("weft> ") for line in lines if line.startswith("weft> ")]
        said, _ = prompt.communicate("\n".join([*commands, "load wire.p4", "exit", ""]), 600)
    assert prompt.returncode == 0, said
    assert "leaf0: the program runs, with 2 entries (before it 2)" in said
    for line in lines:
        assert alike(line).search(said), f"{line}\n{said}"
