"""The examples, each run as its page says."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.plugin_support import LOADED

from weft.base.cache import CHECKOUT

EXAMPLES = CHECKOUT / "examples"
as_root = [
    pytest.mark.system(alone=False),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_on_the_page() -> None:
    text = (EXAMPLES / "README.md").read_text()
    named = {target.strip("/") for target in re.findall(r"\]\(([^)]+)\)", text)}
    there = {each.name for each in EXAMPLES.iterdir() if not each.name.startswith(("__", "."))}
    assert there - {"README.md"} <= named
    assert all((EXAMPLES / target).exists() for target in named)


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--weft-world", "emulated"), marks=as_root)], ids=str
)
def test_the_project_with_tests_of_a_switch_program(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    pytest_ = (sys.executable, "-m", "pytest", *LOADED, "-p", "no:cacheprovider", *options)
    assert "6 passed" in run(*pytest_, EXAMPLES / "pytest_project", cwd=tmp_path)


@pytest.mark.parametrize("script", ["shares.py", "beside_bulk.py"])
def test_what_classes_of_traffic_get_is_what_the_page_has(script: str, tmp_path: Path) -> None:
    said = run(sys.executable, EXAMPLES / "priority_queues" / script, cwd=tmp_path)
    page = (CHECKOUT / "docs" / "p4.md").read_text()
    assert "".join(f"    {line}\n" for line in said.splitlines()) in page


@pytest.mark.system(alone=False)
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_mininet_script(tmp_path: Path) -> None:
    said = run(sys.executable, EXAMPLES / "mininet_script.py", cwd=tmp_path)
    assert "0 % of the pings were lost" in said
    (answered,) = re.findall(r"(\d+) of 40 pings were answered", said)
    assert int(answered) > 30
    assert said.count("routes\n") == 4


@pytest.mark.slow
@pytest.mark.system(alone=False)
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_experiment_for_vagrant(tmp_path: Path) -> None:
    run(EXAMPLES / "vagrant_experiment.sh", cwd=tmp_path, OUT=str(tmp_path / "out"))
    with open(tmp_path / "out" / "runs.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["algorithm"] for row in rows} == {"ring", "multicast"}
    assert [row["verified"] for row in rows] == ["True"] * 6
    assert (tmp_path / "out" / "links.csv").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.system(alone=False)
def test_the_package_is_built_and_installed_and_all_that_it_adds_is_there(tmp_path: Path) -> None:
    source = tmp_path / "package"
    shutil.copytree(EXAMPLES / "package", source)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, "wheel", *alone, "--wheel-dir", wheels, source, cwd=tmp_path)
    (wheel,) = wheels.glob("weft_example-1.0-*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", site, wheel, cwd=tmp_path)
    paths = os.pathsep.join([str(CHECKOUT / "src"), str(site)])

    def weft(*words: str) -> str:
        return run(sys.executable, "-m", "weft", *words, cwd=tmp_path, PYTHONPATH=paths)

    simulated = ("--world", "simulated", "--out", "out")
    both = ("--algorithm", "two-way-ring", "--algorithm", "ring")
    far = ("--size", "1KiB", "--delay", "1ms")
    assert weft("run", "allgather", *simulated, *both, *far).count("verified") == 2
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    two_way, ring = results["runs"]
    assert two_way["completion_ns"] < 0.75 * ring["completion_ns"]  # half the hops
    # The model of its bytes, told apart from the code that sends, is what was measured.
    assert two_way["tiers"]["host_up"] == pytest.approx(ring["tiers"]["host_up"], rel=0.1)
    flows = ("run", "flows", "--world", "simulated", "--workload", "halo", "--out", "flows")
    assert "verified" in weft(*flows, "--steps", "2", "--face", "4KiB")
    torus = ("--topology", "torus", "--columns", "4", "--algorithm", "multicast")
    assert "12 ranks, torus" in weft("run", "allgather", *simulated, *torus)
    assert "first-path" in weft("paths", "alltoall", "--paths", "first-path,spray")
    help_text = weft("run", "--help")
    assert all(word in help_text for word in ("torus", "halo", "--columns", "--face"))


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    assert notebook["nbformat"] == 4
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
            assert cell["outputs"] == []  # figures of some machine or other would not be true
    assert names["verified"] is True
