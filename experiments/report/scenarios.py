"""From a scenario to the command that asks for it."""

from __future__ import annotations

import shlex
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from weft.base.errors import InputError
from weft.base.units import DURATIONS, format_seeds
from weft.experiments.scenario.options import option_of
from weft.experiments.scenario.scenario import Scenario

UNITS = {
    "rate": (("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3)),
    **dict.fromkeys(DURATIONS, (("ms", 10**6), ("us", 10**3), ("ns", 1))),
    **dict.fromkeys(
        ("size", "queue", "block", "chunk"), (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
    ),
}
"""Of options, from the largest on."""


def command_line(scenario: Scenario) -> str:
    """The shortest ``weft run`` that asks for the same."""
    words = ["weft", "run", scenario.collective]
    for item in fields(Scenario):
        if item.name == "collective" or _goes_without_saying(scenario, item):
            continue
        if item.name == "seed" and scenario.seeds:
            continue  # they say it
        option = option_of(item.name)
        value = getattr(scenario, item.name)
        if option in ("algorithm", "fault"):
            for each in value:
                words += [f"--{option}", str(each)]
        elif isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif option == "seeds":
            words += ["--seeds", format_seeds(value)]
        elif option == "sizes":
            words += ["--sizes", ",".join(_quantity("size", size) for size in value)]
        else:
            words += [f"--{option}", _quantity(option, value)]
    return shlex.join(words)


def _goes_without_saying(scenario: Scenario, item: Field[Any]) -> bool:
    """Whether leaving an option out means the same."""
    default = item.default
    assert default is not MISSING
    value = getattr(scenario, item.name)
    if value == default:
        return True
    if default not in (None, "", (), 0):
        return False  # such a default is not filled in by something else
    try:
        return replace(scenario, **{item.name: default}) == scenario
    except InputError:
        return False


def _quantity(option: str, value: object) -> str:
    """A value with the largest unit in which it is a whole number."""
    if not isinstance(value, int):
        return str(value)
    for unit, size in UNITS.get(option, ()):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)
