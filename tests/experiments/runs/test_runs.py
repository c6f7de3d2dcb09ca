"""What a run keeps is its owner's alone, and what others could have written is not believed."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.emulated_support import needs_machine, run_folders, wait_until

from weft.agents.drivers.rendezvous import Rendezvous
from weft.base.cache import CHECKOUT
from weft.base.effort import start_time
from weft.base.errors import InputError, MachineError
from weft.base.private_files import keep_private, open_private
from weft.topo.worlds.emulated.cleanup import clean, marked_processes
from weft.topo.worlds.emulated.runs import RECORD, RunRecord, boot_id, read_record
from weft.topo.worlds.emulated.testbeds import (
    FILE,
    RunningSwitch,
    RunningTestbed,
    _look,
    find_testbed,
)

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Within the test everybody may do everything to what is made without a word on that."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of runs that other users can reach, with nobody to write it but its owner."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def dead_run(root: Path, run_id: str, victim: int) -> Path:
    """The folder of a run whose runner is dead, and which has a process on record."""
    with subprocess.Popen(["true"]) as runner:
        pass
    folder = root / run_id
    folder.mkdir(0o700)
    lines = [
        {"runner": True, "boot": boot_id(), "pid": runner.pid, "started": 1, "what": "runner"},
        {"pid": victim, "started": start_time(victim) or 0, "what": "the switch process"},
    ]
    with open_private(folder / RECORD, "w") as record:
        record.writelines(f"{json.dumps(line)}\n" for line in lines)
    return folder


@pytest.mark.usefixtures("open_umask")
def test_a_runs_folder_and_record_are_its_owners_alone_whatever_the_umask(root: Path) -> None:
    runs = root / "weft"
    run = RunRecord.create(runs)
    run.add(os.getpid(), "a process")
    assert [mode(path) for path in (runs, run.folder, run.folder / RECORD)] == [0o755, 0o700, 0o600]
    testbed = RunningTestbed(run.id, "a testbed", {"leaf0": RunningSwitch("unix:/x", 1)})
    testbed.write(run.folder)
    assert mode(run.folder / FILE) == 0o600
    assert _look(runs)[0] == [testbed]


@pytest.mark.usefixtures("open_umask")
def test_sockets_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    with Rendezvous(tmp_path / "meeting.sock", ["h0"]):
        assert mode(tmp_path / "meeting.sock") == 0o600


def test_a_private_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("whole")
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError), open_private(tmp_path / "log", "w"):
        pass
    assert (tmp_path / "victim").read_text() == "whole"


def test_a_folder_of_runs_that_all_may_write_is_closed_by_the_next_run(root: Path) -> None:
    root.chmod(0o777)
    RunRecord.create(root)
    assert mode(root) == 0o755


def test_a_folder_of_runs_that_is_a_link_takes_no_run(root: Path) -> None:
    (root / "elsewhere").mkdir()
    (root / "weft").symlink_to(root / "elsewhere")
    with pytest.raises(MachineError, match=r"weft: it is a symbolic link, .* remove it"):
        RunRecord.create(root / "weft")
    assert not any((root / "elsewhere").iterdir())


@as_root
def test_a_folder_of_runs_that_belongs_to_another_user_takes_no_run(root: Path) -> None:
    os.chown(root, NOBODY, NOBODY)
    with pytest.raises(MachineError, match=r"it belongs to user 65534, .* remove it"):
        RunRecord.create(root)


def _open_record(folder: Path) -> None:
    (folder / RECORD).chmod(0o666)


def _open_folder(folder: Path) -> None:
    folder.chmod(0o777)


def _let_a_group_write(folder: Path) -> None:
    (folder / RECORD).chmod(0o620)


def _link_record(folder: Path) -> None:
    (folder / RECORD).rename(folder / "real")
    (folder / RECORD).symlink_to("real")


def _link_folder(folder: Path) -> None:
    folder.rename(folder.parent / "real")
    folder.symlink_to("real")


def _pipe(folder: Path) -> None:
    (folder / RECORD).unlink()
    os.mkfifo(folder / RECORD, 0o600)


def _foreign_record(folder: Path) -> None:
    os.chown(folder / RECORD, NOBODY, NOBODY)


def _foreign_folder(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_open_record, r"others may write it \(mode 0666\)"),
        (_open_folder, r"others may write it \(mode 0777\)"),
        (_let_a_group_write, r"others may write it \(mode 0620\)"),
        (_link_record, "it is a symbolic link"),
        (_link_folder, "it is a symbolic link"),
        (_pipe, "it is no regular file"),
        pytest.param(_foreign_record, "it belongs to user 65534", marks=as_root),
        pytest.param(_foreign_folder, "it belongs to user 65534", marks=as_root),
    ],
)
def test_what_another_user_may_have_written_kills_nobody_and_stays(
    change: Callable[[Path], None],
    why: str,
    root: Path,
    bystander: subprocess.Popen[bytes],
) -> None:
    folder = dead_run(root, "00bb11", bystander.pid)
    believed = dead_run(root, "00bb12", bystander.pid)
    (believed / RECORD).unlink()
    change(folder)
    with pytest.raises(MachineError, match=f"00bb11.*: {why}. .*not believed.*by hand") as told:
        clean(root)
    assert f"removed run 00bb12: {believed}" in str(told.value)
    assert bystander.poll() is None
    assert folder.exists() and not believed.exists()


def test_nothing_is_believed_where_all_may_rename_folders(
    root: Path, bystander: subprocess.Popen[bytes]
) -> None:
    folder = dead_run(root, "00bb13", bystander.pid)
    root.chmod(0o777)
    with pytest.raises(MachineError, match=rf"{root}: others may write it .*{folder}"):
        clean(root)
    assert bystander.poll() is None and folder.is_dir()
    root.chmod(0o755)
    assert f"run 00bb13: {folder}" in clean(root)
    bystander.wait()


def test_clean_follows_no_link_out_of_a_runs_folder(root: Path) -> None:
    (root / "notes").mkdir()
    (root / "notes" / "note").write_text("whole")
    with subprocess.Popen(["true"]) as gone:
        pass
    folder = dead_run(root, "00bb14", gone.pid)
    (folder / "folder").symlink_to(root / "notes")
    (folder / "file").symlink_to(root / "notes" / "note")
    assert clean(root) == [f"run 00bb14: {folder}"]
    assert (root / "notes" / "note").read_text() == "whole"


@as_root
def test_the_mark_of_another_users_process_is_told_and_not_believed(root: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    folder = dead_run(root, "00bb15", gone.pid)
    with subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "WEFT_RUN": "00bb15"}, user=NOBODY
    ) as claimant:
        try:
            environment = Path(f"/proc/{claimant.pid}/environ")
            wait_until(lambda: b"WEFT_RUN=00bb15" in environment.read_bytes(), "the mark is there")
            assert marked_processes("00bb15") == []
            words = rf"process {claimant.pid} \(sleep\) of user 65534 .* not believed"
            with pytest.raises(MachineError, match=words) as told:
                clean(root)
            assert f"removed run 00bb15: {folder}" in str(told.value)
            assert claimant.poll() is None and not folder.exists()
        finally:
            claimant.kill()


def test_a_testbed_that_another_user_may_have_described_is_not_connected_to(root: Path) -> None:
    run = RunRecord.create(root)
    RunningTestbed(run.id, "a testbed", {"leaf0": RunningSwitch("unix:/x", 1)}).write(run.folder)
    assert find_testbed(run.id, root).description == "a testbed"
    (run.folder / FILE).chmod(0o606)
    assert _look(root)[0] == []
    with pytest.raises(InputError, match=rf"no testbed is up.*\n.*{FILE}: others may write it"):
        find_testbed(run.id, root)
    (run.folder / FILE).chmod(0o600)
    run.folder.chmod(0o770)
    assert _look(root)[0] == []


AS_NOBODY = """
import os, sys
from pathlib import Path
from weft.base.errors import WeftError
from weft.topo.worlds.emulated.cleanup import clean
from weft.topo.worlds.emulated.testbeds import find_testbed

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for work in (clean, lambda root: find_testbed(root=root)):
    try:
        print(work(Path(sys.argv[1])))
    except WeftError as error:
        print(error)
"""


@as_root
def test_without_root_roots_runs_are_told_to_need_it(root: Path) -> None:
    run = RunRecord.create(root)
    said = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, root],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert said[0].startswith(f"{run.folder}: whether these runs are dead") and "sudo" in said[0]
    assert said[-1] == f"{run.folder} is another user's: use sudo"


OPEN_RUN = """
import os, sys
from weft.experiments.runs.inputs import cast_of, operation_of, program_of
from weft.experiments.runs.testbed import make_testbed
from weft.base.progress import Progress
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.emulated.world import EmulatedWorld
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.world import Order

from weft.agents.drivers.rank import warm_up
from weft.switch.engine.switches import Dataplane
from weft.switch.realtime.process import prepare

scenario = Scenario(topology="single", hosts_per_leaf=2)
prepare()  # and so nothing is left to be written to the cache
warm_up()
Dataplane(1, 2).build(program_of(scenario).json.read_text())
os.umask(0)
record = RunRecord.create()
try:
    world = EmulatedWorld(scenario.network(), scenario.switch, run=record)
    operation = operation_of(scenario, "ring", scenario.seed)
    with make_testbed(world, scenario, program_of(scenario), Progress.silent()) as testbed:
        cast = cast_of(scenario, world.topology, testbed.controller.plan)
        with world.gathered(Order("ranks", operation, cast), print):
            print(record.folder, flush=True)
            sys.stdin.read()
finally:
    record.remove()
"""

CONNECT = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected")
    except PermissionError:
        print("refused")
"""


@needs_machine
@pytest.mark.system
def test_nobody_else_reaches_a_run_that_was_started_with_an_open_umask() -> None:
    before = run_folders()
    with subprocess.Popen(
        [sys.executable, "-c", OPEN_RUN], env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as runner:  # fmt: skip
        assert runner.stdin is not None and runner.stdout is not None
        folder = Path(runner.stdout.readline().strip())
        assert folder.is_dir()
        made = {path.name: path for path in folder.rglob("*")}
        wanted = {"ranks.sock", "leaf0.sock", "statistics.sock", "launcher.log", "rank-0.log"}
        assert wanted | {RECORD, "switches.json", "switches.log"} <= set(made)
        assert mode(folder) == 0o700 and mode(folder.parent) == 0o755
        assert {name: mode(path) for name, path in made.items()} == dict.fromkeys(made, 0o600)
        folder.chmod(0o755)  # even then
        sockets = [str(path) for path in made.values() if path.is_socket()]
        said = subprocess.run(
            [sys.executable, "-c", CONNECT, *sockets], capture_output=True, text=True, check=True
        ).stdout.split()
        assert said == ["refused"] * len(sockets) and len(sockets) >= 3
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(sockets[0])
        runner.communicate(timeout=300)
        assert runner.returncode == 0
    assert run_folders() <= before


def test_a_socket_is_closed_to_others(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.sock"))
        os.chmod(tmp_path / "x.sock", 0o777)
        keep_private(tmp_path / "x.sock")
        assert mode(tmp_path / "x.sock") == 0o600
    assert read_record(tmp_path) == (None, [])
