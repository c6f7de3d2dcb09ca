"""Poor environments: what runs out, is closed, has been deleted or is broken is told in a line."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from pathlib import Path

import pytest
from google.rpc import code_pb2
from tests.support.cli_support import ENVIRONMENT, WEFT
from tests.support.emulated_support import needs_machine

from weft.base import deferred, files, limits
from weft.base.errors import InputError, MachineError
from weft.switch.compiler import driver
from weft.switch.p4runtime.refusals import as_refusal

SMALL = ("run", "allgather", "--topology", "single", "--hosts-per-leaf", "2", "--size", "4KiB")
SIMULATED = (*SMALL, "--world", "simulated")


def weft(
    *arguments: str, before: str = "true", path: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that has done something `before`."""
    known = {**ENVIRONMENT, **environment}
    known["PYTHONPATH"] = os.pathsep.join(filter(None, [path, known["PYTHONPATH"]]))
    done = subprocess.run(
        ["bash", "-c", f'{before}; exec "$@"', "bash", *WEFT, *arguments],
        env=known, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def limited(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    """Let this process have a limit, and return where each is noted that it sets."""
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, pair: set_to.append(pair))
    return set_to


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (100, 1000, [(500, 1000)]),
        (100, 300, [(300, 300)]),
        (100, resource.RLIM_INFINITY, [(500, resource.RLIM_INFINITY)]),
        (500, 1000, []),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, []),
    ],
)
def test_the_soft_limit_of_files_is_raised_as_far_as_the_hard_one_allows(
    soft: int, hard: int, expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to = limited(monkeypatch, soft, hard)
    limits.allow_files(500, 200, "it")
    assert set_to == expected


def test_too_few_files_are_refused_with_what_is_needed_and_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limited(monkeypatch, 100, 199) == []
    with pytest.raises(MachineError, match=r"it takes up to 200 open files .* and 199 are allowed"):
        limits.allow_files(500, 200, "it")


def test_too_little_address_space_is_refused_and_enough_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, 1 << 30, resource.RLIM_INFINITY)
    limits.check_address_space(1 << 30, "it")
    with pytest.raises(MachineError, match=r"up to 2 GiB .* and 1 GiB are allowed: .*2097152"):
        limits.check_address_space(1 << 31, "it")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("Unable to allocate 75.0 MiB"), r"no more memory \(Unable to allocate 75.0 M"),
        (MemoryError(), "no more memory: choose"),
        (RuntimeError("can't start new thread"), "no more threads can be started"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            "no more files can be opened: a process may",
        ),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no more memory"),
        (OSError(errno.ENOSPC, "No space left", "a.json"), "a.json cannot be written: No space"),
    ],
)
def test_what_runs_out_is_told(
    error: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    told = limits.shortage(error)
    assert told is not None
    with pytest.raises(MachineError, match=words):
        raise told


@pytest.mark.parametrize("error", [OSError(errno.EPERM, "no"), RuntimeError("x"), KeyError("x")])
def test_other_errors_are_no_shortage(error: BaseException) -> None:
    assert limits.shortage(error) is None


def test_a_folder_that_was_deleted_is_known_and_another_one_stands_in_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    assert files.working_folder() == str(gone)
    with files.some_folder():
        assert files.working_folder() == str(gone)
    gone.rmdir()
    assert files.working_folder() == ""
    with pytest.raises(InputError, match="has been deleted"):
        files.check_working_folder()
    with files.some_folder():
        assert os.getcwd() == "/"
    assert files.working_folder() == ""


def test_nothing_is_compiled_where_llvm_would_abort_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, 1 << 30, resource.RLIM_INFINITY)
    monkeypatch.setattr(deferred, "PLAIN", False)
    monkeypatch.setattr(deferred, "_awake", False)
    with pytest.raises(
        MachineError, match=r"compiling machine code.* takes up to 1\.5 GiB .*1 GiB a"
    ):
        deferred.wake()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError("no room")])
def test_a_program_is_not_blamed_for_what_the_machine_lacks(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_function: object) -> None:
        raise error

    monkeypatch.setattr(driver, "run_deep", fail)
    (tmp_path / "any.p4").write_text("header h { }")
    with pytest.raises(MachineError, match=r"no more threads|no more memory"):
        driver.compile_program(tmp_path / "any.p4")


def test_a_switch_without_memory_refuses_by_the_right_code() -> None:
    for error in (MemoryError("no room"), MachineError("compiling takes more")):
        assert as_refusal(error).code == code_pb2.RESOURCE_EXHAUSTED
    assert as_refusal(ValueError("a bug")).code == code_pb2.INTERNAL


@pytest.mark.system(alone=False)
def test_in_a_deleted_folder_whole_paths_work_and_others_are_refused(tmp_path: Path) -> None:
    deleted = f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone"
    done = weft(*SIMULATED, "--out", str(tmp_path / "out"), before=deleted)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "results.json").exists()
    for arguments in (SIMULATED, (*SIMULATED, "--seeds", "1,2", "--on", "local:2", "--out", "/x")):
        done = weft(*arguments, before=deleted)
        assert done.returncode == 2
        assert "the folder that this was called in has been deleted" in done.stderr


@pytest.mark.system(alone=False)
@pytest.mark.parametrize(
    "before",
    ["ulimit -v 300000", "ulimit -v 400000", "ulimit -v 500000", "ulimit -n 6"],
    ids=lambda one: one,
)
def test_a_simulated_run_that_gets_too_little_says_what_in_a_line(
    before: str, tmp_path: Path
) -> None:
    done = weft(*SIMULATED, "--out", str(tmp_path / "out"), before=before)
    assert done.returncode in (1, 2)
    assert done.stderr.strip().splitlines()[-1].startswith("weft: ")


@pytest.mark.system(alone=False)
def test_a_simulated_run_that_has_to_compile_says_that_it_gets_too_little(tmp_path: Path) -> None:
    cache, out = str(tmp_path / "cache"), str(tmp_path / "out")
    done = weft(*SIMULATED, "--out", out, before="ulimit -v 1000000", WEFT_CACHE=cache)
    assert done.returncode == 1, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("weft: ") and "RESOURCE_EXHAUSTED: compiling machine code" in last
    assert "takes up to 1.5 GiB of address space in a process" in last


@pytest.mark.system(alone=False)
@needs_machine
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("ulimit -v 900000", "of address space in a process"),
        ("ulimit -n 60", "open files in a process, and 60 are allowed"),
    ],
)
def test_a_network_that_the_limits_do_not_allow_is_refused_before_it_is_begun(
    before: str, words: str, tmp_path: Path
) -> None:
    done = weft(*SMALL, "--out", str(tmp_path / "out"), before=before)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.system(alone=False)
@needs_machine
def test_without_standard_descriptors_a_network_runs(tmp_path: Path) -> None:
    done = weft(*SMALL, "--out", str(tmp_path / "out"), before="exec 0<&- 1>&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out" / "results.json").exists()


@pytest.mark.system(alone=False)
@pytest.mark.parametrize(
    "does",
    ["raise KeyboardInterrupt", "raise SystemExit(0)", "raise GeneratorExit",
     "class Odd(BaseException): pass\nraise Odd('odd')"],
)  # fmt: skip
def test_a_package_whose_entry_point_raises_anything_is_left_out(does: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(does)
    (info := tmp_path / "broken-1.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[weft.networks]\nodd = broken:network\n")
    out = str(tmp_path / "out")
    done = weft(*SIMULATED, "--out", out, path=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "weft: 'odd' of broken (weft.networks, broken:network) is left out" in done.stderr
