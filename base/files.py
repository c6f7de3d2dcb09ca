"""Files that others may have a hand in: written whole, no link followed, read up to a bound.

Weft runs as root, often by sudo, and writes into folders that belong to others. So a file is
written under a name of its own and then takes the place of what was there, link or not; a folder is
reached step by step, and a symbolic link on the way is followed only where whoever made it may lead
one. Under sudo what is made here belongs, from its first moment, to whoever called sudo; what Weft
keeps for itself does not.

All functions but `told_as_input` raise `OSError`, whose ``strerror`` says what is wrong as part of
a sentence.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.base.errors import InputError

MOST_LINKS = 40
"""The most symbolic links that are followed on the way to a folder, as in the kernel."""

NO_WORKING_FOLDER = (
    "the folder that this was called in has been deleted: no process can be started in it, and a "
    "relative path means nothing there; go to another (cd)"
)

_LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_STEP_BYTES = 1 << 20
_OPENED = re.compile(r"(?:/dev/fd|/proc/self/fd)/([0-9]{1,6})|/dev/(stdout|stderr)")
"""What the process has open, by the names that the kernel has for it."""


def working_folder() -> str:
    """Return the folder that relative paths begin in; empty if somebody has deleted it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def check_working_folder() -> None:
    """Raise InputError if somebody has deleted the folder that processes would be started in."""
    if not working_folder():
        raise InputError(NO_WORKING_FOLDER)


@contextlib.contextmanager
def some_folder() -> Iterator[None]:
    """Be in a folder within the block: for libraries that ask which, whether it matters or not. It
    is another one than before only if somebody has deleted that."""
    if working_folder():
        yield
        return
    gone = os.open(".", _LOOK)
    os.chdir("/")
    try:
        yield
    finally:
        os.fchdir(gone)
        os.close(gone)


def write_whole(
    path: Path, content: bytes | str, *, folders: bool = False, keep: bool = False
) -> None:
    """Write a file whole or not at all.

    What was there before stays as it was until the new file takes its place; a symbolic link is
    replaced and not followed. A device, a pipe, or what is open already (``/dev/stdout``) is
    written to.

    Args:
        folders: make its folder, and those above it, if they are not there.
        keep: under sudo, too, it belongs to the user that this process runs as.
    """
    data = content.encode() if isinstance(content, str) else content
    stream = _open_stream(path)
    if stream is None:
        with _made_file(path, folders, keep) as descriptor:
            write_all(descriptor, data)
        return
    try:
        write_all(stream, data)
    finally:
        os.close(stream)


def create(path: Path) -> int:
    """Make a file anew, in place of what was there, and return its descriptor.

    It is for files that grow while others read them. A symbolic link is replaced and not followed.
    """
    if (stream := _open_stream(path)) is not None:
        return stream
    with _made_file(path, folders=False, keep=False) as descriptor:
        return os.dup(descriptor)


def make_folder(path: Path) -> list[Path]:
    """Make a folder and those above it if they do not exist, and return those that were made.

    The folder itself may not be a symbolic link, whoever made it.
    """
    made: list[Path] = []
    os.close(_open_folder(path, made, own=True))
    return made


def remove(path: Path) -> None:
    """Delete a file, or a symbolic link itself; do nothing if there is none, or if it is a
    folder."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError), _folder_of(path) as folder:
        state = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(state.st_mode):
            os.unlink(path.name, dir_fd=folder)


def remove_empty_folder(path: Path) -> None:
    """Delete a folder if it is empty; do nothing otherwise."""
    with contextlib.suppress(OSError), _folder_of(path) as folder:
        os.rmdir(path.name, dir_fd=folder)


def names_in(path: Path) -> list[str]:
    """Return the names in a folder that is no symbolic link; none if there is no such folder."""
    try:
        look = _open_folder(path, None, own=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=look)
    finally:
        os.close(look)
    try:
        return sorted(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def read_bounded(
    path: Path, most_bytes: int, *, endings: Sequence[str] | None, start: bool = False
) -> bytes:
    """Return the content of a regular file of at most so many bytes.

    Devices, pipes and sockets, which may never end, are refused; so is a file that is larger, or
    that grows beyond the bound while it is read.

    Messages show what is wrong in a file, and others may have named the file, by a document or by a
    link. So what its own name does not show to be such a file is read only if everybody may read
    it, or if it belongs to the user, unless that is root.

    Args:
        endings: what names of such files end in; None: no message ever shows anything of it.
        start: of a larger file, return so many bytes from its start.
    """
    # Without O_NONBLOCK a pipe that nobody writes to would be waited for.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a name with a NUL
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    with open(descriptor, "rb", buffering=0) as file:
        state = os.fstat(descriptor)
        mode = state.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe or a socket"
            raise OSError(errno.EINVAL, f"it is {kind}, and a regular file is needed", str(path))
        if endings is not None:
            _check_shown(path, descriptor, endings)
        data = bytearray()
        while step := file.read(min(_READ_STEP_BYTES, most_bytes + 1 - len(data))):
            data += step
            if start and len(data) >= most_bytes:
                break
            if len(data) > most_bytes:
                size_bytes = max(state.st_size, len(data))
                raise OSError(
                    errno.EFBIG,
                    f"it has {size_bytes:,} bytes, and at most {most_bytes:,} are read",
                    str(path),
                )
        return bytes(data[:most_bytes])


def read_text(
    path: Path,
    most_bytes: int,
    encoding: str = "utf-8",
    errors: str = "strict",
    *,
    endings: Sequence[str] | None,
) -> str:
    """Read as `read_bounded` does, of text, its lines' ends made ``\n``; raises UnicodeDecodeError,
    too."""
    text = read_bounded(path, most_bytes, endings=endings).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_shown(path: Path, endings: Sequence[str]) -> None:
    """Raise OSError if a file cannot be read, or is one that `read_bounded` does not read: for
    files that libraries read, whose messages show lines of them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_shown(path, descriptor, endings)
    finally:
        os.close(descriptor)


def _check_shown(path: Path, descriptor: int, endings: Sequence[str]) -> None:
    state = os.fstat(descriptor)
    if state.st_mode & stat.S_IROTH or state.st_uid == (_caller()[0] or os.geteuid()) != 0:
        return
    # What was opened is asked for its name: that of a link says nothing, and may be another by now.
    opened = f"/proc/self/fd/{descriptor}"
    name = os.readlink(opened) if os.path.islink(opened) else os.path.realpath(path)
    if not name.lower().endswith(tuple(endings)):
        why = "it is not for everybody to read"
        if endings:
            why += f", and its name does not end in {', '.join(endings)}"
        raise PermissionError(errno.EACCES, why, str(path))


@contextlib.contextmanager
def told_as_input(what: str, hint: str = "") -> Iterator[None]:
    """Raise InputError, which begins with ``what``, for an error with a file within the block.

    ``hint`` is what to do about it, if there is something to say.
    """
    try:
        yield
    except OSError as error:
        reason = f" ({error.strerror}): {hint}" if hint else f": {error.strerror}"
        raise InputError(f"{what}{reason}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what}: it is no text") from None


def _open_stream(path: Path) -> int | None:
    """Return a descriptor of a character device, of a pipe, or of what is open already, such as
    /dev/stdout; None for anything else.

    It must be root's or one's own, or a link of theirs must lead to it; under sudo, a pipe may be
    the caller's.
    """
    if opened := _OPENED.fullmatch(str(path)):  # a file, too, where the shell says > FILE
        return os.dup(int(opened[1] or ("stdout", "stderr").index(opened[2]) + 1))
    if not hasattr(os, "O_PATH"):
        return None
    looked = _looked_at(path, os.O_NOFOLLOW)
    if looked is None:
        return None
    try:
        state = os.fstat(looked)
        theirs = stat.S_ISFIFO(state.st_mode) and state.st_uid == _caller()[0]
        if state.st_uid not in (0, os.geteuid()) and not theirs:
            return None
        if stat.S_ISLNK(state.st_mode):
            target = path.parent / os.readlink("", dir_fd=looked)  # of this very link
            os.close(looked)
            looked = _looked_at(target, 0)
        if looked is None or not _is_stream(os.fstat(looked).st_mode):
            return None
        # What was looked at is what is opened, whatever has that name by now.
        return os.open(f"/proc/self/fd/{looked}", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        if looked is not None:
            os.close(looked)


def _looked_at(path: Path, flags: int) -> int | None:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_stream(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


@contextlib.contextmanager
def _made_file(path: Path, folders: bool, keep: bool) -> Iterator[int]:
    """Yield the descriptor of a new file; once the block has ended well, the file gets its name."""
    with _folder_of(path, make=folders, keep=keep) as folder:
        draft = f".{path.name[:200]}.{os.urandom(4).hex()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o644, dir_fd=folder)
        try:
            if not keep:
                _give(descriptor)
            yield descriptor
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _folder_of(path: Path, *, make: bool = False, keep: bool = False) -> Iterator[int]:
    if path.name in ("", "..", "."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if make and keep:
        path.parent.mkdir(parents=True, exist_ok=True)
    folder = _open_folder(path.parent, [] if make else None)
    try:
        yield folder
    finally:
        os.close(folder)


def _open_folder(path: Path, made: list[Path] | None, *, own: bool = False) -> int:
    """Return a descriptor of a folder, by which files in it can be named.

    Args:
        made: folders that are not there are made, and appended to it; None: they are an error.
        own: the folder itself may not be a symbolic link.
    """
    here = os.open(path.anchor or ".", _LOOK)
    parts = path.parts[1:] if path.anchor else path.parts
    return _walk(here, Path(path.anchor), parts, made, own, MOST_LINKS)


def _walk(
    here: int, place: Path, parts: Sequence[str], made: list[Path] | None, own: bool, links: int
) -> int:
    """Go on from the folder `here`, which is closed, into each of `parts` in turn."""
    try:
        for number, name in enumerate(parts):
            place /= name
            try:
                state = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                if made is None:
                    raise
                state = _make(here, name)
                made.append(place)
            if not stat.S_ISLNK(state.st_mode):
                into = os.open(name, _LOOK, dir_fd=here)
            elif own and number == len(parts) - 1:
                raise OSError(errno.ELOOP, f"{place} is a symbolic link: name what it leads to")
            else:
                into = _follow(here, place, state.st_uid, links)
            here, before = into, here
            os.close(before)
    except BaseException:
        os.close(here)
        raise
    return here


def _follow(here: int, place: Path, owner: int, links: int) -> int:
    """Return a descriptor of the folder that the link `place`, in the folder `here`, leads to."""
    if links == 0:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place))
    target = Path(os.readlink(place.name, dir_fd=here))
    begin = os.open("/", _LOOK) if target.is_absolute() else os.dup(here)
    parts = target.parts[1:] if target.is_absolute() else target.parts
    beside = Path("/") if target.is_absolute() else place.parent
    found = _walk(begin, beside, parts, None, False, links - 1)
    # One user's link may not lead another, root above all, to where that user has no say.
    if owner not in (0, os.geteuid(), os.fstat(found).st_uid):
        os.close(found)
        raise OSError(
            errno.ELOOP,
            f"{place} is a symbolic link of user {owner}, and does not lead to a folder of theirs",
        )
    return found


def _make(here: int, name: str) -> os.stat_result:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=here)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=here)
    try:
        state = os.fstat(descriptor)
        # What somebody put in its place in the meantime is not given away.
        if state.st_uid == os.geteuid() and not os.listdir(descriptor):
            _give(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _give(descriptor: int) -> None:
    """Let a file or folder that was just made belong, under sudo, to whoever called sudo."""
    user, group = _caller()
    if user is not None and group is not None:
        with contextlib.suppress(OSError):  # a file system without owners
            os.fchown(descriptor, user, group)


def _caller() -> tuple[int, int] | tuple[None, None]:
    """Return the user and the group of who called sudo; (None, None) if nobody did."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and user.isdigit() and group.isdigit():
        return int(user), int(group)
    return None, None


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of some bytes to a descriptor."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
