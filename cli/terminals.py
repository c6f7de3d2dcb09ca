"""Terminals at nodes for who works at a prompt without a display: panes of tmux."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.base.children import last_words, python_command, run_tool
from weft.base.errors import InputError, refuse


def _environments() -> Iterator[dict[str, str]]:
    """Yield the environment of this process, and of those that it comes from: sudo takes tmux's
    variables away."""
    yield dict(os.environ)
    parent = os.getppid()
    while parent > 1:
        try:
            folder = Path("/proc", str(parent))
            words = (folder / "environ").read_bytes().split(b"\0")
            status = (folder / "status").read_text()
        except OSError:
            return
        pairs = (os.fsdecode(word).partition("=") for word in words)
        yield {name: value for name, _, value in pairs}
        parent = int(status.partition("PPid:")[2].split()[0])


def tmux_pane() -> tuple[str, str] | None:
    """Return the socket of the tmux that this process runs in, and its pane there; None if it runs
    in none."""
    for each in _environments():
        if "TMUX" in each and "TMUX_PANE" in each:
            return each["TMUX"].partition(",")[0], each["TMUX_PANE"]
    return None


def open_panes(what: str, names: Sequence[str], run_id: str) -> None:
    """Open a pane of tmux with a shell at each of some nodes of a testbed.

    Raises InputError, which begins with ``what`` and says what to do instead, where there is no
    tmux.
    """
    without = f"{what}: there is no display for a window (DISPLAY is not set), and"
    instead = f"or in another terminal: sudo ./weft shell {names[0]}"
    refuse(
        shutil.which("tmux") is None,
        f"{without} tmux, for a pane, is not installed: apt-get install tmux; {instead}",
    )
    place = tmux_pane()
    if place is None:
        raise InputError(
            f"{without} this is no pane of tmux: call weft up in one (tmux new); {instead}"
        )
    socket, pane = place
    asking = ["sudo"] if os.stat(socket).st_uid != os.geteuid() else []
    for name in names:
        command = [*asking, *python_command("weft", "shell", "--run", run_id, name)]
        for words in (
            ["split-window", "-d", "-t", pane, *command],
            ["select-layout", "-t", pane, "tiled"],
        ):
            done = run_tool(["tmux", "-S", socket, *words])
            if done.returncode:
                raise InputError(f"{what}: tmux opens no pane for {name}: {last_words(done)}")
