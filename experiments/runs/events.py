"""What happens in a run, as JSON lines while it runs: for scripts that watch it.

Every line is an object with ``event``, ``time`` (UTC, ISO 8601) and more by the kind of event:

- ``begin``, ``progress``, ``end``: a stage of the work (``stage``, ``description``); how far it is
  (``fraction``, 0 to 1, a few times a second); how long it took (``duration_s``);
- ``run``: a run is done (``collective``, ``algorithm``, ``repetition``, ``verified``,
  ``completion_ns``, ``verdict``, ``error``);
- ``results``: all is done (``verified``, ``folder``).
"""

import datetime
import os
from pathlib import Path
from typing import Any

import msgspec

from weft.base import files
from weft.base.errors import MachineError
from weft.experiments.results.results import Run


class EventLines:
    """A file of events, each written as it comes; a context manager.

    The file takes the place of what was there, as all that Weft writes; a device or a pipe is
    written to.

    Raises:
        MachineError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = files.create(path)
        except OSError as error:
            raise MachineError(
                f"events {str(path)!r} cannot be written: {error.strerror}; name another file"
            ) from None

    def __call__(self, event: str, **more: Any) -> None:
        """Write one event."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        line = msgspec.json.encode({"event": event, "time": now, **more}) + b"\n"
        try:
            files.write_all(self._descriptor, line)
        except OSError as error:
            raise MachineError(
                f"events {str(self._path)!r} cannot be written: {error.strerror}; make room"
            ) from None

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def of_run(run: Run) -> dict[str, Any]:
    """Return what the event of a run that is done says of it."""
    return {
        "collective": run.scenario["collective"],
        "algorithm": run.algorithm,
        "repetition": run.repetition,
        "verified": run.verified,
        "completion_ns": run.completion_ns,
        "verdict": run.fidelity.verdict,
        "error": run.error,
    }
