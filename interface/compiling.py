"""Machine code of programs that simulated networks run in the plain form meanwhile.

All networks of a process have one thread that has programs compiled, and it outlives them: a short
test is over before that, and the next one finds the machine code in the cache.
"""

import os
import threading
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.realtime.compiling import Compiling

Told = tuple[Pipeline | None, int | str]
"""A program and the address of its machine code; or what is wrong with one."""


class MachineCode:
    """The machine code that one network waits for."""

    def __init__(self) -> None:
        self._told: SimpleQueue[Told] = SimpleQueue()

    def want(self, program: Pipeline) -> None:
        """Have a program compiled; returns at once."""
        told = self._told  # without the program itself, which would hold itself by it
        program.on_failure = lambda error: told.put((None, f"fails: {error!r}"))
        _shared(os.getpid()).want(program, told)

    def wait(self) -> None:
        """Return when all programs of the process have been compiled."""
        _shared(os.getpid()).compiling.wait()

    def told(self) -> list[Told]:
        """Return what has become of programs since this was last called."""
        return [self._told.get() for _ in range(self._told.qsize())]


class _Shared:
    """What all networks of a process have compiled: each program once."""

    def __init__(self) -> None:
        self.compiling = Compiling(
            self._tell, lambda program, why: self._tell(program, f"cannot be compiled: {why}")
        )
        self.compiling.start()
        self._lock = threading.Lock()
        self._waiting: dict[Path, list[tuple[Pipeline, SimpleQueue[Told]]]] = {}

    def want(self, program: Pipeline, told: "SimpleQueue[Told]") -> None:
        with self._lock:
            waiting = self._waiting.setdefault(program.source_path, [])
            waiting.append((program, told))
            if len(waiting) == 1:
                self.compiling.want(program)

    def _tell(self, compiled: Pipeline, result: int | str) -> None:
        with self._lock:
            waiting = self._waiting.pop(compiled.source_path)
        for program, told in waiting:
            told.put((program, result))


@cache
def _shared(process: int) -> _Shared:
    """Return what a process has; one that was forked has a thread of its own."""
    return _Shared()
