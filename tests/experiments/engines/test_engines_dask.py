"""Dask as an engine: schedulers and workers as processes, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated_support import needs_machine
from tests.support.engines_support import SWEEP, go, processes_of, told, under_way
from tests.support.system_support import ENVIRONMENT, WEFT, left_as_it_was, wait_until

from weft.base.cache import CHECKOUT
from weft.base.errors import MachineError
from weft.experiments.engines import dask
from weft.experiments.engines.engine import Need

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: ./weft setup --dask"
)
Security = distributed.Security
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

MANY = SWEEP.replace("size = [", 'seed = [1, 2, 3, 4]\nsize = ["2MiB", "3MiB", ')
EMULATED = """
topology = "single"
hosts-per-leaf = 2
algorithm = "ring"
[sweep]
size = ["16KiB", "32KiB"]
"""


class Cluster:
    """A scheduler of Dask in a process, and workers in others."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.file = folder / "scheduler.json"
        self.environment = {**ENVIRONMENT, **environment}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                   "--scheduler-file", str(self.file))  # fmt: skip
        wait_until(self.file.exists, "the scheduler to start")
        wait_until(lambda: '"address"' in self.file.read_text(), "the scheduler to listen")

    def start(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        options = {"env": self.environment, **how}
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def worker(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        threads = [] if "--nthreads" in words else ["--nthreads", "1"]
        return self.start(
            "worker", "--scheduler-file", str(self.file), "--host", "127.0.0.1", "--no-dashboard",
            *threads, *words, **how,
        )  # fmt: skip

    @property
    def on(self) -> str:
        """What ``--on`` says to name it."""
        address = self.file.read_text().split('"address": "')[1].split('"')[0]
        return f"dask://{address.split('://')[1]}"

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """What starts a cluster, which ends with the test."""
    clusters: list[Cluster] = []

    def started(**environment: str) -> Cluster:
        clusters.append(Cluster(tmp_path, **environment))
        return clusters[-1]

    yield started
    for cluster in clusters:
        cluster.stop()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for an answer."""
    monkeypatch.setattr(dask, "ANSWER_S", 2.0)


def test_results_are_the_same_whatever_the_engine_and_whoever_dies(
    tmp_path: Path, start: Callable[..., Cluster]
) -> None:
    alone = told(go(tmp_path / "alone", MANY).results)
    cluster = start()
    victim, _ = cluster.worker("--no-nanny"), cluster.worker()
    points = tmp_path / "dask" / "out" / "points"

    def strike() -> None:
        wait_until(lambda: len(list(points.glob("*.json"))) > 3, "points to arrive")
        victim.send_signal(signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    dasks = told(go(tmp_path / "dask", MANY, on=cluster.on).results)
    thread.join()
    assert victim.wait(10) == -signal.SIGKILL
    assert dasks == alone
    assert not list((tmp_path / "dask" / "out").glob("*.new"))


def test_a_cluster_of_this_machine_listens_on_loopback_alone_and_ends_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / "dask-scratch-space"  # from where Dask would import modules
    planted.mkdir(mode=0o777)
    imports_from = list(sys.path)
    before = dict(os.environ)
    with dask.Dask().open(":local:2", Need(2)) as workers:
        assert workers.count() == 2 and workers.machines is None
        assert workers.executor.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
        # With it memory goes back to the kernel at every turn.
        assert workers.executor.submit(os.getenv, "MALLOC_TRIM_THRESHOLD_").result() is None
        mine = forked()
        assert len(mine) >= 2
        listening = {address for pid in (os.getpid(), *mine) for address in listened(pid)}
        ports = sorted({port for pid in (os.getpid(), *mine) for port in ports_of(pid)})
        assert ports
        assert str(planted) not in sys.path
        assert str(planted) not in workers.executor.submit(eval, "__import__('sys').path").result()
        said = [newcomer(port) for port in ports]
    assert listening == {"0100007F"}  # 127.0.0.1
    assert not any(said), dict(zip(ports, said, strict=True))
    wait_until(lambda: not mine & forked(), "the cluster to end")
    assert dict(os.environ) == before
    assert sys.path == imports_from and not list(planted.iterdir())
    # The fork server's own stays as long as this process.
    assert [each for each in tmp_path.iterdir() if not each.name.startswith("pymp-")] == [planted]


def forked() -> set[int]:
    """The processes below this one that are none of its own children: those of the fork server."""
    found = set()
    for pid in processes_of(os.getpid()):
        with contextlib.suppress(OSError):  # it may have ended by now
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if parent != os.getpid():
                found.add(pid)
    return found


def newcomer(port: int) -> str:
    """What whoever connects hears: as they are, by TLS, by TLS with a certificate that they made,
    and from a web server. A scheduler or a worker of Dask that takes a connection says so at once.
    """
    with_own = Security.temporary().get_connection_args("client")["ssl_context"]
    without = ssl.create_default_context()
    for context in (with_own, without):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for context, says in (
        (None, b""),
        (without, b""),
        (with_own, b""),
        (None, b"GET / HTTP/1.0\r\n\r\n"),
    ):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1) as plain,
        ):
            connection = plain if context is None else context.wrap_socket(plain)
            with connection:
                connection.sendall(says)
                if heard := connection.recv(1000):
                    return repr(heard)
    return ""


def listened(pid: int) -> Iterator[str]:
    """The addresses at which a process listens to TCP."""
    yield from (each.split(":")[0] for each in listening_at(pid))


def ports_of(pid: int) -> Iterator[int]:
    """The ports at which a process listens to TCP."""
    yield from (int(each.split(":")[1], 16) for each in listening_at(pid))


def listening_at(pid: int) -> Iterator[str]:
    """The addresses and ports at which a process listens to TCP, as the kernel writes them."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                yield fields[1]


@pytest.mark.usefixtures("impatient")
def test_who_does_not_answer_and_who_has_no_workers_is_said(
    tmp_path: Path, start: Callable[..., Cluster]
) -> None:
    with pytest.raises(MachineError, match=r"--on dask://127\.0\.0\.1:9: no scheduler of Dask"):
        go(tmp_path, on="dask://127.0.0.1:9")
    cluster = start()
    with pytest.raises(MachineError, match=r"the scheduler has no workers: start some, like 'dask"):
        go(tmp_path, on=cluster.on)
    assert not (tmp_path / "out").exists()


def test_workers_that_do_not_fit_are_refused(tmp_path: Path, start: Callable[..., Cluster]) -> None:
    cluster = start()
    many = cluster.worker("--nthreads", "3", "--no-nanny")
    with pytest.raises(MachineError, match=r"has 3 threads, and a point takes a process: start"):
        go(tmp_path, on=cluster.on)
    many.terminate()
    many.wait()
    other = tmp_path / "other"
    shutil.copytree(CHECKOUT / "src", other, ignore=shutil.ignore_patterns("__pycache__"))
    file = other / "weft" / "base" / "__init__.py"
    file.write_text(file.read_text().replace('VERSION = "', 'VERSION = "9.'))
    old = cluster.worker("--no-nanny", env={**ENVIRONMENT, "PYTHONPATH": str(other)})
    with pytest.raises(MachineError, match=r"worker tcp://\S+ has Weft 9\.\S+, and this is Weft"):
        go(tmp_path, on=cluster.on)
    old.terminate()
    old.wait()
    cluster.worker("--no-nanny")
    with pytest.raises(MachineError, match="no worker offers a machine, and emulated points take"):
        go(tmp_path, EMULATED, on=cluster.on)
    assert not (tmp_path / "out").exists()


@as_root
def test_a_machine_without_root_is_refused(tmp_path: Path, start: Callable[..., Cluster]) -> None:
    cluster = start()
    place = Path("/tmp") / f"weft-nobody-{os.getpid()}"
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    environment = {
        **ENVIRONMENT, "HOME": str(place), "TMPDIR": str(place), "WEFT_CACHE": str(place / "cache"),
    }  # fmt: skip
    file = place / "scheduler.json"
    shutil.copy(cluster.file, file)
    os.chown(file, NOBODY, NOBODY)
    try:
        cluster.start(
            "worker", "--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard",
            "--nthreads", "1", "--no-nanny", "--resources", "machine=1",
            env=environment, user=NOBODY, cwd=place,
        )  # fmt: skip
        with pytest.raises(MachineError, match=r"offers a machine and is not root: emulated"):
            go(tmp_path, EMULATED, on=cluster.on)
    finally:
        cluster.stop()
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.system
@needs_machine
def test_emulated_points_have_a_machine_each_and_a_verdict(
    tmp_path: Path, start: Callable[..., Cluster]
) -> None:
    cluster = start()
    for _ in range(2):  # two that claim the same machine
        cluster.worker("--no-nanny", "--resources", "machine=1")
    with left_as_it_was():
        results = go(tmp_path, EMULATED, on=cluster.on).results
    assert results.verified, [run.error for run in results.runs]
    assert all(run.predicted_ns for run in results.runs)
    assert all(run.fidelity.lateness_ns for run in results.runs)
    assert [run.scenario["size_bytes"] for run in results.runs] == [16384, 32768]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_dasks_tls_is_passed_through(tmp_path: Path, start: Callable[..., Cluster]) -> None:
    pem = tmp_path / "both.pem"
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text(key.read_text() + certificate.read_text())
    tls = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
           "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(certificate)}  # fmt: skip
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{who}__CERT"] = str(pem)
    cluster = start(**tls)
    assert "tls://" in cluster.file.read_text()
    cluster.worker("--no-nanny")
    (tmp_path / "sizes.toml").write_text(SWEEP)
    command = [*WEFT, "run", "sizes.toml", "--on", cluster.on, "--out", "out"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**ENVIRONMENT, **tls}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Run 6 points" in done.stderr
    assert "warning" not in done.stderr


def test_a_scheduler_without_tls_is_warned_of_at_each_run(
    tmp_path: Path, start: Callable[..., Cluster]
) -> None:
    cluster = start()
    cluster.worker("--no-nanny")
    (tmp_path / "sizes.toml").write_text(SWEEP)

    def said(on: str) -> str:
        command = [*WEFT, "run", "sizes.toml", "--on", on, "--out", f"out-{on[:8]}"]
        done = subprocess.run(
            command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    (line,) = [line for line in said(cluster.on).splitlines() if "warning" in line]
    assert line.startswith(f"weft: warning: --on {cluster.on}: connections to it are not encrypted")
    assert "runs code on its workers with their rights, and on this machine with yours" in line
    assert "set distributed.comm.tls in Dask's configuration" in line
    assert "warning" not in said("dask:local:1")  # which has certificates of its own


def test_ctrl_c_leaves_what_has_arrived_and_no_process(tmp_path: Path) -> None:
    with under_way(tmp_path, MANY, "dask:local:2") as (process, children):
        begun = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert time.monotonic() - begun < 20
    wait_until(
        lambda: not any(Path(f"/proc/{child}").exists() for child in children),
        "its processes to be gone",
    )
    assert "points are in" in errors and "Traceback" not in errors, errors
