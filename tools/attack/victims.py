"""Root's files that an attacker would change: what they were, and what has become of them."""

from __future__ import annotations

from pathlib import Path

from weft.tools.attack.kind import Broken
from weft.tools.attack.weft_process import WeftProcess

SWEEP = """collective = "broadcast"
world = "simulated"
topology = "single"
size = "1KiB"
[sweep]
hosts-per-leaf = [2, 3]
[[plot]]
y = "completion"
x = "ranks"
"""
"""A scenario file of two points and a plot, so that all kinds of results are written."""

States = dict[str, tuple[int, int, int, str]]


def states(folder: Path) -> States:
    """Owner, group, mode and content of all that is in a folder, and of itself."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        state = path.lstat()
        content = repr(path.read_bytes()[:40]) if path.is_file() else ""
        name = str(path.relative_to(folder.parent))
        found[name] = (state.st_uid, state.st_gid, state.st_mode, content)
    return found


def check_unchanged(before: States, folder: Path, weft: WeftProcess) -> None:
    """`Broken` if a folder, or something in it, is not as it was."""
    if (after := states(folder)) != before:
        changed = [
            f"{name} was {before.get(name, 'not there')} and is {after.get(name, 'gone')}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        raise Broken(
            f"behind links {len(changed)} files have changed (owner, group, mode, content): "
            f"{'; '.join(changed[:3])}{weft.said()}"
        )
