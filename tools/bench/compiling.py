"""The machine code of ``weft bench start``: what that of a program takes where nothing of it is
kept, and where one of its actions has changed since. A process of this module makes it, of a
program's source."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from weft.base.children import python_command
from weft.switch.compiler import compile_program
from weft.switch.engine.codegen.loading import compile_source, store, write_source
from weft.topo.fabric_program import fabric_program

NEW = "machine code of fabric.p4"
CHANGED = "the same, one action changed"
_STATEMENT = '"""\n    phv['
"""The end of an action's description, and the beginning of its first statement."""


def measure(
    folder: Path, run: Callable[[list[str], Mapping[str, str]], dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Return what each takes, by ``run``, which runs a command with such an environment added."""
    _, path = write_source(compile_program(fabric_program()).bmv2_json)
    source = path.read_text("utf-8")
    changed = store(source.replace(_STATEMENT, '"""\n    phv[0] ^= 1\n    phv[', 1))
    cache = {"WEFT_CACHE": str(folder)}
    return {
        what: run(python_command("weft.tools.bench.compiling", str(each)), cache)
        for what, each in ((NEW, path), (CHANGED, changed))
    }


if __name__ == "__main__":
    compile_source(Path(sys.argv[1]))
