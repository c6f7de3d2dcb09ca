"""The command line where its output goes nowhere, its options are empty, or signals come twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import ENVIRONMENT, WEFT, start
from typer.main import get_command

import weft

TWO_SIGNALS = """
import os, signal, time
from weft.cli import command_line as cli

def run():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    finally:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        print("cleaned up")

cli.app = lambda **_: run()
cli.main()
"""


WHILE_LOADING = """
import os, signal, sys

class Importing:
    def find_spec(self, name, path, target=None):
        if name == "weft.cli.command_line":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the parent had
sys.meta_path.insert(0, Importing())
from weft.__main__ import start
start()
"""


IMPORTED = """
import sys
from importlib import import_module
from weft.cli.command_line import COMMANDS, GROUPS
homes = {home for home, _ in (*COMMANDS.values(), *GROUPS.values())}
print(homes & {*sys.modules})
for home in homes:
    import_module(home)
print({'numpy', 'llvmlite'} & {*sys.modules})
"""


def test_the_command_line_starts_without_its_commands_and_these_without_what_only_runs_need(
    tmp_path: Path,
) -> None:
    subprocess.run([*WEFT, "run", "--help"], cwd=tmp_path, env=ENVIRONMENT, check=True)  # facts
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=tmp_path, env=ENVIRONMENT, text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    assert done.stdout.split() == ["set()", "set()"]


@pytest.mark.parametrize("arguments", [["topology"], ["--help"], ["topology", "--help"]])
def test_output_that_cannot_be_written_is_one_message(arguments: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = start(*WEFT, *arguments, cwd=tmp_path, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith("weft: standard output cannot be written: No space left")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_went_away_does_not_change_the_status(tmp_path: Path) -> None:
    for arguments, status in ((["topology"], 0), (["topology", "--k", "4"], 2)):
        reading, writing = os.pipe()
        os.close(reading)
        done = start(*WEFT, *arguments, cwd=tmp_path, stdout=writing)
        os.close(writing)
        assert done.returncode == status
        assert ("means nothing" in done.stderr) == (status == 2)
        assert done.stderr.count("\n") <= 1


def test_nobody_reading_errors_does_not_change_the_status(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = start(*WEFT, "topology", "--k", "4", cwd=tmp_path, stderr=writing)
    os.close(writing)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "allgather", "--out", ""],
        ["demo", "--out", ""],
        ["topology", "-o", ""],
        ["report", ".", "-o", ""],
        ["p4c", "x.p4", "-o", ""],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_empty_place_is_refused(arguments: list[str], tmp_path: Path) -> None:
    done = start(*WEFT, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("weft: --out '' is empty")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_results_folder(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    done = start(*WEFT, "run", "allgather", "--out", "there", cwd=tmp_path)
    assert done.returncode == 2
    assert "--out 'there' is a file" in done.stderr


def test_an_interruption_before_there_is_anything_to_clean_up_shows_no_traceback(
    tmp_path: Path,
) -> None:
    done = start(sys.executable, "-c", WHILE_LOADING, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["p4c", "x.p4", "-D", "1X"], "-D '1X': write NAME or NAME=VALUE"),
        (["switch", "x.p4", "-D", "=3"], "-D '=3': write NAME or NAME=VALUE"),
        (["p4c", "x.p4", "--target", "ebpf"], "--target 'ebpf': there is bmv2 alone"),
        (["switch", "x.json"], "x.json: the program is not JSON: Expecting"),
    ],
)
def test_a_wrong_value_is_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    for name in ("x.p4", "x.json"):
        (tmp_path / name).write_text("no program\n")
    if arguments[0] == "switch":
        arguments += ["--grpc-server-addr", "unix:socket"]
    done = start(*WEFT, *arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


WITHOUT_ROOM = """
import errno, os
from weft.cli import command_line as cli

def run():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *({files}))

cli.app = lambda **_: run()
cli.main()
"""


@pytest.mark.parametrize(
    ("files", "place"), [("['/x/y']", "/x/y"), ("[]", "a file of the run or of the cache")]
)
def test_a_disk_without_room_is_one_message_wherever_it_is(
    files: str, place: str, tmp_path: Path
) -> None:
    done = start(sys.executable, "-c", WITHOUT_ROOM.format(files=files), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"weft: {place} cannot be written: No space left on device; make room\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of one's own needs root")
def test_a_cache_that_is_full_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    command = " ".join([*WEFT, "run", "allgather", "--world", "simulated", "--size", "1KiB"])
    script = f"""
        mount -t tmpfs -o size=64k,mode=700 weft-test {tmp_path}/cache || exit 77
        WEFT_CACHE={tmp_path}/cache {command}
    """
    done = start("unshare", "--mount", "sh", "-c", script, cwd=tmp_path)
    if done.returncode == 77:
        pytest.skip("this machine mounts no tmpfs in a mount namespace")
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("weft: ")]
    assert len(errors) == 1


def test_signals_do_not_cut_a_clean_up_short(tmp_path: Path) -> None:
    done = start(sys.executable, "-c", TWO_SIGNALS, cwd=tmp_path)
    assert done.stdout == "cleaned up\n"
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == ""


def completed(*words: str) -> list[str]:
    """What completion offers for the last word of a command line."""
    environment = {
        **ENVIRONMENT,
        "_WEFT_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(WEFT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("weft", "run", "all"), ["allgather", "allreduce", "alltoall"]),
        (("weft", "run", "allreduce", "--algorithm", "d"), ["double-binary-tree", "direct"]),
        (("weft", "run", "flows", "--world", ""), ["emulated", "simulated"]),
        (("weft", "up", "--paths", "spray"), ["spray", "spray-round-robin"]),
    ],
)
def test_completion_offers_what_an_option_can_be(words: Sequence[str], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_the_command_is_a_module_too_and_says_its_version() -> None:
    done = subprocess.run([*WEFT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"weft {weft.__version__}\n"


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    import weft.tools.commands  # noqa: F401, what developers have of commands
    from weft.cli.command_line import COMMANDS, GROUPS, app

    group: Any = get_command(app)
    context = group.context_class(group)
    for name in (*COMMANDS, *GROUPS):
        _, command, _ = group.resolve_command(context, [name])
        listed = group.get_command(context, name)
        assert command.hidden == listed.hidden, name
        told = [each.get_short_help_str(1000) for each in (command, listed)]
        assert command.hidden or told[0] == told[1]


def test_help_after_a_collective_lists_what_it_heeds_and_nothing_else() -> None:
    def flags(*words: str) -> set[str]:
        done = subprocess.run([*WEFT, "run", *words, "--help"], capture_output=True, text=True)
        return set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", done.stdout, re.MULTILINE))

    every = flags()
    assert {"--root", "--workers", "--servers", "--model", "--rate"} < every
    assert {"--servers", "--slots", "--op", "--rate", "--json"} < flags("allreduce") < every
    assert not {"--root", "--workers", "--model", "--workload"} & flags("allreduce")
    assert "--root" in flags("broadcast") and "--tensor" in flags("flows")


def test_clean_bounds_the_cache_by_a_size(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "WEFT_CACHE": str(tmp_path / "cache")}

    def clean(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*WEFT, "clean", *words], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    kept = tmp_path / "cache" / "programs" / "program.py"
    kept.parent.mkdir(parents=True)
    (tmp_path / "cache").chmod(0o700)
    kept.write_text("x")
    status, said, _ = clean("--cache")
    assert status == 0 and said.startswith("removed 0 files, 0 B\n")
    assert kept.exists()
    status, said, _ = clean("--cache", "0")
    assert said.splitlines()[1] == f"left: 0 B in {tmp_path / 'cache'}"
    assert not kept.exists()
    assert clean("--cache", "much") == (
        2, "", "weft: size 'much' is not understood: write a number and a unit, like 4096, 64KiB "
        "or 1MiB\n"
    )  # fmt: skip
    assert clean("200MiB") == (
        2, "", "weft: clean takes a size (200MiB) with --cache alone: weft clean --cache 200MiB\n"
    )  # fmt: skip


def test_doctor_says_where_the_cache_is_how_large_and_why_it_cannot_be_used(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    environment = {**ENVIRONMENT, "WEFT_CACHE": str(cache)}

    def doctor() -> tuple[int, str]:
        done = subprocess.run([*WEFT, "doctor"], env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout

    cache.mkdir(mode=0o700)
    said = doctor()[1]
    assert re.search(rf"ok  cache +0 B of 1 GiB in {re.escape(str(cache))}\n", said), said
    cache.chmod(0o777)
    status, said = doctor()
    assert status == 2
    assert f"needed:   cache folder {cache} cannot be used: others may have written" in said
