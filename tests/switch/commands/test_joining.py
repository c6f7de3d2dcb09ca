"""``weft switch --join``: switches of several command lines are one process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from weft.base.errors import InputError, MachineError
from weft.switch.commands.joining import Joinable, join
from weft.switch.commands.switch_options import parse_switches


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a switch in a folder, and return when it is ready."""
    folder.mkdir()
    command = [sys.executable, "-m", "weft", "switch", "--no-p4", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "ready: Ctrl-C ends it\n" in iter(process.stdout.readline, "")
    return process


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)[0]


def test_who_joins_is_in_the_first_ones_process_and_leaves_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "joined.sock")
    first = start(tmp_path / "a", "--joinable", place, "--grpc-server-addr", "unix:own.sock")
    others = [
        start(tmp_path / name, "--join", place, "--grpc-server-addr", "unix:own.sock")
        for name in "bc"
    ]
    servers = [tmp_path / name / "own.sock" for name in "abc"]
    assert all(server.is_socket() for server in servers)
    maps = Path(f"/proc/{others[0].pid}/maps").read_text()
    assert "grpc" not in maps
    assert end(others[0]) == "ended\n"
    assert others[0].returncode == 0
    assert not servers[1].exists() and servers[2].exists() and first.poll() is None
    assert end(first) == "ended\n"
    said, _ = others[1].communicate(timeout=60)
    assert (said, others[1].returncode) == ("ended\n", 1)
    assert not any(server.exists() for server in (*servers, tmp_path / "joined.sock"))


def test_where_nobody_can_be_joined_the_option_of_the_first_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no weft switch can be joined there .* --joinable"):
        join(tmp_path / "nobody.sock", ["--no-p4"])


def test_a_socket_that_was_left_behind_is_taken_over_and_no_other_one(tmp_path: Path) -> None:
    place = tmp_path / "it.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(os.fspath(place))
    joinable = Joinable(place, lambda *given: None)
    assert place.stat().st_mode & 0o777 == 0o600
    with pytest.raises(MachineError, match="cannot listen there: Address already in use"):
        Joinable(place, lambda *given: None)
    joinable.close()
    assert not place.exists()
    place.write_text("a file")
    with pytest.raises(MachineError, match="cannot listen there"):
        Joinable(place, lambda *given: None)
    assert place.read_text() == "a file"


def test_what_comes_without_its_files_is_refused(tmp_path: Path) -> None:
    joinable = Joinable(tmp_path / "it.sock", lambda *given: None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(os.fspath(tmp_path / "it.sock"))
        stranger.send(b"[]")
        assert b"it has not sent its files" in stranger.recv(1000)
    joinable.close()


@pytest.mark.parametrize("other", ["--joinable x", "--control-fd 3"])
def test_who_joins_has_no_process_of_its_own_to_speak_of(other: str) -> None:
    with pytest.raises(InputError, match="is of the process that is joined"):
        parse_switches(["--no-p4", "--join", "y", *other.split()])
