"""Scenarios made from options by their command-line names, which come from the command line or a
TOML file."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.base import documents
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.families import choices, family_named
from weft.experiments.scenario.scenario import Scenario

__all__ = [
    "OPTIONS", "by_key", "field_of", "from_options", "is_usual", "load_toml", "over",
    "read_option", "said", "value_of",
]  # fmt: skip

MOST_BYTES = 1 << 20
"""The largest scenario file that is read."""


def from_options(options: Mapping[str, Any], source: str = "options") -> Scenario:
    """Return the scenario that options ask for; options are given by their command-line names
    (``hosts-per-leaf`` or ``hosts_per_leaf``).

    Raises `InputError`, which names an unknown key with the nearest valid one, or the bad value.
    """
    given = by_key(options, source)
    values = {field_of(name): read_option(name, value) for name, value in given.items()}
    if values.get("collective") in choices():
        values = family_named(values["collective"]).read(values)
    return Scenario(**values)


def read_option(name: str, value: Any) -> Any:
    """Return what an option's field holds for a value that people have written. Raises
    `InputError`."""
    return OPTIONS[name].kind.read(name, value)


def field_of(option: str) -> str:
    """Return the field of `Scenario` that an option sets, as ``size_bytes`` for ``size``. Raises
    KeyError."""
    return OPTIONS[option].field


def value_of(option: str, scenario: Mapping[str, Any]) -> Any:
    """Return the value of an option's field in a scenario's document; its default where an older
    document does not have it."""
    return scenario.get(field_of(option), OPTIONS[option].default)


def is_usual(option: str, scenario: Mapping[str, Any]) -> bool:
    """Return whether a scenario's document has an option's default."""
    return bool(value_of(option, scenario) == OPTIONS[option].default)


def said(option: str, value: object) -> str:
    """Return the value of an option's field as people write it, like ``1 MiB`` for ``size`` or
    ``0.1 %``; the value of any other figure is returned as it is."""
    return (OPTIONS.get(option) or OPTIONS["mtu"]).said(value)


def by_key(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return `options` by the names that `OPTIONS` has. Raises `InputError` for an unknown option,
    and for one that is there twice."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.replace("_", "-")
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, n=1)
            known = "Valid keys: " + ", ".join(sorted(OPTIONS))
            hint = f"Did you mean {near[0]!r}?" if near else known
            raise InputError(f"{source}: unknown key {shown(name)}. {hint}")
        if key in values:
            raise InputError(
                f"{source}: {key!r} is there twice, as {key!r} and as "
                f"{key.replace('-', '_')!r}: keep one of them"
            )
        values[key] = value
    for one in (name for name in OPTIONS if name in values):
        for other in (name for name in OPTIONS[one].instead_of if name in values):
            raise InputError(
                f"{source}: {one} {shown(values[one])} and {other} {shown(values[other])} say the "
                "same thing twice: keep one of them"
            )
    return values


def over(options: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options`, in which those of `more` replace those of the same name and those whose
    place they take."""
    replaced = {other for name in more for other in OPTIONS[name].instead_of}
    return {**{name: value for name, value in options.items() if name not in replaced}, **more}


def load_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file says. Raises `InputError`, which names the file."""
    document: dict[str, Any] = documents.opened(
        path, MOST_BYTES, f"scenario file {str(path)!r}", "TOML"
    )
    return document
