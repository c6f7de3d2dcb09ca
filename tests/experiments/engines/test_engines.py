"""Engines: how jobs go to workers and come back, processes of this machine, and what is said of bad
input."""

from __future__ import annotations

import concurrent.futures
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engines_support import (
    die,
    die_once,
    echo,
    fail,
    fail_strangely,
    go,
    sweep,
    told,
    under_way,
)
from tests.support.system_support import ENVIRONMENT, WEFT, wait_until

from weft.base.errors import InputError, MachineError, RunError
from weft.base.progress import left_in_words
from weft.experiments.engines import gather, local, work
from weft.experiments.engines.engine import Need, check_versions
from weft.experiments.engines.gather import AHEAD, MOST_LOSSES, gathered, said
from weft.experiments.engines.local import WORKER_BYTES, Local, Processes, fitting
from weft.experiments.engines.registry import ENGINES, place_of
from weft.experiments.engines.work import OtherVersionError
from weft.experiments.runner import run
from weft.experiments.scenario.sweep import Experiment


class Fake(Executor):
    """An executor without workers: a job is done when somebody waits, the next one is drawn."""

    def __init__(
        self, draw: random.Random, deadly: Callable[[Any], bool] = lambda _: False
    ) -> None:
        self.draw, self.deadly = draw, deadly
        self.given: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.most = 0

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.given.append((future, partial(function, *args, **kwargs)))
        self.most = max(self.most, len(self.given))
        return future

    def step(self) -> None:
        """Do one of the jobs that there are."""
        future, job = self.given.pop(self.draw.randrange(len(self.given)))
        if not future.set_running_or_notify_cancel():
            return
        if self.deadly(job):
            future.set_exception(BrokenExecutor("killed"))
            return
        try:
            future.set_result(job())
        except Exception as error:
            future.set_exception(error)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fake]]:
    """Fakes, each of which does a job whenever somebody waits."""
    from weft.experiments.engines import gather

    fakes: list[Fake] = []
    real = concurrent.futures.wait

    def wait(futures: Any, **options: Any) -> Any:
        for fake in fakes:
            fake.step()
        return real(futures, **options)

    monkeypatch.setattr(gather, "wait", wait)
    yield fakes


@given(jobs=st.integers(0, 30), workers=st.integers(0, 5), seed=st.integers())
def test_every_result_comes_back_once_in_whatever_order(jobs: int, workers: int, seed: int) -> None:
    from weft.experiments.engines import gather

    fake = Fake(random.Random(seed))
    real = concurrent.futures.wait

    def wait(futures: Any, **options: Any) -> Any:
        fake.step()
        return real(futures, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "wait", wait)
        found = list(gathered(fake, lambda: workers, {n: partial(echo, n) for n in range(jobs)}))
    assert sorted(found) == [(number, number) for number in range(jobs)]
    assert fake.most <= max(1, AHEAD * workers)


def test_what_dies_with_a_worker_runs_again_and_a_job_that_kills_is_given_up(
    steps: list[Fake],
) -> None:
    deaths: dict[str, int] = {}

    def deadly(job: Any) -> bool:
        (name,) = job.args
        deaths[name] = deaths.get(name, 0) + 1
        return bool(name == "killer" or (name == "unlucky" and deaths[name] < MOST_LOSSES))

    steps.append(fake := Fake(random.Random(1), deadly))
    jobs = {name: partial(echo, name) for name in ("killer", "unlucky", "other")}
    found = dict(gathered(fake, lambda: 2, jobs))
    assert found["unlucky"] == "unlucky" and found["other"] == "other"
    assert isinstance(found["killer"], RunError)
    assert said(found["killer"]).startswith("3 workers died of it, one after the other (killed)")
    assert deaths == {"killer": MOST_LOSSES, "unlucky": MOST_LOSSES, "other": 1}


def test_an_error_is_a_result_and_another_version_ends_all(steps: list[Fake]) -> None:
    steps.append(fake := Fake(random.Random(2)))
    jobs = {1: partial(fail, ValueError("odd")), 2: partial(fail, RunError("a sentence"))}
    found = dict(gathered(fake, lambda: 1, jobs))
    assert [said(found[number]) for number in (1, 2)] == ["ValueError: odd", "a sentence"]
    jobs = {1: partial(fail, OtherVersionError("old")), **{n: partial(echo, n) for n in (2, 3, 4)}}
    steps[:] = [fake := Fake(random.Random(0))]
    with pytest.raises(OtherVersionError, match="old"):
        list(gathered(fake, lambda: 2, jobs))
    assert all(future.cancelled() for future, _ in fake.given)


def test_an_engine_that_is_gone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.experiments.engines import gather

    monkeypatch.setattr(gather, "LOOK_S", 0.01)
    silent = Fake(random.Random(0))
    with pytest.raises(RunError, match="the engine is gone: its scheduler has closed"):
        list(gathered(silent, lambda: 1, {1: die}, lambda: "its scheduler has closed"))


def test_a_job_is_refused_by_another_version_before_it_is_unpickled() -> None:
    with pytest.raises(OtherVersionError, match=r"has Weft 0\.1\.0\+\w+, and the sweep is one of"):
        work.work("0.0.9", b"no pickle")
    assert work.job(work.nothing)() is None
    check_versions({"a": "1", "b": "1"}, "1")
    with pytest.raises(MachineError, match="worker b has Weft 2, and this is Weft 1: install this"):
        check_versions({"a": "1", "b": "2"}, "1")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    executor = Processes(2)
    yield executor
    executor.shutdown()


def test_processes_run_one_job_each_and_one_that_dies_takes_no_other_along(
    processes: Processes, tmp_path: Path
) -> None:
    jobs: dict[str, Any] = {str(n): partial(echo, n) for n in range(20)}
    jobs |= {"once": partial(die_once, tmp_path / "mark"), "always": die}
    jobs |= {"wrong": partial(fail, ValueError("odd"))}
    found = dict(gathered(processes, lambda: 2, jobs))
    assert [found[str(n)] for n in range(20)] == list(range(20))
    assert found["once"] == "alive"
    assert said(found["wrong"]) == "ValueError: odd"
    assert said(found["always"]).startswith("3 workers died of it")


def test_workers_have_one_thread_and_neither_ctrl_c_nor_hang_up(processes: Processes) -> None:
    assert processes.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
    blocked = processes.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result()
    assert blocked >= {signal.SIGINT, signal.SIGHUP}
    assert not {signal.SIGINT, signal.SIGHUP} & signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_processes_end_at_once_whatever_they_do() -> None:
    executor = Processes(1)
    pid = executor.submit(os.getpid).result()
    begun = time.monotonic()
    future = executor.submit(time.sleep, 1000)
    wait_until(future.running, "the job to begin")
    executor.shutdown()
    assert time.monotonic() - begun < 5
    assert isinstance(future.exception(), BrokenExecutor)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the worker to be gone")


def test_an_interrupt_as_processes_start_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    new = Processes._new

    def interrupted(self: Processes) -> Any:
        if begun:
            raise KeyboardInterrupt
        pool = new(self)
        begun.extend(pool._processes)
        return pool

    monkeypatch.setattr(Processes, "_new", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        Processes(2)
    assert caught.tb is not None  # which keeps the executor: nothing else ends its worker
    assert len(begun) == 1
    wait_until(lambda: not Path(f"/proc/{begun[0]}").exists(), "the worker to be gone")


def test_without_semaphores_there_are_no_workers(tmp_path: Path) -> None:
    sweep(tmp_path)

    def under_a_limit(*options: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["prlimit", "--fsize=16", *WEFT, "run", "sizes.toml", *options],
            cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    status, output, errors = under_a_limit()
    assert (status, "workers" in errors) == (2, False), errors  # nor are results written
    assert len(re.findall(r"ring +ok|multicast +ok", output)) == 12
    status, output, errors = under_a_limit("--on", "local:2")
    assert (status, output) == (2, "")
    told = (
        r"--on local:2: no processes can be started \(\[Errno \d+\] [\w ]+\); they need POSIX sem"
    )
    assert re.search(told, errors)  # which number it is depends on the C library
    assert errors.endswith("or run points in this process: --on local:1\n")
    status, output, _ = under_a_limit("--on", "local:1")
    assert (status, len(re.findall(r"ring +ok|multicast +ok", output))) == (2, 12)


def test_results_are_the_same_in_processes_as_in_one(tmp_path: Path) -> None:
    alone = go(tmp_path / "alone")
    beside = go(tmp_path / "beside", on="local:2")
    assert told(beside.results) == told(alone.results)
    assert len(list((tmp_path / "beside/out/points").iterdir())) == 7
    pages = [outcome.report.read_text() for outcome in (alone, beside)]
    # What was run and what came of it is the same to the letter; after it comes how long that took.
    first, second = (page.split('<section id="environment">')[0] for page in pages)
    run_ids = [outcome.results.run_id for outcome in (alone, beside)]
    first, second = (
        _without(page, run) for page, run in zip((first, second), run_ids, strict=True)
    )
    assert first == second


def _without(page: str, run_id: str) -> str:
    """A page without what tells when it was run."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", "", page.replace(run_id, ""))


def test_a_point_that_fails_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Processes):
        def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.count = getattr(self, "count", 0) + 1
            broken: dict[int, Callable[..., Any]] = {2: die, 3: die}
            broken[4] = partial(fail, MachineError("no room"))
            return super().submit(broken.get(self.count, function), *args, **kwargs)

    monkeypatch.setattr(local, "Processes", Half)
    results = go(tmp_path, on="local:2").results
    failed = [run for run in results.runs if run.error]
    assert [run.algorithm for run in failed] == ["ring", "multicast"]
    assert {run.error for run in failed} == {"no room"}
    assert len(results.runs) == 12


def test_as_many_processes_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for free, each, count in (
        (1 << 40, 0, 8), (3 * WORKER_BYTES, 0, 3), (0, 0, 1), (None, 0, 8),
        (1 << 33, (1 << 32) - WORKER_BYTES, 2),
    ):  # fmt: skip
        monkeypatch.setattr(local, "available_bytes", lambda free=free: free)
        assert fitting(Need(100, each)) == count
    assert Local.count("", Need(5)) == 5
    assert Local.count(":3", Need(2)) == 2
    assert not Local().is_worth(":1", Need(9))
    assert not Local().is_worth("", Need(1))
    assert Local().is_worth("", Need(2))


@pytest.mark.parametrize(
    ("on", "message"),
    [
        (
            "dusk:local",
            r"there is no engine 'dusk' \(did you mean dask\?\); say local, local:N",
        ),
        ("", "there is no engine ''; say local"),
        (3, "on 3 is no text: give one, like 'local:8'"),
        ("local:0", "--on local:0: write local, or local:N for 1 to 1024 processes"),
        ("local:x", "--on local:x: write local"),
        ("local://a:1", "write local"),
        ("dask", r"--on dask: say one of dask:local\[:N\], dask://HOST:PORT"),
        ("dask://host", "say one of"),
        ("dask://host:86400", "--on dask://host:86400: port 86400 is out of range: 1 to 65535"),
        ("dask+ssh://", "say one of"),
        ("dask+tram:4", "say one of"),
        ("ray:8", "--on ray:8: say ray://HOST:PORT"),
        ("ray://host:0", "--on ray://host:0: port 0 is out of range"),
    ],
)
def test_a_place_that_is_none_is_said_with_what_there_is(on: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        place_of(on)


@pytest.mark.parametrize(
    ("on", "module", "message"),
    [
        (
            "dask:local",
            "distributed",
            r"Dask is not installed: ./weft setup --dask installs it",
        ),
        ("dask+ssh://a,b", "asyncssh", "asyncssh, which Dask uses for this, is not installed"),
        ("dask+slurm:4", "dask_jobqueue", "dask-jobqueue is not installed: pip install dask-job"),
        ("ray://a:1", "ray", r"Ray is not installed: pip install 'weft\[ray\]'"),
    ],
)
def test_an_engine_that_is_not_installed_is_said(
    on: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return (
            None if name == module else real("os") if name == "distributed" else real(name, *rest)
        )

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(MachineError, match=message):
        place_of(on)


def test_every_engine_says_its_forms() -> None:
    assert list(ENGINES)[:3] == ["local", "dask", "ray"]
    for name, engine in ENGINES.items():
        assert all(form.startswith(name) for form in engine.forms)


def test_an_api_call_runs_elsewhere_too(tmp_path: Path) -> None:
    experiment = sweep(tmp_path)
    few = Experiment(experiment.points[:2], experiment.swept)
    assert told(run(few, on="local:2")) == told(run(few))


def test_captures_are_made_here_alone(tmp_path: Path) -> None:
    text = 'pcap = true\n[sweep]\nsize = ["1KiB", "2KiB"]\n'
    pytest.importorskip("distributed", reason="Dask is not installed: ./weft setup --dask")
    with pytest.raises(InputError, match="pcap writes files on the machine that runs a point"):
        go(tmp_path, text, on="dask://127.0.0.1:1")


LONG = """
world = "simulated"
topology = "single"
hosts-per-leaf = 4
algorithm = "ring"
size = "8MiB"
[sweep]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_what_has_arrived_and_no_process(tmp_path: Path, number: int) -> None:
    with under_way(tmp_path, LONG, "local:2") as (process, children):
        assert len(children) >= 3
        if number in (signal.SIGINT, signal.SIGHUP):
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(
        lambda: not any(Path(f"/proc/{child}").exists() for child in children),
        "its processes to be gone",
    )
    there = len(list((tmp_path / "out/points").glob("*.json"))) - 1
    if number != signal.SIGKILL:
        assert f"{there} of 20 points are in '{tmp_path}/out': go on with --resume" in errors
        assert (tmp_path / "out" / "results.json").exists()
        assert "Traceback" not in errors
        assert "resource_tracker" not in errors
    assert there >= 2


def test_time_left_is_in_words() -> None:
    assert left_in_words(10, 0) == ""
    assert left_in_words(10, 0.5) == "0:10 left"
    assert left_in_words(3600, 0.1) == "9:00:00 left"
    assert left_in_words(5, 2.0) == "0:00 left"


@pytest.mark.parametrize("typed", [False, True], ids=["a script", "standard input"])
def test_a_script_of_ones_own_runs_once_whatever_workers_there_are(
    tmp_path: Path, typed: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('begun')\n"
        "from pathlib import Path\n"
        "from weft.experiments.scenario.sweep import read_file\n"
        "from weft import run\n"
        "print(run(read_file(Path('sizes.toml')), on='local:2').verified)\n"
    )
    sweep(tmp_path)
    done = subprocess.run(
        [sys.executable, "-" if typed else str(script)], input=script.read_text(),
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("begun\nTrue\n", "")


def test_an_engine_that_has_no_workers_any_more_counts_as_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Never(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            return Future()

    monkeypatch.setattr(gather, "WITHOUT_WORKERS_S", 0.05)
    monkeypatch.setattr(gather, "LOOK_S", 0.01)
    with pytest.raises(RunError, match=r"has had no workers for 0\.05 s: start some"):
        list(gathered(Never(), lambda: 0, {1: partial(echo, 1)}))


@pytest.mark.parametrize(
    ("job", "message"),
    [(work.job(fail_strangely), "Strange: 1"), (work.job(fail, SystemExit(3)), "SystemExit: 3")],
)
def test_whatever_ends_a_job_comes_as_an_error_that_can_be_told(
    job: work.Job, message: str
) -> None:
    with pytest.raises(RunError, match=message):
        job()


def test_workers_start_again_where_the_server_that_forks_them_was_killed() -> None:
    processes = Processes(2)
    try:
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
        jobs = {number: partial(echo, number) for number in range(6)}
        assert dict(gathered(processes, lambda: 2, jobs)) == {number: number for number in range(6)}
    finally:
        processes.shutdown()


def test_a_fork_server_that_is_killed_while_workers_start_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(_context: Any) -> None:
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
        raise EOFError  # as whoever asks it for a process gets

    with monkeypatch.context() as patch:
        patch.setattr(local, "_wait_for_server", killed)
        words = r"workers are forked from \(pid \d+\) was killed by signal 9 \(SIGKILL\)"
        with pytest.raises(RunError, match=words):
            Processes(1)
    processes = Processes(1)  # by another server
    assert processes.submit(echo, 7).result() == 7
    processes.shutdown()


def test_an_error_while_the_fork_server_lives_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_context: Any) -> None:
        raise EOFError

    monkeypatch.setattr(local, "_wait_for_server", fails)
    monkeypatch.setattr(local, "DEATH_S", 0.1)
    with pytest.raises(EOFError):
        Processes(1)
