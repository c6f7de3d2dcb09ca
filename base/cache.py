"""The folder in which compiled programs and generated code are kept between runs."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from weft.base.errors import MachineError

PACKAGE = Path(__file__).parent.parent
"""The folder of the package ``weft``: in a checkout ``src/weft``, whose folders are links."""
CHECKOUT = Path(__file__).resolve().parent.parent
"""A checkout's root; where pip installed Weft, the same as `PACKAGE`."""

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_dir() -> Path:
    """Return the cache folder of this user, which is created if need be.

    It is ``$WEFT_CACHE`` if that is set; else the first of these that can be used: a folder in the
    checkout's own ``.cache``, when running from a checkout; ``~/.cache/weft``; a folder for
    temporary files. It is the user's own, since code is loaded from it, and root must not leave
    files in a user's way: a folder that is a symbolic link, that belongs to somebody else, or that
    others may write to or put another in the place of, is not used. Everything in it can be deleted
    at any time.

    Raises MachineError if none can be used.
    """
    if named := os.environ.get("WEFT_CACHE"):
        return _made(Path(named).absolute())
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
    try:
        for folder in reversed(path.parents):  # whatever the umask is, others may not write to it
            if not folder.is_dir():
                folder.mkdir(mode=0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        why = _distrust(path)
        if not why:
            # What is in it has whatever mode its writer gave it, so nobody else gets that far.
            os.chmod(path, 0o700)
            if os.access(path, os.W_OK | os.X_OK):
                return path
            why = os.strerror(errno.EACCES)
    except OSError as error:
        why = error.strerror or str(error)
    raise MachineError(f"cache folder {path} cannot be used: {why}; name another with WEFT_CACHE")


def _distrust(path: Path) -> str:
    """Return why code from a folder may be somebody else's; empty if it cannot be."""
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        return "it is a symbolic link, and code is run from it"
    if not stat.S_ISDIR(state.st_mode):
        return "it is not a folder"
    if state.st_uid != os.getuid():
        return f"it belongs to somebody else (user {state.st_uid})"
    if state.st_mode & _OTHERS_MAY_WRITE:
        mode = f"{stat.S_IMODE(state.st_mode):o}"
        return f"others may have written to it (its mode is {mode}), and code is run from it"
    # Whoever may write to a folder above it, or has a link there, can put another in its place.
    trusted = {0, os.getuid(), CHECKOUT.stat().st_uid}  # code of the checkout's owner runs anyway
    for parent in dict.fromkeys([*path.parents, *path.resolve().parents]):
        above = parent.lstat()
        if above.st_uid not in trusted:
            return f"{parent} above it belongs to somebody else (user {above.st_uid})"
        if stat.S_ISLNK(above.st_mode) or above.st_mode & stat.S_ISVTX:
            continue
        if above.st_mode & stat.S_IWOTH:
            return f"everybody may write to {parent} above it"
        # One's own group holds nobody else, where users have groups of their own.
        if above.st_mode & stat.S_IWGRP and above.st_gid not in (0, os.getgid()):
            return f"group {above.st_gid} may write to {parent} above it"
    return ""
