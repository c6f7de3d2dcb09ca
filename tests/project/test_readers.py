"""What a user names is read by weft.base.files, which shows nothing that only root may read."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.file_calls import FOLDERS, called, mode_of, writes
from tests.support.input_readers import READERS

from weft.base import files
from weft.base.cache import CHECKOUT
from weft.base.errors import InputError
from weft.experiments.families.pipeline.files import read_schedule
from weft.experiments.families.programs.asked import ProgramAsked, check_program
from weft.experiments.families.programs.results import TorchRun
from weft.experiments.families.weights.files import read_model
from weft.switch.compiler import CompileError, compile_program
from weft.topo.own import read_network
from weft.topo.worlds.emulated.testbeds import read_script

OWN = "a file of Weft's own code"
PROC = "what the kernel says in /proc"
IN_THE_RUN = "the run's own folder, /run/weft/ID, which root alone may enter"
IN_THE_CACHE = "the cache folder, which is refused if others may write to it"
HASHED = "its digest alone is of use"
ELSEWHERE = {
    ("base/libc.py", "open"): PROC,
    ("base/fork_server.py", "read_text"): IN_THE_RUN,
    ("agents/drivers/udp.py", "read_text"): PROC,
    ("base/effort.py", "read_text"): PROC,
    ("base/entry_points.py", "read_bytes"): HASHED,
    ("base/jit.py", "read_bytes"): OWN,
    ("base/machine_code.py", "read_bytes"): IN_THE_CACHE + "; " + OWN,
    ("base/native_code.py", "open"): IN_THE_CACHE,
    ("base/native_code.py", "read_text"): IN_THE_CACHE,
    ("base/files.py", "open"): "it is what all others go through",
    ("base/registry.py", "read_bytes"): OWN,
    ("controller/client.py", "read_bytes"): IN_THE_CACHE,
    ("controller/client.py", "read_text"): IN_THE_CACHE,
    ("tools/bench/compiling.py", "read_text"): IN_THE_CACHE,
    ("tools/bench/engines.py", "read_text"): PROC,
    ("tools/bench/start.py", "read_text"): "the log of a run of its own",
    ("tools/bench/switch_traffic.py", "read_text"): PROC + "; the log of a switch of its own",
    ("cli/prompt.py", "read_text"): PROC,
    ("cli/shell_environment.py", "read_text"): OWN,
    ("cli/terminals.py", "read_bytes"): PROC,
    ("cli/terminals.py", "read_text"): PROC,
    ("tools/figures/command.py", "read_bytes"): "a page of this checkout",
    ("tools/figures/command.py", "read_text"): "a page of this checkout",
    ("tools/figures/plots.py", "read_text"): "a plot of this checkout",
    ("interface/mininet_bmv2.py", "open"): PROC,
    ("interface/flows/fast_forward.py", "read_bytes"): IN_THE_CACHE,
    ("interface/pytest_plugin.py", "read_bytes"): HASHED,
    ("experiments/report/base.py", "read_text"): OWN,
    ("experiments/runs/capacity.py", "read_text"): PROC,
    ("experiments/runs/identity.py", "read_bytes"): HASHED,
    ("experiments/runs/predictions.py", "read_bytes"): IN_THE_CACHE,
    ("experiments/runs/prepare.py", "read_text"): IN_THE_CACHE,
    ("experiments/families/programs/ranks.py", "read_text"): PROC + "; " + IN_THE_RUN,
    ("experiments/families/programs/gathering.py", "read_text"): "/etc/hosts, which is everybody's",
    ("pytorch/messages.py", "read_bytes"): IN_THE_RUN,
    ("pytorch/timeline.py", "read_bytes"): IN_THE_RUN,
    ("switch/commands/switch.py", "read_text"): IN_THE_CACHE,
    ("switch/compiler/driver.py", "read_bytes"): OWN + "; " + IN_THE_CACHE,
    ("switch/compiler/parse/parser.py", "read_text"): OWN,
    ("switch/engine/codegen/loading.py", "read_bytes"): IN_THE_CACHE,
    ("switch/engine/codegen/loading.py", "read_text"): OWN + "; " + IN_THE_CACHE,
    ("switch/messages.py", "read_text"): "a module of the package p4runtime",
    ("topo/worlds/emulated/captures.py", "open"): IN_THE_RUN,
    ("topo/worlds/emulated/captures.py", "read_text"): IN_THE_RUN,
    ("topo/worlds/emulated/cleanup.py", "read_bytes"): PROC,
    ("topo/worlds/emulated/cleanup.py", "read_text"): PROC,
    ("topo/worlds/processors.py", "read_text"): PROC,
    ("topo/worlds/emulated/names.py", "read_text"): "/etc/hosts, which is everybody's",
    ("topo/worlds/emulated/namespaces.py", "open"): PROC,
    ("topo/worlds/emulated/namespaces.py", "read_text"): PROC,
    ("topo/worlds/emulated/processes.py", "open"): IN_THE_RUN,
    ("topo/worlds/emulated/runs.py", "open"): IN_THE_RUN + ", and what is believed of it",
    ("topo/worlds/emulated/runs.py", "read_text"): PROC,
    ("topo/worlds/emulated/switch_processes.py", "open"): IN_THE_RUN,
}  # fmt: skip
"""Who else reads something, by file and what it calls, and why it may."""

PRIVATE = "it is not for everybody to read"


def readers(source: str) -> Iterator[str]:
    """What code calls to read files."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = called(node.func)
        last = name.rpartition(".")[2]
        if any(keyword.arg == "endings" for keyword in node.keywords):
            continue
        if name in ("open", "io.open", "codecs.open"):
            ours = node.args and isinstance(node.args[0], ast.Call) and (
                called(node.args[0].func) == "files.create"
            )  # fmt: skip
            if not ours and not writes(mode_of(node, 1)):
                yield "open"
        elif last in ("read_text", "read_bytes", "genfromtxt", "loadtxt", "fromfile", "read_csv"):
            yield last
        elif name in ("np.load", "numpy.load", "linecache.getline", "json.load", "tomllib.load"):
            yield name


def test_whatever_is_read_goes_through_one_module() -> None:
    there = {
        (str(path.relative_to(CHECKOUT)), what)
        for folder in FOLDERS
        for path in (CHECKOUT / folder).rglob("*.py")
        for what in readers(path.read_text())
    }
    assert not there - set(ELSEWHERE), "read by weft.base.files, or say here why not"
    assert not set(ELSEWHERE) - there, "these read nothing"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("path.read_text()", True),
        ("open(path, 'rb')", True),
        ("Path(folder, name).read_bytes()", True),
        ("json.load(path)", True),
        ("files.read_text(path, 100, endings=None)", False),
        ("open(path, 'wb')", False),
        ("open(files.create(path), 'w')", False),
    ],
)
def test_the_search_finds(code: str, is_found: bool) -> None:
    assert bool(list(readers(f"def read(path):\n    return {code}\n"))) == is_found


ALL: dict[str, Callable[[Path], object]] = {
    **READERS,
    "schedule.toml": read_schedule,
    "network.toml": read_network,
    "training.json": TorchRun.read,
    "model.safetensors": read_model,  # of which only the start is read, however large it is
    "program.p4": compile_program,
    "train.py": lambda path: check_program(str(path), [], ProgramAsked()),
    "script.txt": lambda path: read_script(path, f"script {str(path)!r}"),
}


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests: what belongs to a user is for that user to see, unless it is root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("SUDO_UID", raising=False)


@pytest.mark.parametrize(
    ("name", "linked"),
    [(name, True) for name in ALL]
    # A trace is known by its name alone, and refused unread without it.
    + [(name, False) for name in ALL if not name.endswith(".et")],
)
def test_no_reader_shows_what_only_root_may_read(tmp_path: Path, name: str, linked: bool) -> None:
    """By a link whose name says nothing, which somebody may have put there, or by its own name."""
    private = tmp_path / "shadow"
    private.write_text("root:$6$hidden:19000:0:99999:7:::\n")
    private.chmod(0o640)
    named = private
    if linked:
        named = tmp_path / name
        named.symlink_to(private)
    with pytest.raises((InputError, CompileError)) as failure:
        ALL[name](named)
    said = str(failure.value)
    assert PRIVATE in said and str(named) in said
    assert "hidden" not in said and "root:" not in said and "19000" not in said


@pytest.mark.parametrize("name", [name for name in ALL if not name.endswith(".txt")])
def test_a_private_file_that_is_such_a_file_by_its_name_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("nothing of the kind")
    (tmp_path / name).chmod(0o600)
    try:
        ALL[name](tmp_path / name)
    except Exception as failure:
        assert PRIVATE not in str(failure)


def test_what_belongs_to_the_user_is_read_by_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").write_text("mine")
    (tmp_path / "made").chmod(0o600)
    owner = (tmp_path / "made").stat().st_uid or 1234
    if owner == 1234:  # root runs the tests
        os.chown(tmp_path / "made", owner, owner)
    with pytest.raises(PermissionError):
        files.read_text(tmp_path / "made", 100, endings=())
    monkeypatch.setenv("SUDO_UID", str(owner))
    monkeypatch.setenv("SUDO_GID", str(owner))
    assert files.read_text(tmp_path / "made", 100, endings=()) == "mine"
    monkeypatch.setenv("SUDO_UID", str(owner + 1))
    with pytest.raises(PermissionError):
        files.read_text(tmp_path / "made", 100, endings=())
