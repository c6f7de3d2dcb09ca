"""A function in a process of its own, whose main thread is its: what is emulated needs that, and an
engine's workers have other threads."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any

from weft.base import signals
from weft.base.children import how_it_ended, python_command, python_path
from weft.base.errors import RunError

END_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")
"""The prefix of a command that is to clean up and end when its parent dies."""
LAST_BYTES = 1 << 16
"""What is read of what the process said."""
_MODULE = "weft.experiments.engines.child"


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a process of its own, or raise what it raises.

    Raises:
        RunError: the process ended without a word.
    """
    environment = {**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))}
    with TemporaryFile() as errors:  # which may be any amount
        with subprocess.Popen(
            [*END_WITH_PARENT, *python_command(_MODULE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment,
        ) as process:  # fmt: skip
            try:
                answer, _ = process.communicate(pickle.dumps((function, arguments)))
            except BaseException:
                process.terminate()
                raise
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST_BYTES))
        complaint = errors.read()
    if not answer:
        lines = complaint.decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        raise RunError(f"the process of the point {how_it_ended(process.returncode)}{last}")
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result


def serve() -> None:
    """Do what standard input asks for, and write to standard output what came of it."""
    signals.end_on_signals()
    answer = os.dup(1)
    os.dup2(2, 1)  # what anybody prints is no answer
    function, arguments = pickle.loads(sys.stdin.buffer.read())
    result, raised = None, None
    try:
        result = function(*arguments)
    except Exception as error:
        raised = error
    with os.fdopen(answer, "wb") as file:
        file.write(pickle.dumps((result, raised)))
    signals.leave()


if __name__ == "__main__":
    serve()
