"""Ray as an engine, where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.engines_support import SWEEP
from tests.system_support import weft

pytest.importorskip("ray", reason="Ray is not installed: pip install 'weft[ray]'")


def digests(folder: Path) -> list[str]:
    document = json.loads((folder / "results.json").read_text())
    assert document["verified"]
    return [run["digest"] for run in document["runs"]]


def test_results_are_the_same_on_ray(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    for on in ("local:1", "ray:local:2"):
        done = weft("run", "s.toml", "--on", on, "--out", on, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "local:1") == digests(tmp_path / "ray:local:2")
