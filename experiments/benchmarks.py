"""The benchmarks of ``weft bench``, and the files that their figures are written to."""

from __future__ import annotations

import difflib
import importlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from switch.errors import InputError

NAMES = ("bring-up", "compiler", "progress-engine", "reduction", "simulator", "switch", "transport")
"""Each is a module ``experiments.bench_NAME`` with ``measure``, ``lines`` and, maybe, ``plot``."""


def load(name: str) -> ModuleType:
    """The module of a benchmark. Raises `InputError` for a name that is none."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError(f"no benchmark {name!r}{hint}: choose from {', '.join(NAMES)}")
    return importlib.import_module(f"experiments.bench_{name.replace('-', '_')}")


def check_writable(folder: Path) -> None:
    """Raise InputError, before minutes of measuring, for a folder that cannot be made or filled;
    leave nothing behind."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"--out {str(folder)!r} cannot be written: name another folder")


def write(module: ModuleType, name: str, figures: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``NAME.json`` and, where the module plots, ``NAME.svg`` and ``NAME.png``.

    Returns the files. Raises `InputError` where they cannot be written.
    """
    files = [folder / f"{name}.json"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files[0].write_text(json.dumps(figures, indent=1) + "\n")
        if hasattr(module, "plot"):
            for ending in ("svg", "png"):
                files.append(folder / f"{name}.{ending}")
                module.plot(figures, files[-1])
    except OSError as error:
        raise InputError(
            f"--out {str(folder)!r} cannot be written: {error.strerror}; name another folder"
        ) from None
    return files
