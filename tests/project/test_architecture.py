"""The rules that the whole is built by, held by reading every module's imports."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest
from google.protobuf import text_format

from weft.agents.collectives.names import ALGORITHMS
from weft.controller.features.registry import FEATURES
from weft.experiments.scenario.families import families
from weft.switch.compiler import compile_cached
from weft.switch.messages import p4info_pb2
from weft.topo.fabric_program import fabric_program
from weft.topo.worlds.registry import WORLDS

ROOT = Path(__file__).resolve().parents[2]

FLOORS = (
    ("base",),
    ("switch", "agents"),
    ("topo", "pytorch"),
    ("controller",),
    ("experiments",),
    ("interface",),
    ("cli",),
    ("tools",),
)
"""Each package knows only those of the floors below it."""
PACKAGES = tuple(package for floor in FLOORS for package in floor)
PARTS = {f"weft.{package}" for package in PACKAGES}

ROOMS = {
    "switch/engine": (
        "native", "dataplane", "architectures", "program", "codegen", "control", "trace",
        "build.py", "switches.py",
    ),
}  # fmt: skip
"""Of some folders all parts, each of which knows only those before it."""

SANS_IO = (
    "switch/engine",
    "switch/interpreter",
    "agents",
    "topo",
    "controller",
    "experiments/loads",
    "experiments/paths",
)
"""Where machines are that are handed packets and the time, what is pure data, who plans with it,
and the world whose time is virtual: whole folders, so that a new file is looked at, too."""

WITH_IO = (
    "agents/drivers",
    "topo/worlds/emulated",
    "controller/client.py",
    "controller/remote.py",
    "controller/controller.py",
    "controller/inspection.py",
    "controller/handles",
    "controller/bmv2_cli",
    "controller/entry_files",
    "controller/features/program.py",
)
"""What of these folders talks to hosts, switches, processes or the compiler."""

BY_COMPUTED_NAME = {
    "base/registry.py", "tools/bench/benchmarks.py", "pytorch/fork_server.py",
    "switch/compiler/architectures/registry.py", "tools/attack/kind.py", "cli/command_line.py",
    "switch/engine/architectures/registry.py", "switch/interpreter/architectures/registry.py",
    "tools/mutation/__main__.py",
}  # fmt: skip
"""Who imports modules of a folder whose names they are not told."""

TABLES_NAMED = {"tools/attack/kinds/kills.py", "tools/bench/switch_rows.py"}
"""An attack that reads a table, and a benchmark of how fast switches take entries."""

AS_USERS = ("tools/attack/kinds/floods.py", "tools/attack/kinds/replays.py")
"""Attacks on what users' scripts do, which import what those import."""

IN_PROCESS = "switch/p4runtime/"
"""The P4Runtime service, which the simulated world calls without a socket: the same as a server's,
with its threads. What a machine reaches by it is not looked at."""

NAMING_WORLDS = {
    "topo/faults/fault.py", "experiments/engines/collect.py", "interface/up.py",
    "interface/pytest_plugin.py",
}  # fmt: skip
"""Who has a world's name: an attribute and a stage of work are called so, the reference shows a
default, and options of pytest are there before Weft is imported."""

LATER = ("controller/__init__.py", "controller/controller.py")
"""Who imports what where it is first asked for: the package's public ``Controller``, which talks to
switches, and which no planner asks for."""

WITH_THREADS = {
    ("base/deferred.py", "threading"),
    ("topo/worlds/simulated/team.py", "threading.Thread"),
    ("topo/worlds/simulated/team.py", "threading"),
}  # fmt: skip
"""numba is imported once, whichever thread of a process wants it first. And what several threads do
to the parts of a network in virtual time is the same as what one would do."""

P4RUNTIMES_OWN = "multicast[ _]group"
"""What P4Runtime calls an entity of its own, beside that there is a feature of the name."""

MOST_LINES = 500

FORBIDDEN = {
    "asyncio", "concurrent", "fcntl", "grpc", "mininet", "multiprocessing", "select", "selectors",
    "signal", "socket", "socketserver", "subprocess", "threading", "time",
}  # fmt: skip


def modules(*parts: str) -> list[Path]:
    """The Python files of packages, folders or files, named from the root."""
    found: list[Path] = []
    for part in parts:
        path = ROOT / part
        found += [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    return found


def files_of(name: str) -> Iterator[Path]:
    """The files that are run where something of that full name is imported from: packages, too."""
    parts = name.split(".")[1:] if name.startswith("weft.") else []
    for count in range(1, len(parts) + 1):
        stem = ROOT.joinpath(*parts[:count])
        yield from filter(Path.is_file, (stem.with_suffix(".py"), stem / "__init__.py"))


@cache
def tree_of(file: Path) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(file.read_text(), str(file))


@cache
def imported(file: Path) -> list[tuple[int, list[str]]]:
    """Return line and full names of each thing that a module imports, wherever in it.

    They are its own name, and after it that of the module that it is from. A call of
    ``import_module`` is an import, too.
    """
    package = ("weft", *file.relative_to(ROOT).parent.parts)
    found = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, [name.name]) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *filter(None, [node.module])])
            for name in node.names:
                full = f"{origin}.{name.name}"
                found.append((node.lineno, [full] if full in PARTS else [full, origin]))
        elif imports_by_name(node) and isinstance(said := node.args[0], ast.Constant):
            found.append((node.lineno, [str(said.value)]))
    return found


def imports_by_name(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a piece of syntax is a call that imports the module it is told."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
    called = called.id if isinstance(called, ast.Name) else called
    return called in ("import_module", "__import__")


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports, wherever in it: of modules, and of
    what is in them."""
    return ((line, name) for line, names in imported(file) for name in names)


def imported_modules(file: Path, known: Collection[str]) -> Iterator[str]:
    """The known modules that a module imports, wherever in it.

    ``from package import module`` is an import of the module, not of the package's own file.
    """
    for _, names in imported(file):
        yield from [name for name in names if name in known][:1]


def import_graph(package: str) -> dict[str, set[str]]:
    """Which modules of a package each of its modules imports, for a type checker alone or not."""
    files = {module_name(file): file for file in modules(package)}
    return {module: set(imported_modules(file, files)) for module, file in files.items()}


def module_name(file: Path) -> str:
    parts = ("weft", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules that import each other, directly or by way of others."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        waiting, found = [module], set[str]()
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        reached[module] = found
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


PLANS = [file for file in modules(*SANS_IO) if not name_of(file).startswith(WITH_IO)]


def importing(files: Iterable[Path], wrong: Callable[[Path, str], bool]) -> list[str]:
    """The imports of modules that are wrong, each with its place."""
    return [
        f"{name_of(file)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if wrong(file, name)
    ]


def test_a_package_knows_only_those_below_it() -> None:
    known = {own: {own} for own in PACKAGES}
    known["tools"].add("tests")
    for number, packages in enumerate(FLOORS):
        for own in packages:
            known[own] |= {below for floor in FLOORS[:number] for below in floor}

    def is_above(file: Path, name: str) -> bool:
        package = name.removeprefix("weft.").split(".")[0]
        own = file.relative_to(ROOT).parts[0]
        return package in {*PACKAGES, "tests"} and package not in known[own]

    assert not importing(modules(*PACKAGES), is_above)


def test_the_package_itself_is_above_all_floors() -> None:
    """``from weft import run`` brings in nearly every one of them."""
    files = [file for file in modules(*PACKAGES) if name_of(file) not in AS_USERS]
    found = importing(files, lambda _, name: name == "weft")
    assert not found, "name the module that it is in"


def test_what_is_imported_by_a_function_is_named() -> None:
    computed = {
        name_of(file)
        for file in modules(*PACKAGES)
        for node in ast.walk(tree_of(file))
        if imports_by_name(node) and not isinstance(node.args[0], ast.Constant)
    }
    assert computed == BY_COMPUTED_NAME, "nobody can say what is imported there"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("import weft.topo.clos", ["weft.topo.clos"]),
        ("from weft import run", ["weft.run", "weft"]),
        ("from weft import topo", ["weft.topo"]),
        ("from weft.topo import clos", ["weft.topo.clos", "weft.topo"]),
        ("from ..topo import clos", ["weft.topo.clos", "weft.topo"]),
        ("from .. import topo", ["weft.topo"]),
        ('importlib.import_module("weft.topo.clos")', ["weft.topo.clos"]),
        ('clos = import_module("weft.topo.clos")', ["weft.topo.clos"]),
        ('__import__("weft")', ["weft"]),
        ("import_module(name)", []),
    ],
)
def test_an_import_is_seen_however_it_is_written(
    line: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (file := tmp_path / "base" / "module.py").parent.mkdir()
    file.write_text(f"def later():\n    {line}\n")
    assert list(imports(file)) == [(2, name) for name in names]


def test_switch_and_base_are_whole_by_themselves(tmp_path: Path) -> None:
    """Every module of theirs can be imported where there is nothing else of Weft."""
    (weft := tmp_path / "weft").mkdir()
    (weft / "__init__.py").touch()
    for package in ("base", "switch"):
        shutil.copytree(
            ROOT / package, weft / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    names = [module_name(file) for file in modules("base", "switch") if file.stem != "__main__"]
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    run = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_machine_without_input_and_output_reads_no_clock_and_opens_no_socket() -> None:
    """Wherever in it; nor does anything that it imports, wherever in it, and so on."""
    found = {file: name_of(file) for file in PLANS}
    waiting = list(PLANS)
    wrong = []
    while waiting:
        here = waiting.pop()
        for line, name in imports(here):
            if name.split(".")[0] in FORBIDDEN and (name_of(here), name) not in WITH_THREADS:
                wrong.append(f"{found[here]}:{line} imports {name}")
            for other in files_of(name):
                inside = name_of(other).startswith(IN_PROCESS)
                later = (name_of(here), name_of(other)) == LATER
                if not (other in found or inside or later):
                    found[other] = f"{found[here]}:{line} -> {name_of(other)}"
                    waiting.append(other)
    assert not wrong


def test_no_modules_of_a_package_import_each_other() -> None:
    found = [sorted(circle) for package in PACKAGES for circle in circles(import_graph(package))]
    assert not found, "these import each other: let one be handed what it needs of the other"


def part_graph(*packages: str) -> dict[str, set[str]]:
    """Which parts of a folder import which others of it: its modules, and the folders in it with
    all that is in them."""
    files = {module_name(file): file for file in modules(*packages)}
    graph: dict[str, set[str]] = {}
    for file in files.values():
        for name in imported_modules(file, files):
            folder = Path(os.path.commonpath([file, files[name]]))
            importing, imported = (
                name_of(folder / each.relative_to(folder).parts[0]) for each in (file, files[name])
            )
            graph.setdefault(imported, set())
            graph.setdefault(importing, set()).add(imported)
    return graph


def test_no_folders_import_each_other() -> None:
    """Directly, or by way of others; nor do a folder and a module beside it."""
    assert not [sorted(circle) for circle in circles(part_graph(*PACKAGES))]


@pytest.mark.parametrize("room", ROOMS)
def test_the_folders_of_a_room_know_only_those_below_them(room: str) -> None:
    order = [f"{room}/{part}" for part in ROOMS[room]]
    parts = {name_of(path) for path in (ROOT / room).iterdir() if not path.name.startswith("__")}
    assert parts - {f"{room}/README.md"} == set(order)
    graph = part_graph(room)
    wrong = {part: graph[part].difference(order[:place]) for place, part in enumerate(order)}
    assert not any(wrong.values()), wrong


def test_the_interpreter_knows_nothing_of_the_code_generator() -> None:
    """Directly, or by way of others: a mistake of the one is to be none of the other."""
    graph = import_graph("switch")
    waiting = [name for name in graph if name.startswith("weft.switch.interpreter")]
    reached = set[str]()
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    assert len(reached) > 10
    assert not [name for name in reached if name.startswith("weft.switch.engine.codegen")]


def test_a_circle_of_imports_is_found_however_long_it_is() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str](), "e": {"a", "e"}}
    assert circles(graph) == {frozenset("abc"), frozenset("e")}


def test_of_base_the_layer_above_numba_alone_imports_it() -> None:
    using = {
        name_of(file)
        for file in modules("base")
        if any(name.startswith(("numba", "llvmlite")) for _, name in imports(file))
        or "numba" in file.read_text()
    }
    assert using == {
        f"base/{name}.py"
        for name in (
            "deferred",
            "jit",
            "machine_code",
            "numba_code",
            "numba_functions",
            "processors",
        )
    }


def test_weft_takes_one_name_alone() -> None:
    found = importing(
        modules(*PACKAGES, "src", "tests"), lambda _, name: name.split(".")[0] in PACKAGES
    )
    assert not found, "write weft. before it"


def test_every_folder_of_modules_is_linked_to_where_it_is_imported_from() -> None:
    links = {path.name: path for path in (ROOT / "src" / "weft").iterdir() if path.is_symlink()}
    assert links.keys() == {*PACKAGES, "p4", "requirements"}
    for name, link in links.items():
        assert link.readlink() == Path("../..", name)


def test_what_the_rules_name_is_there() -> None:
    gone = [part for part in (*SANS_IO, *WITH_IO) if not any(map(Path.exists, modules(part)))]
    assert not gone, "name what took its place"


def test_the_folder_of_p4_sources_does_not_hide_p4runtimes_package() -> None:
    for name in ("__init__.py", "v1", "config"):
        assert not (ROOT / "p4" / name).exists()


def test_tests_import_what_they_share_as_tests_name() -> None:
    shared = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    found = importing(modules("tests"), lambda _, name: name.split(".")[0] in shared)
    assert not found, "write tests. before it, or mypy sees the file twice"


def test_tests_of_one_file_do_not_import_from_another_test_file() -> None:
    found = importing(
        modules("tests"), lambda _, name: re.match(r"tests\..*\btest_", name) is not None
    )
    assert not found, "move what both need to a module of its own"


def test_every_package_folder_is_a_package() -> None:
    for file in modules(*PACKAGES):
        assert (file.parent / "__init__.py").is_file(), f"{name_of(file.parent)} has no __init__.py"


def words_of(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every name and every string of a module, docstrings left out."""
    tree = tree_of(file)
    said = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, str) and id(node) not in said:
                yield getattr(node, "lineno", 0), value


@cache
def table_names() -> list[str]:
    """The full names of the tables of the fabric's program, like FabricEgress.congestion.ecn."""
    text = compile_cached(fabric_program()).p4info.read_text()
    tables = text_format.Parse(text, p4info_pb2.P4Info()).tables
    return [table.preamble.name for table in tables]


@cache
def of_features() -> re.Pattern[str]:
    """What finds names of features, of their tables and of their counters in a text."""
    names = {
        *(each.name for each in FEATURES.values()),
        *(name for each in FEATURES.values() for name in (*each.counters, *each.host_counters)),
        *(name.rpartition(".")[2] for name in table_names()),
    }
    return re.compile(rf"(?<![a-z])({'|'.join(names)})(?![a-z])")


@cache
def of_tables() -> re.Pattern[str]:
    """What finds names of tables in a text, but for short ones that are words of English or of
    networks, too."""
    short = {name.rpartition(".")[2] for name in table_names()}
    names = {*map(re.escape, table_names()), *(name for name in short if "_" in name)}
    return re.compile(rf"(?<![a-z])({'|'.join(names)})(?![a-z])")


OF_PROGRAMS = ("cli/torch.py", "cli/torch_run.py", "cli/command_line.py", "interface/net.py")
"""The command of programs of PyTorch, the list of all commands, and what scripts call in its
place."""


def test_what_is_below_kinds_of_work_names_none_of_them() -> None:
    """But for flows, which are a word of networks, too."""
    own = {name for each in families() if each.name != "collectives" for name in each.algorithms()}
    names = rf"(?<![\w-])({'|'.join(own - {'flows'})})(?![\w-])"
    any_family = r"^weft\.experiments\.families\."
    elsewhere = re.compile(rf"{names}|{any_family}|(?i:torch)")
    of_programs = re.compile(rf"{names}|{any_family}(?!programs\.)")
    rooms = ("scenario", "theory", "runs", "paths", "engines", "results", "report", "plots")
    wrong = [
        f"{name_of(file)}:{line} has {text!r}"
        for file in modules(*(f"experiments/{room}" for room in rooms), "cli", "interface")
        for line, text in words_of(file)
        if (of_programs if name_of(file) in OF_PROGRAMS else elsewhere).search(text)
    ]
    assert not wrong


def test_only_algorithms_tell_one_by_its_name_and_ask_for_their_options() -> None:
    """All others ask what an algorithm is like, and what it needs of a network."""
    own = {each.name for name in ALGORITHMS.own for each in fields(ALGORITHMS[name].options)}
    asked = ("asked", "scenario", "_scenario", "request", "task")

    def is_wrong(node: ast.AST) -> bool:
        if isinstance(node, ast.Compare):
            known = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            names = {last_name(each) for each in ast.walk(node)}
            return bool(known & set(ALGORITHMS.own) and names & {"algorithm", "algorithms"})
        return (
            isinstance(node, ast.Attribute) and node.attr in own and last_name(node.value) in asked
        )

    wrong = [
        f"{name_of(file)}:{node.lineno}: {ast.unparse(node)}"
        for file in modules(*PACKAGES)
        if not name_of(file).startswith(("agents/collectives/algorithms/", "tools/"))
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.expr) and is_wrong(node)
    ]
    assert not wrong, "ask weft.agents.collectives.algorithm.Algorithm"


def last_name(node: ast.AST) -> str:
    """The name of a variable or of an attribute."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def test_only_worlds_tell_one_by_its_name() -> None:
    """Benchmarks and attacks beside them, which choose one for what they run."""
    named = {
        name_of(file)
        for file in modules(*PACKAGES)
        if not name_of(file).startswith(("topo/worlds/", "tools/bench/", "tools/attack/"))
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Constant) and node.value in WORLDS
    }
    assert named == NAMING_WORLDS, "ask a world what it is like: weft.topo.worlds.kind"


GENERIC = [file for file in modules("controller") if file.parent.name != "features"]


def test_of_the_controller_features_alone_name_features_their_tables_and_counters() -> None:
    wrong = [
        f"{name_of(file)}:{line} has {text!r}"
        for file in GENERIC
        for line, text in words_of(file)
        if of_features().search(re.sub(P4RUNTIMES_OWN, "", text.lower()))
    ]
    assert not wrong


def test_beside_the_controller_nobody_names_tables() -> None:
    wrong = [
        f"{name_of(file)}:{line} has {text!r}"
        for file in modules(*(package for package in PACKAGES if package != "controller"))
        for line, text in words_of(file)
        if of_tables().search(text)
    ]
    named = {text.partition(":")[0] for text in wrong}
    assert named == TABLES_NAMED, wrong


@pytest.mark.parametrize(
    "line",
    [
        "self.aggregation = ()",
        'name("FabricIngress.fault.ingress_fault")',
        "from weft.controller.features import routes",
        "def read(ecn_marked): ...",
        "plan(pinned_path=1)",
        '"multicast"',
    ],
)
def test_a_name_of_a_feature_is_found_wherever_it_is(line: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f'"""Multicast, congestion."""\nfound = {line}\n' if line[0] == '"' else line)
    assert [text for _, text in words_of(file) if of_features().search(text)]


def costly_messages(tree: ast.AST) -> Iterator[int]:
    """Return the lines of calls of ``refuse`` whose message calls something, though it is made in
    any case."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("refuse"), [_, message, *_]):
                for part in ast.walk(message):
                    match part:
                        case ast.Call(ast.Name("len")):
                            pass
                        case ast.Call() | ast.ListComp() | ast.GeneratorExp():
                            yield part.lineno


def test_no_message_that_takes_a_call_is_made_for_what_is_right() -> None:
    found = {
        name_of(file): lines
        for file in modules(*PACKAGES)
        if (lines := list(costly_messages(tree_of(file))))
    }
    assert not found, "write `if bad: raise` there"


@pytest.mark.parametrize(
    "message", ["f'no {name}{did_you_mean(name, known)}'", "f'{[*map(str, known)]}'"]
)
def test_a_message_that_takes_a_call_is_found(message: str) -> None:
    assert list(costly_messages(ast.parse(f"refuse(name not in known, {message})"))) == [1]


def test_what_is_refused_is_said_in_the_positive() -> None:
    found = [
        f"{name_of(file)}:{node.lineno}"
        for file in modules(*PACKAGES)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "refuse"
        and isinstance(node.args[0], ast.UnaryOp)
        and isinstance(node.args[0].op, ast.Not)
    ]
    assert not found, "write `if not good: raise` there"


def test_no_module_is_longer_than_a_few_screens() -> None:
    lengths = {name_of(file): len(file.read_text().splitlines()) for file in modules(*PACKAGES)}
    long = {name: lines for name, lines in lengths.items() if lines > MOST_LINES}
    assert not long, "make two of it, each of one thing"


def test_a_module_says_first_what_it_is_for() -> None:
    silent = [
        name_of(file)
        for file in modules(*PACKAGES)
        if (tree := tree_of(file)).body and not ast.get_docstring(tree)
    ]
    assert not silent, "these have no docstring"


def test_a_class_is_described_by_a_noun_and_a_function_by_a_verb() -> None:
    """A class says what it is, not what it does: no class begins as functions do."""
    first: dict[type[ast.AST], dict[str, str]] = {ast.ClassDef: {}, ast.FunctionDef: {}}
    for file in modules(*PACKAGES):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                words = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
                first[type(node)] |= {word: f"{name_of(file)}: {node.name}" for word in words}
    verbs = {"Be", "Carry", "Describe", "Hold", "Keep", "Make", "Return", "Run", "Say", "Write"}
    assert verbs - {"Be", "Hold"} <= first[ast.FunctionDef].keys()
    assert not [first[ast.ClassDef][word] for word in verbs & first[ast.ClassDef].keys()]
