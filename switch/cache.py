"""Where compiled programs and generated code are kept between runs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from switch.errors import MachineError

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder that holds the packages: a checkout's root, or site-packages."""


def cache_dir() -> Path:
    """The cache folder of this user, created if need be.

    ``$WEFT_CACHE`` if set; else the first of these that can be made: a folder in the checkout's own
    ``.cache``, when running from a checkout; ``~/.cache/weft``; a folder for temporary files. It is
    the user's own, since code is loaded from it, and root must not leave files in a user's way.
    Everything in it can be deleted at any time. Raises MachineError if none can be made.
    """
    named = os.environ.get("WEFT_CACHE")
    if named:
        return _made(Path(named))
    candidates = [Path(tempfile.gettempdir()) / f"weft-cache-{os.getuid()}"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        candidates.insert(0, Path.home() / ".cache" / "weft")
    if (CHECKOUT / "pyproject.toml").is_file():
        candidates.insert(0, CHECKOUT / ".cache" / str(os.getuid()))
    for candidate in candidates[:-1]:
        with contextlib.suppress(MachineError):
            return _made(candidate)
    return _made(candidates[-1])


def _made(path: Path) -> Path:
    why = "it belongs to somebody else"
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        if path.stat().st_uid == os.getuid() and os.access(path, os.W_OK):
            return path
    except OSError as error:
        why = error.strerror or str(error)
    raise MachineError(f"cache folder {path} cannot be used: {why}; name another with WEFT_CACHE")
