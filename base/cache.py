"""The folder in which compiled programs and generated code are kept between runs.

What is in it is found by its content, so that all checkouts and installed packages of a user share
it; each file can be made anew. Once it has grown beyond a bound, what was not used for longest
goes.
"""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from weft.base.errors import MachineError
from weft.base.files import remove, remove_empty_folder, write_whole
from weft.base.units import format_size

PACKAGE = Path(__file__).parent.parent
"""The folder of the package ``weft``: in a checkout ``src/weft``, whose folders are links."""
CHECKOUT = Path(__file__).resolve().parent.parent
"""A checkout's root; where pip installed Weft, the same as `PACKAGE`."""

BOUND_BYTES = 1 << 30
"""What files in the cache folder may take of the disk, unless somebody is at work on more."""

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_AT_WORK_S = 3600.0
"""What was used so recently may be about to be read, and is not removed without being asked to."""
_LOOKED_AT = ".bounded"
"""The file whose time says when the folder's size was last looked at."""
_ENVIRONMENTS = "shell-*"
"""Folders that are not kept within the bound: virtual environments, which others may be running
in."""


def cache_dir() -> Path:
    """Return the cache folder of this user, which is created if need be.

    It is ``$WEFT_CACHE`` if that is set; else the first of these that can be used:
    ``~/.cache/weft``, where this home is the user's own; a folder in the checkout's own ``.cache``,
    when running from a checkout; a folder for temporary files. It is the user's own, since code is
    loaded from it, and root must not leave files in a user's way: a folder that is a symbolic link,
    that belongs to somebody else, or that others may write to or put another in the place of, is
    not used. Everything in it can be deleted at any time.

    Raises MachineError if none can be used.
    """
    if named := os.environ.get("WEFT_CACHE"):
        return _made(Path(named).absolute())
    candidates = [Path(tempfile.gettempdir()) / f"weft-cache-{os.getuid()}"]
    if (CHECKOUT / "pyproject.toml").is_file():
        candidates.insert(0, CHECKOUT / ".cache" / str(os.getuid()))
    with contextlib.suppress(RuntimeError, OSError):  # a user without a home
        if Path.home().stat().st_uid == os.getuid():
            candidates.insert(0, Path.home() / ".cache" / "weft")
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


class Kept(NamedTuple):
    """A file in the cache folder."""

    used: float
    """When it was last used, in seconds by the clock of the file system."""
    size_bytes: int
    """What it takes of the disk."""
    path: Path


def kept() -> list[Kept]:
    """Return the files in the cache folder, that which was not used for longest first."""
    return sorted(_files(cache_dir(), _ENVIRONMENTS))


def _files(folder: Path, but: str = "") -> Iterator[Kept]:
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # somebody else removes it, too
            path, state = Path(entry.path), entry.stat(follow_symlinks=False)
            if not entry.is_dir(follow_symlinks=False):
                used = max(state.st_atime, state.st_mtime)
                yield Kept(used, 512 * state.st_blocks, path)
            elif not (but and path.match(but)):
                yield from _files(path)


def size_of(files: Sequence[Kept]) -> str:
    """Return what files take together, for people."""
    return format_size(sum(one.size_bytes for one in files))


def mark_used(*paths: Path) -> None:
    """Note that files of the cache folder are used: not every file system notes it."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.utime(path)


def bound(most_bytes: int, spare_s: float = 0) -> list[Kept]:
    """Remove what was not used for longest from the cache folder, until at most so many bytes are
    left; return what was removed.

    What was used within ``spare_s`` seconds before whatever was used last stays. Removed is what
    has a name: who has a file open reads it to its end.
    """
    found = kept()
    now = found[-1].used if found else 0
    excess = sum(one.size_bytes for one in found) - most_bytes
    removed = []
    for one in found:
        is_draft = one.path.name.endswith(".new")  # what somebody may be writing
        if excess <= 0 or now - one.used < (_AT_WORK_S if is_draft else spare_s):
            continue
        remove(one.path)
        removed.append(one)
        excess -= one.size_bytes
    for folder in {one.path.parent for one in removed} - {cache_dir()}:
        remove_empty_folder(folder)
    return removed


def keep_bounded(written: Path) -> None:
    """Remove what is too much, now that a file was written, but nothing that was used within an
    hour. The size is looked at once an hour."""
    with contextlib.suppress(OSError, MachineError):
        note = cache_dir() / _LOOKED_AT
        if not note.exists() or written.stat().st_mtime - note.stat().st_mtime > _AT_WORK_S:
            write_whole(note, "", keep=True)
            bound(BOUND_BYTES, spare_s=_AT_WORK_S)
