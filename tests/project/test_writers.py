"""All that is written where others have a hand goes through weft.base.files: no other writers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.support.file_calls import FOLDERS, called, mode_of, writes

from weft.base.cache import CHECKOUT

IN_THE_RUN = "the run's own folder, /run/weft/ID, which root alone may enter"
IN_THE_CACHE = "the cache folder, which is refused if others may write to it"
IN_TMP = "a folder for temporary files that is made here, and nobody else's"
ELSEWHERE = {
    ("base/files.py", ""): "it is what all others go through",
    ("base/private_files.py", "open"): "it follows no link, and is " + IN_THE_RUN,
    ("base/private_files.py", "chmod"): "a socket in " + IN_THE_RUN,
    ("base/private_files.py", "os.open"): "it follows no link, and is " + IN_THE_RUN,
    ("base/streams.py", "os.open"): "/dev/null",
    ("base/cache.py", "mkdir"): "the cache folder itself, and those above it, all checked then",
    ("base/cache.py", "chmod"): "the cache folder itself, which has been checked",
    ("base/native_code.py", "open"): IN_THE_CACHE,
    ("base/native_code.py", "truncate"): IN_THE_CACHE,
    ("base/templates.py", "mkdir"): IN_THE_CACHE,
    ("topo/worlds/emulated/runs.py", "mkdir"): IN_THE_RUN,
    ("topo/worlds/emulated/runs.py", "rename"): IN_THE_RUN,
    ("topo/worlds/emulated/runs.py", "chmod"): IN_THE_RUN,
    ("topo/worlds/emulated/runs.py", "os.open"): "it reads; its flags are two lines above",
    ("topo/worlds/emulated/names.py", "write_text"): IN_THE_RUN,
    ("topo/worlds/emulated/names.py", "chmod"): IN_THE_RUN,
    ("topo/worlds/emulated/namespaces.py", "write_text"): "/proc/sys of a namespace of the run",
    ("pytorch/launch.py", "write_text"): IN_THE_RUN,
    ("experiments/families/programs/gathering.py", "mkdir"): IN_THE_RUN,
    ("experiments/families/programs/gathering.py", "write_bytes"): IN_THE_RUN,
    ("experiments/families/programs/gathering.py", "write_text"): IN_THE_RUN,
    ("experiments/families/programs/gathering.py", "open"): IN_THE_RUN,
    ("experiments/families/programs/ranks.py", "chmod"): IN_THE_RUN,
    ("experiments/results/rows.py", "write_table"): "a buffer in memory",
    ("cli/scenario_options.py", "write_text"): "a page of help, in memory",
    ("experiments/engines/work.py", "os.open"): "a lock in /run, which root alone may write to",
    ("experiments/engines/child.py", "fdopen"): "what is open already: standard output",
    ("switch/commands/joining.py", "fdopen"): "what is open already: a guest's output and errors",
    ("base/streams.py", "fdopen"): "what is open already: standard output and error",
    ("experiments/plots/canvas.py", "savefig"): "a buffer in memory",
    ("tools/bench/benchmarks.py", "savefig"): "a buffer in memory",
    ("interface/mininet_switches.py", "rename"): "an interface of a host",
    ("cli/shell_environment.py", "TemporaryDirectory"): IN_THE_CACHE,
    ("cli/shell_environment.py", "rename"): IN_THE_CACHE,
    ("experiments/engines/dask.py", "TemporaryDirectory"): IN_TMP,
    ("switch/commands/ptf.py", "TemporaryDirectory"): IN_TMP,
    ("tools/bench/htsim.py", "TemporaryDirectory"): IN_TMP,
    ("tools/bench/htsim.py", "write_text"): IN_TMP,
    ("tools/bench/switch.py", "TemporaryDirectory"): IN_TMP,
    ("tools/bench/compiler.py", "TemporaryDirectory"): IN_TMP,
    ("tools/bench/switch_traffic.py", "open"): IN_TMP,
    ("tools/bench/switch_rows.py", "write_text"): IN_TMP,
    ("tools/bench/first_packets.py", "write_text"): IN_TMP,
    ("tools/bench/start.py", "TemporaryDirectory"): IN_TMP,
}
"""Who else writes or makes something, by file and what it calls, and why it may."""

NAMES = {
    "write_text", "write_bytes", "touch", "mkdir", "makedirs", "mkfifo", "mknod", "symlink",
    "symlink_to", "hardlink_to", "rename", "renames", "chmod", "chown", "lchown", "truncate",
    "savefig", "imsave", "to_csv", "to_parquet", "write_table", "write_csv", "write_parquet",
    "savez", "savez_compressed", "savetxt", "tofile", "memmap", "open_memmap", "copy2", "copyfile",
    "copytree", "copymode", "copystat", "mkstemp", "mkdtemp", "NamedTemporaryFile",
    "TemporaryDirectory", "FileHandler", "WatchedFileHandler", "TimedRotatingFileHandler",
    "ZipFile", "TarFile", "write_report_file", "basicConfig",
}  # fmt: skip
"""Functions and methods that write to, or make, what they are given the name of."""
QUALIFIED = {
    "os.replace", "os.link", "np.save", "numpy.save", "shutil.move", "shutil.copy",
    "sqlite3.connect", "tarfile.open", "gzip.open", "bz2.open", "lzma.open", "shelve.open",
    "dbm.open",
}  # fmt: skip
"""Those whose last name alone may be something else."""
OPENING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def is_ours(call: ast.Call) -> bool:
    """Whether what is opened is a descriptor that `weft.base.files` has made."""
    return bool(call.args) and isinstance(call.args[0], ast.Call) and (
        called(call.args[0].func).endswith("files.create")
    )  # fmt: skip


def writers(source: str) -> Iterator[tuple[str, int]]:
    """What code calls to write or make files, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.List, ast.Tuple)):
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if "tcpdump" in words and (
                "-w" in words and words[words.index("-w") + 1 :][:1] != ["-"]
            ):
                yield "tcpdump -w", node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = called(node.func)
        last = name.rpartition(".")[2]
        if name == "open" or name in ("io.open", "codecs.open"):
            if writes(mode_of(node, 1)) and not is_ours(node):
                yield "open", node.lineno
        elif name == "os.open":
            flags = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"os"}
            if flags & OPENING_FLAGS or "flags" in names:
                yield "os.open", node.lineno
        elif last == "fdopen":
            if writes(mode_of(node, 1)):
                yield "fdopen", node.lineno
        elif last == "open" and isinstance(node.func, ast.Attribute):
            mode = mode_of(node, 0)  # of a path: what else can be opened takes no modes
            is_mode = isinstance(mode, ast.Constant) and not set(str(mode.value)) - set("rwaxbt+")
            is_mode = is_mode or called(mode or node).endswith("mode")
            if name in QUALIFIED or (is_mode and writes(mode)):
                yield "open", node.lineno
        elif name in QUALIFIED:
            yield name, node.lineno
        elif last in NAMES:
            yield last, node.lineno


def found() -> dict[tuple[str, str], list[int]]:
    """Every writer of Weft's code, by file and what it calls."""
    all_of_them: dict[tuple[str, str], list[int]] = {}
    for folder in FOLDERS:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            file = str(path.relative_to(CHECKOUT))
            for what, line in writers(path.read_text()):
                all_of_them.setdefault((file, what), []).append(line)
    return all_of_them


def test_whatever_is_written_goes_through_one_module() -> None:
    others = [
        f"{file}:{', '.join(map(str, lines))}: {what}"
        for (file, what), lines in found().items()
        if (file, what) not in ELSEWHERE and file != "base/files.py"
    ]
    assert not others, "write by weft.base.files, or say here why not: " + "; ".join(others)


def test_nobody_is_excused_who_writes_nothing() -> None:
    there = found()
    assert not [each for each in ELSEWHERE if each[1] and each not in there]


@pytest.mark.parametrize(
    "code",
    [
        "open(path, 'wb', buffering=0)",
        "open(path, mode='a')",
        "open(path, mode)",
        "io.open(path, 'x')",
        "path.open('w')",
        "path.open(mode='r+b')",
        "Path(folder, name).write_text(text)",
        "os.open(path, os.O_WRONLY | os.O_TRUNC)",
        "os.open(path, flags)",
        "figure.savefig(path)",
        "np.save(path, array)",
        "array.tofile(path)",
        "shutil.copy(one, other)",
        "os.replace(one, other)",
        "logging.FileHandler(path)",
        "sqlite3.connect(path)",
        "run(['tcpdump', '-i', 'eth0', '-w', path])",
        "tempfile.NamedTemporaryFile(delete=False)",
    ],
)
def test_the_search_finds(code: str) -> None:
    assert list(writers(f"def write(path):\n    return {code}\n"))


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "open(path, 'rb', buffering=0)",
        "open(files.create(path), 'w', encoding='utf-8')",
        "path.open()",
        "os.open(path, os.O_RDONLY | os.O_CLOEXEC)",
        "engine.open(where, need)",
        "text.replace('a', 'b')",
        "run(['tcpdump', '-w', '-'])",
    ],
)
def test_the_search_passes_over(code: str) -> None:
    assert not list(writers(f"def read(path):\n    return {code}\n"))
