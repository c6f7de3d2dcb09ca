"""Whatever kills a run, nothing of it is left, and nobody else's is touched."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.support.emulated_support import (
    is_alive,
    machine_interfaces,
    needs_machine,
    network_namespaces,
    quiet_world,
    run_folders,
    wait_until,
)

from weft import Scenario, run
from weft.base.effort import start_time
from weft.base.errors import MachineError
from weft.topo.clos import single
from weft.topo.worlds.emulated.cleanup import clean, marked_processes
from weft.topo.worlds.emulated.runs import RECORD, RUNS, Process, RunRecord, read_record

OWNER = """
import json, sys
from weft.base.errors import MachineError
from tests.support.emulated_support import outer_pid, quiet_world
from weft.topo.clos import leaf_spine
from weft.topo.worlds.emulated.pid_namespace import PidNamespace

def refuse(environment, names):
    raise MachineError("none here")

command = "env -i setsid sleep 1000"
if sys.argv[1:] == ["without PID namespace"]:
    PidNamespace.make = refuse
    command = "setsid sleep 1000"
with quiet_world(leaf_spine(2, 1, 1)) as world:
    free = world.mininet["h0"].cmd(command + " > /dev/null & echo pid=$!")
    print(json.dumps({
        "id": world.record.id,
        "bound": [world.namespace_pid, world.host_pid(0), world.host_pid(1),
                  world.switch_processes[0].pid],
        "free": outer_pid(int(free.rpartition("pid=")[2].split()[0]), world.namespace_pid),
    }), flush=True)
    sys.stdin.read()
"""


def _heed_signals() -> None:
    """Whoever runs the tests may ignore these, as nohup and shells' background jobs do."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class _Owner:
    """A process that owns a world, from its start until it is killed by the test."""

    def __init__(self, *arguments: str) -> None:
        root = Path(__file__).resolve().parents[3]
        self.popen = subprocess.Popen(
            [sys.executable, "-c", OWNER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(root)},
            start_new_session=True,
            preexec_fn=_heed_signals,
        )
        assert self.popen.stdout is not None
        facts = json.loads(self.popen.stdout.readline())
        self.id: str = facts["id"]
        self.bound: list[int] = facts["bound"]
        self.free: int = facts["free"]
        comm = Path(f"/proc/{self.free}/comm")
        wait_until(lambda: comm.read_text() == "sleep\n", "the command has a session of its own")

    def end(self, number: int) -> int:
        """Signal it and wait for its end; returns its status."""
        self.popen.send_signal(number)
        status = self.popen.wait(300)
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()
        return status


@needs_machine
@pytest.mark.system
def test_a_command_that_hides_whose_it_is_dies_with_a_runner_killed_with_sigkill() -> None:
    owner = _Owner()
    assert f"WEFT_RUN={owner.id}".encode() not in Path(f"/proc/{owner.free}/environ").read_bytes()
    assert owner.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not is_alive(owner.free), "the kernel kills what is in the PID namespace")
    wait_until(lambda: not any(map(is_alive, owner.bound)), "its processes die with it")
    assert [line for line in clean() if owner.id in line] == [
        f"run {owner.id}: /run/weft/{owner.id}"
    ]


@needs_machine
@pytest.mark.system
def test_a_runner_killed_with_sigkill_leaves_nothing_after_clean() -> None:
    interfaces = machine_interfaces()
    owner = _Owner("without PID namespace")
    namespaces = {os.stat(f"/proc/{pid}/ns/net").st_ino for pid in owner.bound}
    assert owner.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not any(map(is_alive, owner.bound)), "its processes die with it")
    assert owner.id in run_folders()
    with quiet_world(single(1)) as bystander:
        removed = clean()
        bystander.check_alive()
        assert not any(bystander.record.id in line for line in removed)
    assert any(f"process {owner.free} (sleep)" in line for line in removed)
    assert any(line.startswith(f"run {owner.id}: /run/weft/") for line in removed)
    assert not is_alive(owner.free)
    assert owner.id not in run_folders()
    assert not marked_processes(owner.id)
    assert machine_interfaces() <= interfaces
    wait_until(lambda: not namespaces & network_namespaces(), "its namespaces go")
    assert not any(owner.id in line for line in clean())


@needs_machine
@pytest.mark.system
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_a_runner_told_to_end_cleans_up_after_itself(number: int, status: int) -> None:
    owner = _Owner()
    assert owner.end(number) == status
    assert not any(map(is_alive, [*owner.bound, owner.free]))
    assert owner.id not in run_folders()


@needs_machine
@pytest.mark.system
def test_a_second_signal_does_not_cut_the_clean_up_short() -> None:
    owner = _Owner()
    for _ in range(3):
        owner.popen.send_signal(signal.SIGTERM)
    assert owner.end(signal.SIGTERM) == 143
    assert not any(map(is_alive, [*owner.bound, owner.free]))
    assert owner.id not in run_folders()


@needs_machine
@pytest.mark.system
@pytest.mark.parametrize(
    "begin", [lambda: quiet_world(single(1)).__enter__(), lambda: run(Scenario())]
)
def test_an_interrupt_while_a_run_is_put_on_record_leaves_nothing(
    begin: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in `_heed_signals`

    def rename_and_interrupt(draft: Path, target: Path) -> Path:
        renamed = rename(draft, target)
        if target.parent == RUNS:
            os.kill(os.getpid(), signal.SIGINT)
        return renamed

    monkeypatch.setattr(Path, "rename", rename_and_interrupt)
    before = run_folders()
    try:
        with pytest.raises(KeyboardInterrupt):
            begin()
    finally:
        signal.signal(signal.SIGINT, heeded)
    assert run_folders() <= before


def _dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def _folder(root: Path, name: str, *processes: Mapping[str, object]) -> Path:
    folder = root / name
    folder.mkdir()
    lines = [json.dumps(process) for process in processes]
    (folder / RECORD).write_text("\n".join([*lines, '{"pid": 12, "star']))
    return folder


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_process_id_used_again_is_never_killed(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        runner = {"runner": True, "boot": _boot(), "pid": _dead_pid(), "started": 1, "what": "r"}
        reused = {"pid": bystander.pid, "started": 1, "what": "a switch of long ago"}
        folder = _folder(tmp_path, "00aa11", runner, reused)
        assert clean(tmp_path) == [f"run 00aa11: {folder}"]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_recorded_and_marked_processes_of_a_dead_run_are_killed(tmp_path: Path) -> None:
    run_id, another = secrets.token_hex(3), secrets.token_hex(3)
    recorded = subprocess.Popen(["sleep", "1000"])
    marked = subprocess.Popen(["sleep", "1000"], env={**os.environ, "WEFT_RUN": run_id})
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, "WEFT_RUN": another})
    try:
        wait_until(lambda: len(marked_processes(run_id)) == 1, "the mark is seen")
        runner = {"runner": True, "boot": _boot(), "pid": _dead_pid(), "started": 1, "what": "r"}
        started = start_time(recorded.pid)
        process = {"pid": recorded.pid, "started": started, "what": "the switch process"}
        folder = _folder(tmp_path, run_id, runner, process)
        removed = clean(tmp_path)
        assert f"run {run_id}: process {recorded.pid} (the switch process)" in removed
        assert f"run {run_id}: process {marked.pid} (sleep)" in removed
        assert (recorded.wait(), marked.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert other.poll() is None
        assert not folder.exists()
    finally:
        for popen in (recorded, marked, other):
            popen.kill()
            popen.wait()


def test_a_run_whose_runner_lives_is_never_touched(tmp_path: Path) -> None:
    run = RunRecord.create(tmp_path)
    child = subprocess.Popen(["sleep", "1000"], env=run.environment())
    try:
        run.add(child.pid, "a switch")
        assert clean(tmp_path) == []
        assert child.poll() is None and run.folder.is_dir()
    finally:
        child.kill()
        child.wait()


def test_a_record_from_before_the_last_boot_counts_as_dead(tmp_path: Path) -> None:
    runner = {
        **{"runner": True, "boot": "another", "pid": os.getpid(), "what": "runner"},
        "started": start_time(os.getpid()),
    }
    folder = _folder(tmp_path, "00aa14", runner)
    assert read_record(folder) == (None, [])
    assert clean(tmp_path) == [f"run 00aa14: {folder}"]


def test_folders_that_no_run_made_are_left_alone_and_unfinished_ones_are_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes").mkdir()
    unfinished = tmp_path / f".00aa15.{_dead_pid()}"
    unfinished.mkdir()
    being_made = tmp_path / f".00aa16.{os.getpid()}"
    being_made.mkdir()
    assert clean(tmp_path) == [f"run 00aa15: {unfinished}"]
    assert (tmp_path / "notes").is_dir() and being_made.is_dir()


CLEAN = """
import os, sys
from pathlib import Path
from weft.base.errors import MachineError
from weft.topo.worlds.emulated.cleanup import clean

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for root in sys.argv[1:]:
    try:
        print(clean(Path(root)))
    except MachineError as error:
        print(f"{error.exit_status}: {error}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can stop being root")
def test_without_root_what_only_root_can_remove_is_told_and_stays() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        empty, ours, theirs = (Path(name, part) for part in ("empty", "ours", "theirs"))
        for root in (empty, ours, theirs):
            root.mkdir(0o755)
        process = subprocess.Popen(["sleep", "1000"])
        try:
            runner = {"runner": True, "boot": _boot(), "pid": _dead_pid(), "started": 1}
            left = {"pid": process.pid, "started": start_time(process.pid), "what": "a switch"}
            roots = _folder(ours, "00aa17", {**runner, "what": "r"}, left)
            killable = _folder(theirs, "00aa18", {**runner, "what": "r"})
            guarded = _folder(theirs, "00aa19", {**runner, "what": "r"}, left)
            for path in (theirs, killable, guarded):
                os.chown(path, 65534, 65534)
            said = subprocess.run(
                [sys.executable, "-c", CLEAN, *map(str, (empty, ours, theirs))],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
                capture_output=True, text=True, check=True,
            ).stdout.splitlines()  # fmt: skip
            assert said[0] == "[]"
            assert said[1].startswith(f"2: {roots}: left by killed runs") and "sudo" in said[1]
            assert said[2].startswith(f"2: {guarded}: cannot be removed") and "sudo" in said[2]
            assert said[3:] == [f"removed run 00aa18: {killable}"]
            assert process.poll() is None
            assert roots.is_dir() and guarded.is_dir() and not killable.exists()
            with pytest.raises(MachineError, match=f"{theirs}: it belongs to user 65534"):
                clean(theirs)
            assert process.poll() is None and guarded.is_dir()
            for path in (theirs, guarded):
                os.chown(path, 0, 0)
            assert clean(theirs) == [
                f"run 00aa19: process {process.pid} (a switch)", f"run 00aa19: {guarded}"
            ]  # fmt: skip
        finally:
            process.kill()
            process.wait()


def test_there_is_nothing_to_clean_where_no_run_ever_was(tmp_path: Path) -> None:
    assert clean(tmp_path / "none") == []


def test_a_run_records_itself_before_its_folder_appears(tmp_path: Path) -> None:
    run = RunRecord.create(tmp_path)
    runner, others = read_record(run.folder)
    assert runner == Process(os.getpid(), start_time(os.getpid()) or 0, "runner")
    assert others == []
    assert len(run.id) == 6 and run.folder == tmp_path / run.id
    assert run.environment()["WEFT_RUN"] == run.id
    assert os.environ.get("WEFT_RUN") != run.id
    run.remove()
    assert not run.folder.exists()
