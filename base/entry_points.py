"""What other packages bring: objects by entry points (importlib.metadata)."""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from typing import Any


@cache
def brought(group: str) -> dict[str, Any]:
    """The objects of a group of entry points, by their names.

    One that cannot be loaded is left out, and standard error says why: a broken package must not
    keep Weft from running.
    """
    found = {}
    for point in metadata.entry_points(group=group):
        try:
            found[point.name] = point.load()
        except Exception as error:
            what = f"{point.name!r} of {point.dist.name if point.dist else 'an unknown package'}"
            print(
                f"weft: {what} ({group}, {point.value}) is left out, as it cannot be loaded: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )
    return found
