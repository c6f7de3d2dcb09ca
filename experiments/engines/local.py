"""Processes of this machine, by the standard library's `ProcessPoolExecutor`."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from types import ModuleType
from typing import Any, TypeVar

from weft.base.children import how_it_ended
from weft.base.errors import InputError, MachineError, RunError
from weft.base.files import check_working_folder
from weft.base.signals import signals_held
from weft.experiments.engines.engine import Engine, Need, Workers
from weft.experiments.runs.capacity import available_bytes

T = TypeVar("T")

DEATH_S = 1.0
"""How long a server whose connections have ended may take to end itself."""
WORKER_BYTES = 400 << 20
"""The memory that a worker takes besides what its point does: code, and what is compiled."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The environment of workers: a core for each, and no threads that take turns on it."""


class Processes(Executor):
    """Processes that run functions, each of which is a pool of one.

    So a process that dies takes nothing with it but what it was running, and is known to be to
    blame for it; another takes its place. They are forked from the server (`serving`), and never
    get a Ctrl-C: that is for this process to handle.
    """

    def __init__(self, count: int) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._threads = ThreadPoolExecutor(count, "weft-worker")
        self._idle: queue.SimpleQueue[ProcessPoolExecutor | None] = queue.SimpleQueue()
        """The processes that are free; None: one that has to be started."""
        self._pools: set[ProcessPoolExecutor] = set()
        self._lock = threading.Lock()
        self._ended = False
        try:
            with serving():
                _wait_for_server(self._context)
                for _ in range(count):
                    with signals_held():  # so that `shutdown` knows all that was begun
                        self._idle.put(self._new())
        except BaseException:
            self.shutdown()
            raise

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in the next process that is free."""
        return self._threads.submit(self._run, function, args, kwargs)

    def _run(self, function: Callable[..., T], args: Any, kwargs: Any) -> T:
        pool = self._idle.get()
        try:
            try:
                pool = pool or self._started()
                future = pool.submit(function, *args, **kwargs)
            except (OSError, EOFError, RuntimeError, RunError) as error:
                raise BrokenExecutor(f"no process can be started: {error!r}") from None
            return future.result()
        except BrokenExecutor:
            if pool is not None:
                pool.shutdown(wait=False)
                with self._lock:
                    self._pools.discard(pool)
                pool = None
            raise
        finally:
            self._idle.put(pool)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock, serving():
            if self._ended:
                raise BrokenExecutor("all processes were ended")
            return self._new()

    def _new(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(1, self._context, _begin)
        self._pools.add(pool)
        pool.submit(os.getpid)  # which starts the process
        return pool

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._ended = True
            pools = [*self._pools]
        for pool in pools:
            for process in [*(pool._processes or {}).values()]:
                with suppress(ProcessLookupError):
                    process.kill()
            pool.shutdown(wait=True, cancel_futures=True)
        self._threads.shutdown(wait=True)


class Local(Engine):
    """An engine that runs points on the cores of this machine. Emulated ones are run by the
    caller."""

    name = "local"
    forms = ("local", "local:N")

    def check(self, where: str) -> None:
        _asked(where)

    def is_here(self, where: str) -> bool:
        return True

    def is_worth(self, where: str, need: Need) -> bool:
        return self.count(where, need) > 1

    @contextmanager
    def open(self, where: str, need: Need) -> Iterator[Workers]:
        count = self.count(where, need)
        check_working_folder()
        try:
            processes = Processes(count)
        except (ImportError, OSError) as error:
            raise MachineError(
                f"--on local{where}: no processes can be started ({error}); they need POSIX "
                "semaphores, so see whether /dev/shm is missing or full, or files may not grow to "
                "32 bytes (ulimit -f); or run points in this process: --on local:1"
            ) from None
        try:
            yield Workers(processes, lambda: count)
        finally:
            processes.shutdown()

    @staticmethod
    def count(where: str, need: Need) -> int:
        """Return how many processes there are: as many as are asked for, or as fit on the cores and
        into the memory, but no more than points."""
        count = _asked(where) or (fitting(need) if _has_semaphores() else 1)
        return min(count, max(1, need.points))


def _has_semaphores() -> bool:
    """Return whether the system makes semaphores, by which processes share a queue."""
    try:
        multiprocessing.get_context("fork").Semaphore()
    except (ImportError, OSError):
        return False
    return True


def fitting(need: Need) -> int:
    """Return how many workers fit on this machine's cores and into the memory that is free."""
    free = available_bytes()
    cores = len(os.sched_getaffinity(0))
    if free is None:
        return cores
    return max(1, min(cores, free // (WORKER_BYTES + need.memory_bytes)))


def _asked(where: str) -> int | None:
    """Return how many processes are asked for; None if as many as fit. Raises InputError."""
    if not where:
        return None
    count = where.removeprefix(":")
    digits = count.isascii() and count.isdecimal()
    if not (where.startswith(":") and digits and 1 <= int(count) <= 1024):
        raise InputError(
            f"--on local{where}: write local, or local:N for 1 to 1024 processes, like local:8"
        )
    return int(count)


def _wait_for_server(context: ForkServerContext) -> None:
    """Return when the server that processes are forked from has loaded what they need."""
    process = context.Process(target=os.getpid)
    process.start()
    process.join()


def _begin() -> None:
    """Make a process ready to work: it ends when whoever started it does, even if that is
    killed."""
    threading.Thread(target=_end_with_parent, name="weft-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def restored() -> Iterator[None]:
    """Let the environment be, after the block, what it was before."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def serving(*modules: str) -> Iterator[None]:
    """Within the block, processes can be forked from `multiprocessing`'s server that has loaded
    what a worker needs (`weft.experiments.engines.warm`), so that they need not, and share it; and
    these modules, if it has not been started before. They are `apart`.

    Raises RunError if something in the block failed because the server has ended."""
    with restored(), apart():
        os.environ.update(ONE_THREAD)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["weft.experiments.engines.warm", *modules])
        forkserver.ensure_running()
        pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        try:
            yield
        except Exception as error:
            how = _how_the_server_ended(pid)
            if not how:
                raise
            raise RunError(
                f"the server that workers are forked from (pid {pid}) {how} while they were "
                "started; run the same command again, with --resume if the sweep had begun before"
            ) from error


def _how_the_server_ended(pid: int) -> str:
    """Return in words how the server ended, which `multiprocessing` still has to wait for; nothing
    if it has not."""
    end = time.monotonic() + DEATH_S
    while time.monotonic() < end:
        try:
            told = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return "ended"
        if told is not None:
            was_killed = told.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            return how_it_ended(-told.si_status if was_killed else told.si_status)
        time.sleep(0.01)
    return ""


@contextmanager
def apart() -> Iterator[None]:
    """Start processes and threads within the block that never get a Ctrl-C or a hang-up of the
    terminal, which are blocked in them for good, as whoever started them handles these and they end
    with it; and processes that do not import the main module, of which they need nothing: it may
    be a script that would begin anew."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    main = sys.modules["__main__"]
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
        sys.modules["__main__"] = ModuleType("__main__")
        # It ignores a Ctrl-C, though not a hang-up, and its start lets a Ctrl-C through again.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
