"""Run many ip or tc commands at once, in the calling thread's namespace."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence

from switch.errors import MachineError

_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


def run_batch(tool: str, lines: Sequence[str]) -> None:
    """Hand lines to ``ip -batch`` or ``tc -batch``; nothing to do if there are none.

    Raises MachineError that shows the line that failed and what the tool said of it.
    """
    if not lines:
        return
    done = subprocess.run(
        [tool, "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        number = _FAILED_LINE.search(done.stderr)
        line = lines[int(number.group(1)) - 1] if number else lines[0]
        said = done.stderr.strip().splitlines()
        raise MachineError(f"`{tool} {line}` failed: {said[0] if said else 'without a word'}")


def queue_drops() -> dict[str, int]:
    """Packets dropped by the root queue of every interface that has a tbf, by interface."""
    done = subprocess.run(
        ["tc", "-statistics", "-json", "qdisc", "show"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise MachineError(f"tc cannot show queues: {done.stderr.strip()}")
    return {
        queue["dev"]: int(queue.get("drops", 0))
        for queue in json.loads(done.stdout or "[]")
        if queue["kind"] == "tbf"
    }
