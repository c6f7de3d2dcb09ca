"""``weft p4c --watch``: do something anew whenever a file of a program has changed."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from weft.base.errors import InputError
from weft.switch.compiler.parse.preprocess import P4_ENDINGS, preprocess

INTERVAL_S = 0.3


def files_of(
    program: Path, include_dirs: Sequence[Path], defines: Mapping[str, str | None] | None
) -> set[str]:
    """Return the files that a program is made of, those that were looked for included, and the P4
    files beside it and in the folders for includes."""
    found = {str(program)}
    for folder in (program.parent, *include_dirs):
        try:
            found |= {str(folder / name) for name in os.listdir(folder)}
        except OSError:
            continue
    found = {name for name in found if name.endswith(P4_ENDINGS)} | {str(program)}
    try:
        return found | set(preprocess(program, include_dirs, defines).files)
    except InputError:
        return found


def states(files: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Return what tells of each file whether it has been written since."""
    result: dict[str, tuple[int, int] | None] = {}
    for name in files:
        try:
            found = os.stat(name)
            result[name] = found.st_mtime_ns, found.st_size
        except OSError:
            result[name] = None
    return result


def watch(
    act: Callable[[], None],
    files: Callable[[], set[str]],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Do something, then again after each change of a file, until `wait` raises
    KeyboardInterrupt."""
    try:
        while True:
            before = states(files())
            act()
            print("weft: waiting for a change (Ctrl-C ends)", file=sys.stderr, flush=True)
            while states(files()) == before:
                wait(INTERVAL_S)
    except KeyboardInterrupt:
        return
