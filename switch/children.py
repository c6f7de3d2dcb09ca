"""How Python processes of a run are started: from these packages, whatever folder one is in."""

from __future__ import annotations

import os
import sys

from switch.cache import CHECKOUT

_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that does what ``python -m module arguments`` does, but for one thing.

    ``python -m`` looks for every module in the current folder first, so that a ``random.py`` of
    the user's would take the library's place; only Python 3.11 and later can be told not to.
    """
    return [sys.executable, "-c", _START, module, *arguments]


def python_path(known: str | None) -> str:
    """PYTHONPATH for such a process: these packages, then ``known``, but not the current folder."""
    paths = [str(CHECKOUT), *(known or "").split(os.pathsep)]
    return os.pathsep.join(filter(None, paths))
