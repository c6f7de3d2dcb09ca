"""``terminal h0`` at the prompt without a display: panes of tmux, or what to do instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from weft.base.errors import InputError
from weft.cli import terminals

TMUX = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
"""


def test_panes_have_a_shell_at_each_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, socket = tmp_path / "log", tmp_path / "socket"
    socket.touch()
    stand_in = tmp_path / "tmux"
    stand_in.write_text(TMUX.format(log=log))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TMUX", f"{socket},17,0")
    monkeypatch.setenv("TMUX_PANE", "%4")
    terminals.open_panes("terminal h0 h1", ["h0", "h1"], "abc123")
    first, tiled, second, _ = log.read_text().splitlines()
    assert first.startswith(f"-S {socket} split-window -d -t %4 ")
    assert first.endswith("weft shell --run abc123 h0")
    assert second.endswith("weft shell --run abc123 h1")
    assert tiled == f"-S {socket} select-layout -t %4 tiled"


def test_without_tmux_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"xterm h0: .*apt-get install tmux; .*weft shell h0"):
        terminals.open_panes("xterm h0", ["h0"], "abc123")


def test_outside_of_tmux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/tmux")
    monkeypatch.setattr(terminals, "tmux_pane", lambda: None)
    with pytest.raises(InputError, match=r"xterm h0: .*no pane of tmux: .*weft shell h0"):
        terminals.open_panes("xterm h0", ["h0"], "abc123")
