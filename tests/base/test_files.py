"""Files are written whole or not at all, no link leads astray, and no input is without an end."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.full_disk import full_disk

from weft.base import files
from weft.base.cache import CHECKOUT

SOMEBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="making files of other users needs root")


def test_a_file_takes_the_place_of_a_link_and_what_that_led_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out").symlink_to(tmp_path / "precious")
    files.write_whole(tmp_path / "out", "new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").read_text() == "new"


def test_a_file_that_grows_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out").symlink_to(tmp_path / "precious")
    descriptor = files.create(tmp_path / "out")
    os.write(descriptor, b"new")
    os.close(descriptor)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "out").read_text() == "new"


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(tmp_path: Path) -> None:
    files.write_whole(tmp_path / "out", "old")
    with full_disk(100_000), pytest.raises(OSError, match="File too large"):
        files.write_whole(tmp_path / "out", b"n" * 1_000_000)
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_has_no_more_rights_than_the_umask_leaves_and_none_to_write(tmp_path: Path) -> None:
    for umask, mode in ((0o000, 0o644), (0o077, 0o600)):
        before = os.umask(umask)
        try:
            files.write_whole(tmp_path / f"{umask}", "")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"{umask}").stat().st_mode) == mode


def test_folders_are_made_where_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.write_whole(tmp_path / "a" / "b" / "out", "")
    files.write_whole(tmp_path / "a" / "b" / "out", "", folders=True)
    assert files.make_folder(tmp_path / "a" / "c" / "d") == [
        tmp_path / "a" / "c",
        tmp_path / "a" / "c" / "d",
    ]


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to("/dev/null")
    files.write_whole(tmp_path / "nowhere", "gone")
    assert (tmp_path / "nowhere").is_symlink()
    files.write_whole(Path("/dev/null"), "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError) as failure:
        files.write_whole(Path("/dev/full"), "gone")
    assert failure.value.errno == errno.ENOSPC


def test_standard_output_can_be_the_file(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from weft.base import files; "
        "files.write_whole(Path('/dev/stdout'), 'seen')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "seen"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/fd/7"])
def test_what_the_shell_has_opened_is_written_to_and_its_name_stays(
    tmp_path: Path, name: str
) -> None:
    before = os.lstat(name) if name == "/dev/stdout" else None
    program = (
        "from pathlib import Path; import os; from weft.base import files; "
        f"files.write_whole(Path({name!r}), 'seen'); "
        f"os.write(files.create(Path({name!r})), b', twice')"
    )
    shell = f'exec "$0" -c "$1" {"7" if name.endswith("7") else ""}>"$2"'
    subprocess.run(
        ["sh", "-c", shell, sys.executable, program, tmp_path / "out"], cwd=CHECKOUT, check=True
    )
    assert (tmp_path / "out").read_text() == "seen, twice"
    assert before is None or os.lstat(name) == before
    with pytest.raises(OSError) as failure:
        files.write_whole(Path("/dev/fd/999"), "seen")
    assert failure.value.errno == errno.EBADF


@as_root
def test_under_sudo_a_pipe_of_the_callers_is_written_to_and_not_that_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setenv("SUDO_GID", str(SOMEBODY))
    for name, owner in (("callers", SOMEBODY), ("anothers", SOMEBODY - 1)):
        os.mkfifo(tmp_path / name)
        os.chown(tmp_path / name, owner, owner)
        reader = os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            files.write_whole(tmp_path / name, "seen")
            assert os.read(reader, 100) == (b"seen" if name == "callers" else b"")
        finally:
            os.close(reader)
        assert stat.S_ISFIFO((tmp_path / name).stat().st_mode) == (name == "callers")


@pytest.mark.parametrize("path", ["", ".", "..", "folder"])
def test_a_folder_is_no_file_to_write(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_whole(Path(path) if path != "folder" else tmp_path / path, "")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_link_of_ones_own_on_the_way_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    files.write_whole(tmp_path / "link" / "out", "there")
    assert (tmp_path / "real" / "out").read_text() == "there"


def test_a_folder_that_is_made_is_no_link_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError) as failure:
        files.make_folder(tmp_path / "link")
    link = tmp_path / "link"
    assert failure.value.strerror == f"{link} is a symbolic link: name what it leads to"


def test_links_that_lead_round_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link/x")
    with pytest.raises(OSError) as failure:
        files.write_whole(tmp_path / "link" / "out", "")
    assert failure.value.errno == errno.ELOOP


@as_root
def test_somebody_elses_link_does_not_lead_root_to_what_is_not_theirs(tmp_path: Path) -> None:
    for name, owner in (("theirs", SOMEBODY), ("ours", 0)):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, owner, owner)
        link = tmp_path / f"link to {name}"
        link.symlink_to(tmp_path / name)
        os.lchown(link, SOMEBODY, SOMEBODY)
    files.write_whole(tmp_path / "link to theirs" / "out", "there")
    with pytest.raises(OSError) as failure:
        files.write_whole(tmp_path / "link to ours" / "out", "there")
    assert failure.value.strerror == (
        f"{tmp_path / 'link to ours'} is a symbolic link of user {SOMEBODY}, and does not lead to "
        "a folder of theirs"
    )
    assert not os.listdir(tmp_path / "ours")


@as_root
def test_under_sudo_what_is_made_belongs_to_the_caller_and_what_was_there_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "there" / "link").symlink_to(tmp_path / "precious")
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setenv("SUDO_GID", str(SOMEBODY))
    files.write_whole(tmp_path / "there" / "new" / "out", "", folders=True)
    files.write_whole(tmp_path / "there" / "link", "")
    files.write_whole(tmp_path / "there" / "kept", "", keep=True)
    os.close(files.create(tmp_path / "there" / "growing"))
    owners = {
        path.relative_to(tmp_path).as_posix(): path.lstat().st_uid for path in tmp_path.rglob("*")
    }
    assert owners == {
        "there": 0,
        "precious": 0,
        "there/kept": 0,
        "there/link": SOMEBODY,
        "there/growing": SOMEBODY,
        "there/new": SOMEBODY,
        "there/new/out": SOMEBODY,
    }


def test_removing_takes_the_link_and_leaves_folders_and_what_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to("precious")
    for name in ("folder", "link", "missing", "no/such/folder"):
        files.remove(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["folder", "precious"]


def test_names_are_those_of_a_folder_and_of_no_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_text("")
    (tmp_path / "link").symlink_to("folder")
    assert files.names_in(tmp_path / "folder") == ["one"]
    assert files.names_in(tmp_path / "missing") == []
    with pytest.raises(OSError, match="is a symbolic link"):
        files.names_in(tmp_path / "link")


@pytest.mark.parametrize("what", ["/dev/zero", "/dev/full", "link", "pipe"])
def test_what_may_never_end_is_not_read(tmp_path: Path, what: str) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError) as failure:
        files.read_bounded(tmp_path / what, 1000, endings=None)  # an absolute path stays as it is
    kind = "a pipe or a socket" if what == "pipe" else "a device"
    assert failure.value.strerror == f"it is {kind}, and a regular file is needed"


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert files.read_bounded(tmp_path / "file", 1000, endings=None) == b"x" * 1000
    with pytest.raises(OSError) as failure:
        files.read_bounded(tmp_path / "file", 999, endings=None)
    assert failure.value.strerror == "it has 1,000 bytes, and at most 999 are read"


def test_a_large_file_is_not_taken_into_memory_to_be_refused(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(OSError) as failure:
        files.read_bounded(tmp_path / "file", 1 << 20, endings=None)
    assert failure.value.strerror == f"it has {1 << 40:,} bytes, and at most 1,048,576 are read"


def test_a_file_that_grows_without_end_is_read_up_to_the_bound(tmp_path: Path) -> None:
    """As files of /proc do, whose size is 0: the size that is told is not what counts."""
    path = Path("/proc/self/maps")
    with pytest.raises(OSError) as failure:
        files.read_bounded(path, 100, endings=None)
    assert failure.value.errno == errno.EFBIG


def test_text_has_plain_ends_of_lines(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert files.read_text(tmp_path / "file", 100, "utf-8-sig", endings=None) == "a\nb\nc\n"


def test_readers_see_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    contents = {letter: letter * 200_000 for letter in "ab"}
    files.write_whole(tmp_path / "file", contents["a"])
    ended = threading.Event()

    def write() -> None:
        for number in range(200):
            files.write_whole(tmp_path / "file", contents["ab"[number % 2]])
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        assert (tmp_path / "file").read_text() in contents.values()
    writer.join()
