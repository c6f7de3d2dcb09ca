"""Algorithms' own options, of whichever algorithm a test is at."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from weft.agents.collectives.names import ALGORITHMS


def own_of(algorithm: str, **values: Any) -> dict[str, Any]:
    """Those of some options that an algorithm has; 0 is the default."""
    known = {each.name: each.default for each in fields(ALGORITHMS[algorithm].options)}
    return {name: value or known[name] for name, value in values.items() if name in known}
