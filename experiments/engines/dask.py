"""Dask: its cluster on this machine, a scheduler that runs already, or clusters that it starts."""

import importlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError, MachineError, refuse
from weft.experiments.engines.engine import (
    Engine,
    Need,
    Workers,
    check_port,
    check_versions,
    warn_unless,
)
from weft.experiments.engines.local import ONE_THREAD, fitting, restored, serving
from weft.experiments.runs.identity import version

if TYPE_CHECKING:
    from distributed import Client

JOB_QUEUES = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster",
    "oar": "OARCluster", "htcondor": "HTCondorCluster", "moab": "MoabCluster",
}  # fmt: skip
"""The classes of dask-jobqueue by the names that `--on` has for them."""
MACHINE = "machine"
"""The resource of a worker that has a whole machine for emulated points."""
ANSWER_S = 10.0
"""How long a scheduler may take to answer, and then to have a worker."""
_STARTED = {
    "distributed.worker.profile.enabled": False,  # nobody sees it, and it takes the workers' time
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}
"""Dask's configuration of clusters that are started here. By default its workers give memory back
to the kernel at every turn, and simulating takes a third longer."""
_WHERE = re.compile(
    r"(?P<local>:local(?::(?P<count>[1-9][0-9]{0,3}))?)"
    r"|://(?P<address>[^/,\s]+:[0-9]+)"
    r"|\+ssh://(?P<hosts>[^/,\s]+(?:,[^/,\s]+)*)"
    rf"|\+(?P<queue>{'|'.join(JOB_QUEUES)}):(?P<jobs>[1-9][0-9]{{0,4}})"
)


class Dask(Engine):
    """An engine that runs points on the workers of a scheduler of Dask, with Dask's own
    security."""

    name = "dask"
    forms = ("dask:local[:N]", "dask://HOST:PORT", "dask+ssh://HOST,...", "dask+slurm:JOBS")

    def check(self, where: str) -> None:
        found = _WHERE.fullmatch(where)
        if found is None:
            raise InputError(f"--on dask{where}: say one of {', '.join(self.forms)}")
        if found and found["address"]:
            check_port(f"dask{where}")
        _need("distributed", f"--on dask{where}: Dask", "./weft setup --dask")
        if found and found["local"]:
            _need(
                "cryptography", f"--on dask{where}: cryptography, by which it is nobody else's,",
                "./weft setup --dask",
            )  # fmt: skip
        if found and found["hosts"]:
            _need("asyncssh", f"--on dask{where}: asyncssh, which Dask uses for this,")
        if found and found["queue"]:
            _need("dask_jobqueue", f"--on dask{where}: dask-jobqueue")

    def is_here(self, where: str) -> bool:
        return where.startswith(":local")

    @contextmanager
    def open(self, where: str, need: Need) -> Iterator[Workers]:
        found = _WHERE.fullmatch(where)
        assert found is not None
        with ExitStack() as stack:
            stack.enter_context(_quiet("distributed"))
            if found["local"]:
                count = min(int(found["count"] or fitting(need)), max(1, need.points))
                address: Any = stack.enter_context(_local(count))
            elif found["hosts"]:
                count, address = 1, stack.enter_context(_by_ssh(found["hosts"].split(",")))
            elif found["queue"]:
                stack.enter_context(_folder())
                count, address = 1, stack.enter_context(_jobs(found["queue"], int(found["jobs"])))
            else:
                count, address = 1, _address(found["address"])
            client = stack.enter_context(_client(f"dask{where}", address))
            _wait_for(client, f"dask{where}", count, patient=bool(found["queue"]))
            warn_unless(
                str(client.scheduler.address if client.scheduler else "").startswith("tls://"),
                f"dask{where}", "set distributed.comm.tls in Dask's configuration",
            )  # fmt: skip
            _check_workers(client)
            machines = None
            if not found["local"]:
                machines = client.get_executor(pure=False, resources={MACHINE: 1})
                if need.machines:
                    _check_machines(client)
            yield Workers(
                client.get_executor(pure=False),
                lambda: len(client.nthreads()),
                machines,
                lambda: len(_machines(client)),
                lambda: _gone(client),
            )


def _need(module: str, what: str, how: str = "") -> None:
    """Raise MachineError if a module is not installed."""
    package = {"distributed": "'weft[dask]'", "dask_jobqueue": "dask-jobqueue"}.get(module, module)
    refuse(
        importlib.util.find_spec(module) is None,
        f"{what} is not installed: {how and how + ' installs it, or '}pip install {package}",
        MachineError,
    )


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Let these logs say only what ends a process: what a sweep must know comes as errors."""
    importlib.import_module("distributed")  # which sets its log up
    logs = [logging.getLogger(name) for name in names]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


@contextmanager
def _local(count: int) -> Iterator[Any]:
    """Start a cluster that listens on loopback alone, without a web page, and whose workers are
    forked from the server that has loaded the code.

    All in it speak TLS with a certificate that is made for it and asked of whoever connects: what a
    scheduler is sent it runs, and any user of this machine can connect. Its key stays in the memory
    of these processes. That is so at every port: Dask's `LocalCluster` would also open web servers,
    which speak to anybody.
    """
    import dask
    from distributed import SpecCluster
    from distributed.security import Security

    from weft.experiments.engines.dask_nodes import QuietNanny, QuietScheduler

    forked = {"distributed.worker.multiprocessing-method": "forkserver"}
    security = Security.temporary()
    node = {"host": "127.0.0.1", "protocol": "tls://", "security": security}
    nanny = {
        "cls": QuietNanny,
        "options": {**node, "nthreads": 1, "memory_limit": 0, "env": ONE_THREAD,
                    "silence_logs": logging.CRITICAL},
    }  # fmt: skip
    # Dask sets variables of its own.
    with _folder(), dask.config.set({**_STARTED, **forked}), restored():
        with serving("weft.experiments.engines.dask_nodes"):
            cluster = SpecCluster(
                workers=dict.fromkeys(range(count), nanny),
                scheduler={"cls": QuietScheduler, "options": {**node, "port": 0}},
                security=security, silence_logs=logging.CRITICAL,
            )  # fmt: skip
        with cluster:
            yield cluster


@contextmanager
def _folder() -> Iterator[None]:
    """Let the scheduler and the workers that are started here within the block have a new folder
    for their files.

    By default it is /tmp/dask-scratch-space, whoever made it; they import modules from there before
    all others, open files in it by names that could be links, and leave it behind.
    """
    import dask

    with TemporaryDirectory(prefix="weft-dask-", ignore_cleanup_errors=True) as folder:
        try:
            with dask.config.set({"temporary-directory": folder}):
                yield
        finally:
            sys.path[:] = [each for each in sys.path if not each.startswith(folder)]


@contextmanager
def _by_ssh(hosts: list[str]) -> Iterator[Any]:
    """Start a scheduler on the first of the hosts, and on each a worker for every core."""
    import dask
    from distributed import SSHCluster

    try:
        workers = [host for host in hosts for _ in range(_cores(host))]
        with dask.config.set(_STARTED):  # they take it over
            cluster = SSHCluster(
                [hosts[0], *workers],
                worker_options={"nthreads": 1, "memory_limit": 0, "resources": {MACHINE: 1}},
                scheduler_options={"dashboard": False},
            )
    except Exception as error:  # asyncssh and Dask raise what they like
        raise MachineError(
            f"--on dask+ssh://{','.join(hosts)}: {type(error).__name__}: {error}; can you log in "
            "there by ssh without a password, and is Weft with Dask at the same path as here?"
        ) from None
    with cluster:
        yield cluster


def _cores(host: str) -> int:
    """Return how many cores a host has that is reached by ssh."""
    import asyncio

    import asyncssh

    async def asked() -> str:
        async with asyncssh.connect(host) as connection:
            return str((await connection.run("nproc", check=True)).stdout)

    return int(asyncio.run(asked()))


@contextmanager
def _jobs(queue: str, jobs: int) -> Iterator[Any]:
    """Start a scheduler here, and workers as jobs of a batch system, as Dask's configuration
    (``jobqueue.slurm`` and so on) says."""
    import dask_jobqueue

    try:
        cluster = getattr(dask_jobqueue, JOB_QUEUES[queue])()
    except Exception as error:
        raise _unsubmitted(queue, jobs, error) from None
    try:
        with _quiet("tornado.application", "asyncio"):  # which tell of each try by a traceback
            cluster.scale(jobs=jobs)
            cluster.sync(_submitted, cluster)
    except BaseException as error:
        with suppress(AssertionError):  # of Dask's, when all is closed, on jobs not submitted
            cluster.close()
        if isinstance(error, Exception):
            raise _unsubmitted(queue, jobs, error) from None
        raise
    with cluster:
        yield cluster


async def _submitted(cluster: Any) -> None:
    """Wait until all jobs are submitted, and raise what the submission of one raises."""
    await cluster
    for job in cluster.workers.values():
        await job


def _unsubmitted(queue: str, jobs: int, error: Exception) -> MachineError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = f"{lines[0]} {lines[-1]}" if len(lines) > 1 else str(error)
    return MachineError(
        f"--on dask+{queue}:{jobs}: {type(error).__name__}: {said}; Dask's configuration says what "
        f"a job is (jobqueue.{queue}: cores, memory, processes, interface)"
    )


def _address(address: str) -> str:
    """Return the address of a scheduler as Dask writes it: by TLS if Dask is configured so."""
    from distributed.security import Security

    return f"{'tls' if Security().tls_client_cert else 'tcp'}://{address}"


@contextmanager
def _client(on: str, address: Any) -> Iterator["Client"]:
    from distributed import Client

    try:
        client = Client(address, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise MachineError(
            f"--on {on}: no scheduler of Dask answers there ({error or type(error).__name__}): is "
            "it running, is this its address, and does it want TLS (distributed.comm.tls)?"
        ) from None
    with client:
        yield client


def _wait_for(client: "Client", on: str, count: int, patient: bool) -> None:
    """Wait until there are workers. Raises MachineError if none come."""
    try:
        client.wait_for_workers(count, timeout=None if patient else ANSWER_S + count)
    except TimeoutError:
        raise MachineError(
            f"--on {on}: the scheduler has no workers: start some, like 'dask worker "
            f"{client.scheduler.address if client.scheduler else 'ADDRESS'} --nthreads 1'"
        ) from None


def _check_workers(client: "Client") -> None:
    """Raise MachineError for workers of another version, or with several threads."""
    threads = client.nthreads()
    for worker, count in threads.items():
        refuse(
            count > 1,
            f"worker {worker} has {count} threads, and a point takes a process: start workers with "
            "--nthreads 1, and with --nworkers as many as there are cores",
            MachineError,
        )
    told = client.run(version, on_error="return")
    check_versions(
        {
            worker: one if isinstance(one, str) else f"that cannot be asked ({one})"
            for worker, one in told.items()
        },
        version(),
    )


def _machines(client: "Client") -> Mapping[str, Any]:
    """Return the workers that offer a whole machine."""
    known = client.scheduler_info(n_workers=-1)["workers"]
    return {name: one for name, one in known.items() if one.get("resources", {}).get(MACHINE)}


def _check_machines(client: "Client") -> None:
    """Raise MachineError unless there are workers that can run emulated points."""
    machines = _machines(client)
    if not machines:
        raise MachineError(
            "no worker offers a machine, and emulated points take a whole one: start one worker on "
            f"each as root, with --nthreads 1 --resources {MACHINE}=1"
        )
    for worker, user in client.run(os.geteuid, workers=list(machines)).items():
        refuse(
            user != 0,
            f"worker {worker} offers a machine and is not root: emulated points need root there; "
            f"start it as root, or without --resources {MACHINE}=1",
            MachineError,
        )


def _gone(client: "Client") -> str:
    """Return why no result can come any more."""
    return "" if client.status in ("running", "connecting") else "its scheduler has closed"
