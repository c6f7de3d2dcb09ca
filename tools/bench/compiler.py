"""``weft bench compiler``: how long fabric.p4 takes to compile, beside p4c if there is one."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.base.children import last_words, run_tool
from weft.base.errors import RunError
from weft.switch.compiler import compile_program
from weft.tools.bench.timing import quickest_ns
from weft.topo.fabric_program import fabric_program

ATTEMPTS = 5


def measure() -> dict[str, Any]:
    """Return times in seconds, each the quickest of some attempts: of compiling in this process; of
    compiling in a process of its own; of a bare start of Python; and of p4c, None if it is not on
    the PATH."""
    source = fabric_program()
    p4c = shutil.which("p4c-bm2-ss")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "fabric.json")
        script = (
            "import sys; from weft.switch.compiler import *; compile_program(Path(sys.argv[1]))"
        )
        script = f"from pathlib import Path; {script}"
        return {
            "compile_s": _best(lambda: compile_program(source)),
            "process_s": _best(lambda: _run(sys.executable, "-c", script, str(source))),
            "python_s": _best(lambda: _run(sys.executable, "-c", "pass")),
            "p4c_s": _best(lambda: _run(p4c, "-o", out, str(source))) if p4c else None,
        }


def _run(*command: str) -> None:
    done = run_tool(command)
    if done.returncode:
        raise RunError(f"`{' '.join(command)}` failed: {last_words(done)}")


def _best(work: Callable[[], object]) -> float:
    return quickest_ns(work, ATTEMPTS) / 1e9
