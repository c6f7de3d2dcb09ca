"""Versions of what results were made with, and the machine that made them."""

import contextlib
import os
import platform
from importlib import metadata
from typing import Any


def environment() -> dict[str, Any]:
    """Return versions and the machine, for whoever reads results later."""
    packages = {}
    for package in ("weft", "numpy", "numba", "grpcio", "mininet"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[package] = metadata.version(package)
    return {
        "python": platform.python_version(),
        "packages": packages,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
    }
