"""What pip installs of Weft, and that the pinned requirements are whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from weft.base.errors import MachineError
from weft.base.processors import levels_met
from weft.tools import wheel
from weft.topo import fabric_program

ROOT = Path(__file__).resolve().parents[2]
PINNED = sorted((ROOT / "requirements").glob("py3*.txt"))
SHELL = ROOT / "requirements" / "shell.txt"


def names_in(file: Path) -> dict[str, str]:
    """The requirements of a file: normalised name to the rest of its line."""
    found = {}
    for line in file.read_text().splitlines():
        if line and not line.startswith("#"):
            name, rest = re.split(r"(?=[<>=~;\s])", line, maxsplit=1)
            found[re.sub(r"[-_.]+", "-", name).lower()] = rest.strip()
    return found


def test_every_python_that_weft_runs_on_has_its_pinned_requirements() -> None:
    assert [file.name for file in PINNED] == ["py310.txt", "py311.txt", "py312.txt", "py313.txt"]


@pytest.mark.parametrize("file", [*PINNED, SHELL], ids=lambda file: file.stem)
def test_a_requirement_file_holds_names_and_exact_versions_alone(file: Path) -> None:
    for name, rest in names_in(file).items():
        assert re.fullmatch(r"==[0-9][a-z0-9.+]*", rest), f"{name}{rest}"
    assert "://" not in file.read_text()


@pytest.mark.parametrize("file", PINNED, ids=lambda file: file.stem)
def test_everything_that_weft_asks_for_is_pinned(file: Path) -> None:
    asked = {**names_in(ROOT / "requirements/base.in"), **names_in(ROOT / "requirements/dev.in")}
    if file.stem != "py310":
        del asked["tomli"]
    assert not asked.keys() - names_in(file).keys()


def test_what_p4runtime_shell_asks_for_is_pinned_apart_from_weft() -> None:
    assert not names_in(ROOT / "requirements/shell.in").keys() - names_in(SHELL).keys()
    for file in PINNED:
        assert "p4runtime-shell" not in names_in(file)


def test_the_fabric_program_is_found_in_the_checkout() -> None:
    assert fabric_program.fabric_program() == ROOT / "p4" / "fabric.p4"


def test_a_fabric_program_that_is_missing_is_an_error_that_says_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fabric_program, "_PROGRAM", tmp_path / "fabric.p4")
    with pytest.raises(MachineError, match=re.escape(f"{tmp_path / 'fabric.p4'} is missing: run")):
        fabric_program.fabric_program()


PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def copied_to(source: Path) -> list[str]:
    """Copy what belongs to the checkout; the names of its files."""
    try:
        return wheel.copy_checkout(ROOT, source)
    except MachineError as error:
        pytest.skip(str(error))


def installed(package: Path, venv: Path) -> Path:
    """Install a wheel into a virtual environment that sees the packages of the one that the tests
    run in, pip among them; the folder that packages are in."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = str(venv / "bin" / "python")
    inside = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    theirs = [path for path in sys.path if path.endswith("-packages")]
    (Path(inside) / "theirs.pth").write_text("\n".join(theirs) + "\n")
    subprocess.run([python, *PIP[1:], "install", "--no-deps", package], check=True)
    return Path(inside)


def environment_with(cache: Path) -> dict[str, str]:
    """The environment of what is installed, with a cache folder, and without the tests' own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "WEFT_CACHE": str(cache)}


@pytest.mark.system(alone=False)
def test_pip_installs_the_weft_command_with_its_p4_sources_and_without_the_tests(
    tmp_path: Path,
) -> None:
    source = tmp_path / "source"
    tracked = copied_to(source)
    isolation = ["--no-build-isolation"]  # the setuptools of requirements/: no network
    subprocess.run(
        [*PIP, "wheel", "--no-deps", *isolation, "--wheel-dir", tmp_path, source], check=True
    )
    (package,) = tmp_path.glob("weft-*.whl")
    names = zipfile.ZipFile(package).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"weft"}
    assert not [name for name in names if name.startswith("weft/tools/")]
    folder = re.compile(r"(base|switch|agents|topo|controller|experiments|interface|cli|p4)/")
    packaged = {f"weft/{name}" for name in tracked if folder.match(name)}
    packaged |= {name.removeprefix("src/") for name in tracked if re.match(r"src/.*\.py", name)}
    assert {name for name in packaged if not name.endswith(".md")} <= set(names)
    assert "weft/requirements/shell.txt" in names
    assert any(name.endswith("/LICENSE") for name in names)

    venv = tmp_path / "venv"
    inside = installed(package, venv)
    python = str(venv / "bin" / "python")
    environment = environment_with(tmp_path / "cache")
    script = "from weft.topo.fabric_program import fabric_program; print(fabric_program())"
    where = subprocess.run(
        [python, "-c", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert where == f"{inside}/weft/p4/fabric.p4"
    answer = subprocess.run(
        [venv / "bin" / "weft", "--help"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "doctor" in answer.stdout
    offered = subprocess.run(
        [python, "-m", "pytest", "--help"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert "--weft-world={simulated,emulated}" in offered.stdout, offered.stderr
    templates = ("experiments/report/templates/page.html", "topo/templates/network.svg")
    for file in templates:
        assert (inside / "weft" / file).is_file()


@pytest.mark.system(alone=False)
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="networks need root")
@pytest.mark.skipif(not levels_met(), reason="wheels have no code for this processor")
def test_a_wheel_with_kernels_in_it_compiles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_to(tmp_path / "source")
    monkeypatch.setattr(wheel, "levels", lambda: levels_met()[:1])  # each takes a minute
    package = wheel.build(tmp_path / "dist")
    assert not package.name.endswith("-any.whl")
    inside = installed(package, tmp_path / "venv")
    kernels = sorted((inside / "weft" / "kernels").glob("*/*/*.library"))
    assert {file.parent.parent.name for file in kernels} == {
        "compiled", "machine-code", "simulated"
    }  # fmt: skip
    environment = environment_with(tmp_path / "cache")
    for words in (["prepare"], ["demo"]):
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / "weft", *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not list((tmp_path / "cache").rglob("*.library"))


def test_the_extras_are_those_that_pages_name() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for extra in ("dask", "ptf", "ray", "torch"):
        assert (
            f'optional-dependencies.{extra} = {{ file = ["requirements/{extra}.in"] }}' in project
        )
        assert names_in(ROOT / "requirements" / f"{extra}.in")
    pinned = re.search(r"dask=([0-9.]+) ", (ROOT / "weft").read_text())
    assert pinned and pinned[1].startswith(
        names_in(ROOT / "requirements/dask.in")["distributed"][2:]
    )
