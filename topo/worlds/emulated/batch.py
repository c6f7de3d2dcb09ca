"""Run many ip or tc commands at once, in the calling thread's namespace."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from weft.base.children import last_words, run_tool
from weft.base.errors import MachineError

_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


def run_batch(tool: str, lines: Sequence[str]) -> None:
    """Hand lines to ``ip -batch`` or ``tc -batch``; nothing to do if there are none.

    Raises MachineError that shows the line that failed and what the tool said of it; RunError if
    the tool was killed.
    """
    if not lines:
        return
    done = run_tool([tool, "-batch", "-"], input="\n".join(lines) + "\n")
    if done.returncode != 0:
        number = _FAILED_LINE.search(done.stderr)
        what = f"{tool} {lines[int(number.group(1)) - 1]}" if number else f"{tool} -batch"
        said = done.stderr.strip().splitlines()
        raise MachineError(f"`{what}` failed: {said[0] if said else last_words(done)}")


def queue_drops() -> dict[str, int]:
    """Packets dropped by the root queue of every interface that has a tbf, by interface.

    Raises MachineError if tc cannot tell, RunError if it was killed.
    """
    done = run_tool(["tc", "-statistics", "-json", "qdisc", "show"])
    if done.returncode != 0:
        raise MachineError(f"tc cannot show queues: {last_words(done)}")
    return {
        queue["dev"]: int(queue.get("drops", 0))
        for queue in json.loads(done.stdout or "[]")
        if queue["kind"] == "tbf"
    }
