"""Files that their owner alone may read and write, whatever the umask, and doubts about others'.

What root believes (a record of processes to kill, an address to connect to) must be nobody else's
to write, and what lets whoever reaches it act as root (a socket) nobody else's to open.
"""

import os
import stat
from pathlib import Path
from typing import IO, Any

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file for writing; if it is made, its owner alone may read and write it.

    A symbolic link in its place is not followed, and raises OSError.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)

    return open(path, mode, encoding=None if "b" in mode else "utf-8", opener=opener)


def keep_private(path: str | Path) -> None:
    """Allow the owner alone to connect to a socket that has been made."""
    os.chmod(path, FILE_MODE)


def doubt(status: os.stat_result) -> str:
    """Return why somebody other than root and this user may have written something; empty if nobody
    can.

    For root, that is anything that is not root's.
    """
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"others may write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""
