"""What an emulated network needs that takes long to load: the process of its switches, and what
forks its ranks. Both may be started before the network, beside what the runner has yet to import.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from weft.agents.drivers.launcher import Launcher
from weft.base.children import python_command, python_path
from weft.base.errors import WeftError
from weft.base.signals import signals_held
from weft.topo.worlds.emulated.names import names_file
from weft.topo.worlds.emulated.processes import RunProcess, stop_all
from weft.topo.worlds.emulated.runs import RunRecord

SWITCH_MODULE = "weft.switch.realtime"
"""Runs all built-in switches of a network."""
CONFIG = "switches.json"
"""The file of their configuration in the run's folder, which they read once they are told."""


@dataclass(frozen=True)
class Loading:
    """Processes that load code, of a run whose network is to come up."""

    record: RunRecord
    algorithms: tuple[str, ...] | None
    """Those that the launcher loads; None: there is no launcher."""
    switch_module: str | None
    """What the process of the switches runs; None: there is no such process."""
    launcher: Launcher | None
    switches: RunProcess | None

    @classmethod
    def begin(
        cls,
        record: RunRecord | None,
        algorithms: tuple[str, ...] | None,
        switch_module: str | None = SWITCH_MODULE,
    ) -> "Loading":
        """Start the processes, in a PID namespace of the run, and make the run's record if there
        is none.

        Call it in the main thread, or in one that outlives the network. Raises MachineError if
        nobody may bring networks up here.
        """
        launcher = switches = None
        with signals_held(), ExitStack() as undo:
            if record is None:
                record = RunRecord.create()
                undo.callback(record.remove)
            if algorithms is not None:
                launcher = Launcher(record.folder, record.environment(), algorithms)
                undo.callback(launcher.close)
            record.enclose(names_file(record.folder))
            undo.callback(record.end_enclosed)
            if switch_module is not None:
                switches = _start(record, switch_module)
            undo.pop_all()
        return cls(record, algorithms, switch_module, launcher, switches)

    def end(self) -> None:
        """End the processes, for which no network has come up, and the run's record."""
        if self.switches is not None:
            stop_all([self.switches], signal.SIGKILL)
        if self.launcher is not None:
            self.launcher.close()
        self.record.end_enclosed()
        self.record.remove()


def _start(record: RunRecord, module: str) -> RunProcess:
    """Start the process of all built-in switches, which waits until it is told to begin."""
    return RunProcess(
        record,
        "the switch process",
        python_command(module, str(record.folder / CONFIG), "--when-told"),
        log=record.folder / "switches.log",
        environment={
            "PYTHONPATH": python_path(os.environ.get("PYTHONPATH")),
            # The first frame that touches a huge page would wait until it is cleared.
            "NUMPY_MADVISE_HUGEPAGE": "0",
            # It multiplies no matrices, and enters its namespace before it has threads.
            "OPENBLAS_NUM_THREADS": "1",
        },
    )


_early: list[Loading] = []
"""What has been started before its network, if anything."""


@contextmanager
def begun_early(algorithms: tuple[str, ...]) -> Iterator[None]:
    """Start what the next network of built-in switches, with ranks that run these algorithms, takes
    over. The block ends it if no network has. What cannot be started here is started, and
    complained about, by the network."""
    try:
        with suppress(WeftError, OSError), signals_held():  # until it is known what there is to end
            _early.append(Loading.begin(None, algorithms))
        yield
    finally:
        with signals_held():
            while _early:
                _early.pop().end()


def taken_over(
    record: RunRecord | None, algorithms: tuple[str, ...] | None, switch_module: str | None
) -> Loading:
    """Return what has been started early, if it is what a network needs, and otherwise start
    that; see `Loading.begin`."""
    with signals_held():
        if record is None and _early:
            early = _early[-1]
            if (early.algorithms, early.switch_module) == (algorithms, switch_module):
                return _early.pop()
        return Loading.begin(record, algorithms, switch_module)
