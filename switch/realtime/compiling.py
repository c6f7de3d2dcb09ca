"""Machine code of programs that run in the plain form meanwhile, made in another process.

``python -m weft.switch.realtime.compiling SOURCE`` is that process: it compiles a program's source
into the cache, or says on stderr why it cannot.
"""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from weft.base.children import DIE_WITH_PARENT, how_it_ended, python_command, python_path
from weft.base.outputs import Unfinished, communicate, kill
from weft.switch.engine.codegen.loading import Pipeline, compile_source, kept_code

_ONE_AT_A_TIME = threading.Lock()
"""Held while a program is compiled. Switches that have joined a process mostly share a program: the
second one's is found in the cache."""
LOOK_S = 0.1
MOST_WHY = 2000
"""The most characters of the reason why a program cannot be compiled."""


class Compiling:
    """A thread that has one program after another compiled.

    Args:
        made: called with each program whose machine code there is, and where that is.
        failed: called with each program that cannot be compiled, and why.
    """

    def __init__(
        self, made: Callable[[Pipeline, int], None], failed: Callable[[Pipeline, str], None]
    ) -> None:
        self._made, self._failed = made, failed
        self._changed = threading.Condition()
        self._waiting: deque[Pipeline] = deque()
        """Those that are yet to be compiled; the first is being compiled."""
        self._process: subprocess.Popen[str] | None = None
        self._stopping = False
        # The kernel kills the process with the thread that started it, so it is always this one.
        self._thread = threading.Thread(target=self._run, name="compiling", daemon=True)

    def start(self) -> None:
        """Begin to compile what is wanted."""
        self._thread.start()

    def want(self, pipeline: Pipeline) -> None:
        """Have a program compiled; returns at once."""
        with self._changed:
            self._waiting.append(pipeline)
            self._changed.notify_all()

    def wait(self) -> None:
        """Return when nothing is left to be compiled."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or not self._waiting)

    def stop(self) -> None:
        """Compile nothing more: end the process that does."""
        with self._changed:
            self._stopping = True
            if self._process is not None:
                self._process.kill()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._waiting)
                if self._stopping:
                    return
                pipeline = self._waiting[0]
            address, why = self._compiled(pipeline.source_path)
            if address is not None:
                self._made(pipeline, address)
            elif not self._stopping:
                self._failed(pipeline, why or "its machine code cannot be loaded from the cache")
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()

    def _compiled(self, source: Path) -> tuple[int | None, str]:
        """Return where a source's machine code is, which is made unless it was; or why it is not,
        if there is a reason to tell."""
        while not _ONE_AT_A_TIME.acquire(timeout=LOOK_S):
            if self._stopping:
                return None, ""
        try:
            with self._changed:
                if self._stopping:
                    return None, ""
                try:
                    self._process = _started(source)
                except OSError as error:
                    return None, f"no process can be started that compiles it: {error}"
            why = _end_of(self._process)
            with self._changed:
                self._process = None
            return (None if why else kept_code(source)), why
        finally:
            _ONE_AT_A_TIME.release()


def _command(source: Path) -> list[str]:
    """Return the command that compiles a source."""
    return python_command("weft.switch.realtime.compiling", str(source))


def _started(source: Path) -> "subprocess.Popen[str]":
    """Start the process that compiles a source; Ctrl-C is its parent's to handle."""
    return subprocess.Popen(
        [*DIE_WITH_PARENT, *_command(source)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
        start_new_session=True,
    )


def _end_of(process: "subprocess.Popen[str]") -> str:
    """Wait for the end of such a process; return why it failed, or nothing."""
    try:
        _, errors = communicate(process)
    except Unfinished as limit:
        kill(process)
        return f"the process that compiles it {limit}"
    if process.returncode == 0:
        return ""
    said = errors.strip()[-MOST_WHY:]
    return said or f"the process that compiles it {how_it_ended(process.returncode)}"


def main(source: Path) -> int:
    """Compile a source into the cache; return the exit status."""
    try:
        compile_source(source)
    except Exception as error:  # numba and LLVM raise of all kinds
        print(f"{source}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
