"""The folder that code is run from is the user's own, and nobody else had a hand in it."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from weft.base import cache
from weft.base.cache import cache_dir
from weft.base.errors import MachineError

SOMEBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="making files of other users needs root")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that WEFT_CACHE names, not there yet."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_folder_is_its_owners_alone_whatever_the_umask(named: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert cache_dir() == named
    finally:
        os.umask(before)
    assert mode_of(named) == 0o700


def test_an_older_folder_that_others_could_read_is_closed_to_them(named: Path) -> None:
    named.mkdir(mode=0o755)
    assert cache_dir() == named
    assert mode_of(named) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_have_written_to_is_refused(named: Path, mode: int) -> None:
    named.mkdir()
    named.chmod(mode)
    with pytest.raises(
        MachineError,
        match=f"cannot be used: others may have written to it .its mode is {mode:o}., and code is "
        "run from it; name another with WEFT_CACHE",
    ):
        cache_dir()


def test_a_symbolic_link_is_refused(named: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    named.symlink_to(tmp_path / "real")
    with pytest.raises(MachineError, match="it is a symbolic link, and code is run from it"):
        cache_dir()


def test_a_file_is_refused(named: Path) -> None:
    named.write_text("")
    with pytest.raises(MachineError, match="it is not a folder"):
        cache_dir()


@as_root
def test_somebody_elses_folder_is_refused(named: Path) -> None:
    named.mkdir()
    os.chown(named, SOMEBODY, SOMEBODY)
    with pytest.raises(MachineError, match=f"it belongs to somebody else .user {SOMEBODY}."):
        cache_dir()


@as_root
def test_a_folder_in_somebody_elses_is_refused(named: Path, tmp_path: Path) -> None:
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    with pytest.raises(MachineError, match=f"{tmp_path} above it belongs to somebody else"):
        cache_dir()


def test_a_folder_that_everybody_can_put_another_in_the_place_of_is_refused(
    named: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(MachineError, match=f"everybody may write to {tmp_path} above it"):
        cache_dir()
    tmp_path.chmod(0o1777)  # as /tmp is: there nobody renames what is not theirs
    assert cache_dir() == named


def test_folders_above_that_are_made_are_not_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "a" / "b" / "c"))
    before = os.umask(0)
    try:
        assert cache_dir() == tmp_path / "a" / "b" / "c"
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o755


@as_root
def test_a_folder_that_another_group_can_put_another_in_the_place_of_is_refused(
    named: Path, tmp_path: Path
) -> None:
    os.chown(tmp_path, 0, SOMEBODY)
    tmp_path.chmod(0o770)
    with pytest.raises(MachineError, match=f"group {SOMEBODY} may write to {tmp_path} above it"):
        cache_dir()


@as_root
def test_somebody_elses_link_on_the_way_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.lchown(tmp_path / "link", SOMEBODY, SOMEBODY)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "link" / "cache"))
    with pytest.raises(MachineError, match="link above it belongs to somebody else"):
        cache_dir()


@pytest.mark.parametrize("trap", ["link", "open to all"])
def test_a_trap_in_the_folder_for_temporary_files_is_not_fallen_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    """Where neither the checkout nor a home takes a cache, and another user was here before."""
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setattr(cache, "CHECKOUT", tmp_path / "site-packages")
    (tmp_path / "site-packages").mkdir()
    monkeypatch.setenv("HOME", "/dev/null")
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    fallback = shared / f"weft-cache-{os.getuid()}"
    if trap == "link":
        (tmp_path / "planted").mkdir()
        fallback.symlink_to(tmp_path / "planted")
    else:
        fallback.mkdir()
        fallback.chmod(0o777)
    with pytest.raises(MachineError, match=f"cache folder {fallback} cannot be used"):
        cache_dir()
    fallback.unlink() if trap == "link" else fallback.rmdir()
    assert cache_dir() == fallback


def test_a_home_of_ones_own_has_the_cache_of_all_checkouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for checkout in ("one", "other"):
        (tmp_path / checkout).mkdir()
        (tmp_path / checkout / "pyproject.toml").touch()
        monkeypatch.setattr(cache, "CHECKOUT", tmp_path / checkout)
        assert cache_dir() == tmp_path / ".cache" / "weft"


@as_root
def test_root_leaves_nothing_in_the_home_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    home, checkout = tmp_path / "home", tmp_path / "checkout"
    for folder in (home, checkout):
        folder.mkdir()
    os.chown(home, SOMEBODY, SOMEBODY)
    (checkout / "pyproject.toml").touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(cache, "CHECKOUT", checkout)
    assert cache_dir() == checkout / ".cache" / "0"
    assert not list(home.iterdir())


def filled(folder: Path) -> list[Path]:
    """Files of one block each in a cache folder, each used an hour and more before the next."""
    made = []
    now = time.time()
    for hours, name in ((4, "a/old"), (3, "b/c/older"), (2, "shell-1/bin/python"), (0, "a/new")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (now - 3700 * hours,) * 2)
        made.append(path)
    return made


def test_what_was_not_used_for_longest_goes_first(named: Path) -> None:
    cache_dir()
    old, older, environment, new = filled(named)
    block = cache.kept()[0].size_bytes
    assert [one.path for one in cache.bound(2 * block)] == [old]
    cache.mark_used(older)
    os.utime(new, (time.time() - 60,) * 2)
    assert [one.path for one in cache.bound(block)] == [new]
    assert not new.parent.exists() and older.exists()
    assert [one.path for one in cache.bound(0)] == [older]
    assert environment.exists()
    assert cache.kept() == []


def test_the_cache_is_bounded_by_whoever_adds_to_it_but_not_of_what_is_in_use(
    named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_dir()
    monkeypatch.setattr(cache, "BOUND_BYTES", 0)
    files = filled(named)
    draft = named / "a" / ".library.0123.new"
    draft.touch()
    with files[0].open() as opened:
        cache.keep_bounded(files[3])
        assert opened.read() == "x"
    assert [path.exists() for path in files] == [False, False, True, True]
    files = filled(named)
    cache.keep_bounded(files[3])  # it has been looked at within the hour
    assert all(path.exists() for path in files)
    cache.bound(0)
    assert draft.exists()


def test_files_that_others_remove_meanwhile_are_no_error(
    named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_dir()
    filled(named)
    found = cache.kept()
    monkeypatch.setattr(cache, "kept", lambda: found)
    assert cache.bound(0) == cache.bound(0) == found
