"""``./weft``: decides at once that nothing is missing, and says clearly what it cannot do.

The set-up itself is tried on copies of the starter in a scratch folder, with commands of the test's
own standing in for dpkg-query, pip and Python: no test installs anything.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = Path("/usr/bin/python3").resolve().name.removeprefix("python")
REQUIREMENTS = f"py{VERSION.replace('.', '')}.txt"
SHELL_REQUIREMENTS = "shell.txt"
SET_UP = ["venv", "pip", "venv", "pip"]
"""What a whole set-up does: Weft's environment, and that of p4runtime-shell."""

PYTHON = """#!/bin/sh
# Stands for .venv/bin/python: says how it was called.
case "$*" in
    *compileall*) ;;
    *pip*) echo "pip $*" >>"$LOG"; exit "${PIP_STATUS:-0}";;
    *prepare*) ;;
    *sysconfig*) mkdir -p "$(dirname "$0")/../packages"; echo "$(dirname "$0")/../packages";;
    *) echo "python in $(pwd):$(printf ' [%s]' "$@")"; exit "${STATUS:-0}";;
esac
"""


class Checkout:
    """A checkout in which ``python -m venv`` makes the Python above, and dpkg-query knows all."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a check out"
        self.log = folder / "log"
        self.commands = folder / "bin"
        (self.root / "requirements").mkdir(parents=True)
        self.commands.mkdir()
        text = (ROOT / "weft").read_text()
        # The one command that the starter calls by its full path.
        text = text.replace("/usr/bin/python3 -m venv", f"'{self.commands}/make-venv'")
        (self.root / "weft").write_text(text)
        (self.root / "weft").chmod(0o755)
        (self.root / "requirements" / REQUIREMENTS).write_text("numpy==1.0\n")
        (self.root / "requirements" / SHELL_REQUIREMENTS).write_text("p4runtime-shell==1.0\n")
        self.command("python-of-venv", PYTHON)
        self.command(
            "make-venv",
            '#!/bin/sh\necho "venv $*" >>"$LOG"\n'
            'for last; do :; done\nmkdir -p "$last/bin"\n'
            f"cp '{self.commands}/python-of-venv' \"$last/bin/python\"\n",
        )
        self.command(
            "dpkg-query",
            '#!/bin/sh\nfor p; do case "$p" in -*) ;; "${MISSING:-none}") ;; '
            '*) echo "$p ii ";; esac; done\n',
        )

    def command(self, name: str, text: str) -> None:
        file = self.commands / name
        file.write_text(text)
        file.chmod(0o755)

    def run(
        self, *arguments: str, user: int | None = None, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "weft", *arguments],
            cwd=cwd or self.root.parent,
            env={
                **os.environ,
                "PATH": f"{self.commands}:{os.environ['PATH']}",
                "LOG": str(self.log),
                **env,
            },
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            user=user,
        )

    def actions(self) -> Sequence[str]:
        """What was done since last asked."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
        self.log.unlink()
        return [line.split()[0] for line in lines]


def let_others_in(path: Path) -> None:
    """Open pytest's folders for temporary files to other users."""
    for folder in [path, *path.parents]:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | 0o055)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_first_call_sets_up_and_the_second_does_nothing_more(checkout: Checkout) -> None:
    first = checkout.run("setup")
    assert first.returncode == 0, first.stderr
    assert checkout.actions() == SET_UP
    assert "installing Python packages" in first.stderr
    second = checkout.run("setup")
    assert second.returncode == 0
    assert checkout.actions() == []
    assert second.stderr == "weft: nothing is missing\n"


def test_other_commands_go_to_the_command_line_with_their_arguments_and_folder(
    checkout: Checkout, tmp_path: Path
) -> None:
    done = checkout.run("run", "a file.toml", "--loss", "0.01", cwd=tmp_path, STATUS="7")
    assert done.returncode == 7
    assert done.stdout == (
        f"python in {tmp_path}: [-m] [weft] [run] [a file.toml] [--loss] [0.01]\n"
    )


def test_tests_run_in_the_checkout_with_pytests_own_arguments(checkout: Checkout) -> None:
    done = checkout.run("test", "-k", "a or b")
    assert done.stdout == f"python in {checkout.root}: [-m] [pytest] [-k] [a or b]\n"


@pytest.mark.parametrize(
    ("arguments", "tier"), [((), "whole"), (("--fast",), "fast"), (("--all",), "all")]
)
def test_a_tier_runs_in_a_process_for_each_processor_and_pytests_status_is_the_commands(
    checkout: Checkout, arguments: tuple[str, ...], tier: str
) -> None:
    checkout.command("nproc", "#!/bin/sh\necho 2\n")
    done = checkout.run("test", *arguments, STATUS="1")
    assert done.stdout == (
        f"python in {checkout.root}: [-m] [pytest] [--tier] [{tier}] [--numprocesses] [2]"
        " [--maxprocesses] [4] [--dist] [loadfile] [--no-loadscope-reorder] [--durations] [10]\n"
    )
    assert done.returncode == 1


def test_what_follows_a_tier_is_pytests(checkout: Checkout) -> None:
    checkout.command("nproc", "#!/bin/sh\necho 2\n")
    done = checkout.run("test", "--all", "--hypothesis-profile", "nightly")
    assert "[--hypothesis-profile] [nightly] [--tier] [all] [--numprocesses]" in done.stdout


def test_check_runs_ruff_and_mypy(checkout: Checkout) -> None:
    assert checkout.run("check").stdout.splitlines() == [
        f"python in {checkout.root}: [-m] [ruff] [check] [.]",
        f"python in {checkout.root}: [-m] [ruff] [format] [--check] [--quiet] [.]",
        f"python in {checkout.root}: [-m] [mypy]",
    ]


def test_attacks_run_in_the_checkout_with_their_own_arguments(checkout: Checkout) -> None:
    done = checkout.run("attack", "--seconds", "5", STATUS="1")
    assert done.stdout == f"python in {checkout.root}: [-m] [weft.tools.attack] [--seconds] [5]\n"
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["setup", "check"])
def test_an_argument_that_means_nothing_is_refused(checkout: Checkout, command: str) -> None:
    done = checkout.run(command, "surplus")
    assert done.returncode == 2
    assert f"'{command}' takes no arguments" in done.stderr


def test_a_failed_installation_ends_with_2_and_is_repaired_by_the_next_call(
    checkout: Checkout,
) -> None:
    failed = checkout.run("setup", PIP_STATUS="1")
    assert failed.returncode == 2
    assert "pip could not install" in failed.stderr
    assert checkout.actions() == ["venv", "pip"]
    repaired = checkout.run("setup")
    assert repaired.returncode == 0
    assert checkout.actions() == SET_UP


@pytest.mark.parametrize("file", [REQUIREMENTS, SHELL_REQUIREMENTS])
def test_changed_requirements_make_the_environment_anew(checkout: Checkout, file: str) -> None:
    checkout.run("setup")
    checkout.actions()
    (checkout.root / "requirements" / file).write_text("numpy==2.0\n")
    left_over = checkout.root / ".venv" / "left-over"
    left_over.touch()
    assert checkout.run("setup").returncode == 0
    assert checkout.actions() == SET_UP
    assert not left_over.exists()


def test_a_checkout_that_was_moved_makes_its_environment_anew(checkout: Checkout) -> None:
    checkout.run("setup")
    checkout.actions()
    checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert checkout.run("setup").returncode == 0
    assert checkout.actions() == SET_UP


def test_a_python_that_weft_does_not_run_on_is_named(checkout: Checkout) -> None:
    (checkout.root / "requirements" / REQUIREMENTS).unlink()
    done = checkout.run("setup")
    assert done.returncode == 2
    assert f"/usr/bin/python3 is Python {VERSION}: Weft runs on 3.10 to 3.13" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_without_root_a_missing_package_is_named_and_what_to_run_is_said(tmp_path: Path) -> None:
    let_others_in(tmp_path)
    checkout = Checkout(tmp_path)
    done = checkout.run("topology", user=65534, MISSING="tshark")
    assert done.returncode == 2
    assert "missing Debian packages: tshark" in done.stderr
    assert f"sudo {checkout.root}/weft setup" in done.stderr
    assert checkout.actions() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_without_root_commands_run_when_nothing_is_missing(tmp_path: Path) -> None:
    let_others_in(tmp_path)
    checkout = Checkout(tmp_path)
    checkout.run("setup")
    done = checkout.run("topology", user=65534)
    assert (done.returncode, done.stderr) == (0, "")
    assert "[weft] [topology]" in done.stdout


def hold(checkout: Checkout, file: Path, user: int = 0) -> subprocess.Popen[bytes]:
    """A process that holds a lock on a file, as ``flock`` does; ended by closing its input."""
    process = subprocess.Popen(
        ["flock", "--exclusive", file, "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=user or None,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="acting as another user needs root")
def test_who_may_only_read_the_checkout_holds_no_lock_that_others_wait_for(
    checkout: Checkout, tmp_path: Path
) -> None:
    assert checkout.run("setup").returncode == 0
    let_others_in(tmp_path)
    for folder in (checkout.root, checkout.root / ".cache"):
        folder.chmod(0o755)
    lock = checkout.root / ".cache" / "setup.lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    refused = subprocess.run(["flock", lock, "true"], user=65534, capture_output=True, check=False)
    assert refused.returncode != 0
    holder = hold(checkout, checkout.root / "weft", user=65534)
    try:
        done = checkout.run("setup")  # returns while the file is held
        assert (done.returncode, done.stderr) == (0, "weft: nothing is missing\n")
    finally:
        end(holder)


def start(checkout: Checkout, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [checkout.root / "weft", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{checkout.commands}:{os.environ['PATH']}",
             "LOG": str(checkout.log)},
    )  # fmt: skip


def waits_for(lock: Path, root: Path) -> str:
    return f"weft: waiting for another set-up of {root} to end; {lock} is held by\n"


@pytest.mark.parametrize("command", ["setup", "topology"])
def test_who_waits_for_another_set_up_says_so_and_names_its_process(
    checkout: Checkout, command: str
) -> None:
    assert checkout.run("setup").returncode == 0
    lock = checkout.root / ".cache" / "setup.lock"
    holder = hold(checkout, lock)
    waiting = start(checkout, command)
    with waiting:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        named = waiting.stderr.readline()
        end(holder)
        assert said == waits_for(lock, checkout.root)
        assert named.startswith(f"  process {holder.pid} of ") and "flock" in named
        rest = waiting.stderr.read()
    assert rest == ("weft: nothing is missing\n" if command == "setup" else "")
    assert waiting.returncode == 0


def test_any_number_of_starts_wait_for_a_set_up_and_name_only_who_holds_the_lock(
    checkout: Checkout,
) -> None:
    assert checkout.run("setup").returncode == 0
    lock = checkout.root / ".cache" / "setup.lock"
    lock.write_text(f"{os.getpid()}\n")  # who is named in the file holds nothing for that
    holder = hold(checkout, lock)
    waiting = []
    try:
        for each in range(6):
            waiting.append(start(checkout, "setup" if each % 2 else "topology"))
            stderr = waiting[-1].stderr
            assert stderr is not None
            assert stderr.readline() == waits_for(lock, checkout.root)
            assert stderr.readline().startswith(f"  process {holder.pid} of ")
    finally:
        end(holder)
    for one in waiting:
        with one:
            _, rest = one.communicate(timeout=60)
            assert one.returncode == 0
            assert rest in ("weft: nothing is missing\n", "")  # nobody else was named


def test_starts_at_once_that_miss_nothing_do_not_wait_for_one_another(checkout: Checkout) -> None:
    assert checkout.run("setup").returncode == 0
    lock = checkout.root / ".cache" / "setup.lock"
    with subprocess.Popen(
        ["flock", "--shared", lock, "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as another:  # fmt: skip
        assert another.stdout is not None
        assert another.stdout.readline() == b"held\n"
        done = checkout.run("topology")
        assert (done.returncode, done.stderr) == (0, "")
        another.communicate()


def test_of_first_starts_at_once_one_sets_up_and_all_are_done(checkout: Checkout) -> None:
    started = [start(checkout, "topology") for _ in range(4)]
    for one in started:
        with one:
            said, _ = one.communicate(timeout=60)
            assert one.returncode == 0
            assert "[-m] [weft] [topology]" in said
    assert checkout.actions() == SET_UP


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_lead_nowhere(checkout: Checkout, closed: str) -> None:
    assert checkout.run("setup").returncode == 0
    python = checkout.root / ".venv" / "bin" / "python"
    python.write_text(
        "#!/usr/bin/python3\nimport os, sys\n"
        "found = [os.readlink(f'/proc/self/fd/{d}') for d in range(3)]\n"
        "open(os.environ['LOG'], 'w').write('\\n'.join(found))\nsys.exit(7)\n"
    )
    log = checkout.log
    done = subprocess.run(
        ["bash", "-c", f"exec {closed}; exec '{checkout.root}/weft' topology"],
        env={**os.environ, "PATH": f"{checkout.commands}:{os.environ['PATH']}", "LOG": str(log)},
        stdin=subprocess.PIPE, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 7
    for descriptor, leads_to in enumerate(log.read_text().splitlines()):
        is_closed = f"{descriptor}>&-" in closed or f"{descriptor}<&-" in closed
        assert (leads_to == "/dev/null") == is_closed, (descriptor, leads_to)


TORCH_PYTHON = """#!/bin/sh
# Stands for .venv/bin/python without torch, and for a pip that finds it in $HAS alone.
case "$*" in
    *'import torch'*) exit 1;;
    *torch==*)
        echo "$*" >>"$LOG"
        case " $* " in *" --extra-index-url $HAS "*) exit 0;; esac
        [ "$HAS" = "its own" ] || { echo "no torch in what is asked" >&2; exit 1; }
        ;;
esac
"""
PUBLISHED = "https://download.pytorch.org/whl/cpu"


def torch_installed(
    checkout: Checkout, has: str, env: Mapping[str, str] | None = None
) -> tuple[int, list[str], str]:
    """Status, what pip was asked for after --quiet, and what is said of ``setup --torch``."""
    assert checkout.run("setup").returncode == 0
    checkout.log.unlink()
    python = checkout.root / ".venv" / "bin" / "python"
    python.write_text(TORCH_PYTHON)
    done = checkout.run("setup", "--torch", **{"HAS": has, **(env or {})})  # type: ignore[arg-type]
    lines = checkout.log.read_text().splitlines()
    return done.returncode, [line.partition(" torch==")[2] for line in lines], done.stderr


def test_torch_comes_from_the_indexes_that_pip_is_configured_with(checkout: Checkout) -> None:
    status, asked, _ = torch_installed(checkout, "its own")
    assert (status, asked) == (0, ["2.13.0+cpu"])


@pytest.mark.parametrize("named", [None, "https://mirror.invalid/cpu"])
def test_else_torch_comes_from_another_index_beside_them_which_a_user_can_name(
    checkout: Checkout, named: str | None
) -> None:
    other = named or PUBLISHED
    env = {"WEFT_TORCH_INDEX": named} if named else {}
    status, asked, _ = torch_installed(checkout, other, env)
    assert (status, asked) == (0, ["2.13.0+cpu", f"2.13.0+cpu --extra-index-url {other}"])


@pytest.mark.parametrize("named", [None, ""])
def test_torch_that_no_index_has_is_told_with_what_pip_said(
    checkout: Checkout, named: str | None
) -> None:
    status, asked, said = torch_installed(
        checkout, "nowhere", {} if named is None else {"WEFT_TORCH_INDEX": named}
    )
    assert status == 2
    assert len(asked) == (2 if named is None else 1)
    assert said.count("no torch in what is asked") == len(asked)
    assert "WEFT_TORCH_INDEX names an index that has it" in said


def test_no_file_names_a_package_index_but_pytorchs_as_an_extra_one() -> None:
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"git cannot list the files: {listed.stderr}")
    hosts = re.compile(
        r"pypi\.org|pythonhosted|(?<!extra-)index-url|deb\.debian\.org|npmjs\.(?:org|com)"
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and name != "tests/project/test_starter.py":
            text = (ROOT / name).read_text(errors="replace")
            assert not hosts.findall(text), name
            lines = [line for line in text.splitlines() if "download.pytorch" in line]
            assert all("extra" in line for line in lines), name


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_lock_that_is_no_file_is_refused(checkout: Checkout, kind: str) -> None:
    lock = checkout.root / ".cache" / "setup.lock"
    lock.parent.mkdir()
    lock.mkdir() if kind == "folder" else os.mkfifo(lock)
    done = checkout.run("setup")
    assert done.returncode == 2
    assert done.stderr == f"weft: {lock} is no file: delete it\n"


def test_with_an_open_umask_what_is_set_up_is_not_open_to_others(checkout: Checkout) -> None:
    before = os.umask(0)
    try:
        assert checkout.run("setup").returncode == 0
    finally:
        os.umask(before)
    made = [checkout.root / ".cache", *(checkout.root / ".venv").rglob("*")]
    assert made[1:]
    assert not [path for path in made if path.stat().st_mode & 0o022]


def test_a_lock_that_is_a_link_is_not_opened(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.root / ".cache").mkdir()
    (checkout.root / ".cache" / "setup.lock").symlink_to(tmp_path / "elsewhere")
    done = checkout.run("setup")
    assert done.returncode == 2
    assert "setup.lock is a symbolic link: delete it" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="installing Debian packages needs root")
def test_only_the_debian_packages_that_are_missing_are_installed(checkout: Checkout) -> None:
    for name in ("apt-get", "dpkg", "debconf-set-selections"):
        checkout.command(name, f'#!/bin/sh\necho "{name} $*" >>"$LOG"\n')
    done = checkout.run("setup", MISSING="tshark")
    assert done.returncode == 0, done.stderr
    lines = checkout.log.read_text().splitlines()
    (install,) = [line for line in lines if line.startswith("apt-get") and "install" in line]
    assert install.endswith("--no-install-recommends tshark")
    assert "installing Debian packages: tshark" in done.stderr


def test_the_starter_and_the_ci_script_are_executable_and_parse() -> None:
    for name in ("weft", ".ci/run", "requirements/lock.sh"):
        assert os.access(ROOT / name, os.X_OK), name
        subprocess.run(["bash", "-n", ROOT / name], check=True)


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="vagrant is not installed")
@pytest.mark.system
def test_vagrant_takes_the_vagrantfile(tmp_path: Path) -> None:
    done = subprocess.run(
        ["vagrant", "validate", "--ignore-provider"],
        cwd=ROOT,
        env={
            **os.environ,
            "VAGRANT_DOTFILE_PATH": str(tmp_path / "dot"),
            "VAGRANT_HOME": str(tmp_path / "home"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
