"""From the scenario of a results document back to a `Scenario`, and to the command for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from experiments.scenario import Fault, Scenario
from switch.errors import InputError

_OPTIONS = {
    "rate_bps": "rate",
    "size_bytes": "size",
    "queue_bytes": "queue",
    "timeout_s": "timeout",
}
"""Where the command line's name of a field is not the field's own."""

_ON_THE_COMMAND_LINE = (
    "world", "switch", "topology", "leaves", "spines", "hosts_per_leaf", "k", "tiers", "rate_bps",
    "mtu", "size_bytes", "algorithms", "chains", "cutoff", "loss", "faults", "queue_bytes",
    "timeout_s", "seed", "repeat", "pcap",
)  # fmt: skip


def scenario_of(document: Mapping[str, Any]) -> Scenario:
    """The scenario that a run's ``scenario`` was written from. Raises `InputError`."""
    known = {field.name for field in fields(Scenario)}
    values = {name: value for name, value in document.items() if name in known}
    try:
        values["algorithms"] = tuple(values["algorithms"])
        values["faults"] = tuple(Fault.parse(text) for text in values.get("faults", ()))
        return Scenario(**values)
    except (KeyError, TypeError) as error:
        raise InputError(f"the scenario of the results document is damaged: {error}") from None


def command_line(scenario: Scenario) -> str:
    """The shortest ``weft run`` that asks for the same."""
    plain = Scenario(switch=scenario.switch, topology=scenario.topology)
    words = ["weft", "run", scenario.collective]
    for name in _ON_THE_COMMAND_LINE:
        value = getattr(scenario, name)
        default = getattr(Scenario() if name in ("switch", "topology") else plain, name)
        if name == "chains":
            default = len(scenario.network().hosts)
        if value == default:
            continue
        option = "--" + _OPTIONS.get(name, name).replace("_", "-")
        if name in ("algorithms", "faults"):
            for item in value:
                words += ["--" + name.removesuffix("s"), str(item)]
        elif value is True:
            words.append(option)
        else:
            words += [option, _quantity(name, value)]
    return shlex.join(words)


def _quantity(name: str, value: object) -> str:
    """A value with the largest unit in which it is a whole number."""
    if name == "rate_bps" and isinstance(value, int):
        units = (("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3))
    elif name in ("size_bytes", "queue_bytes") and isinstance(value, int):
        units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
    else:
        return str(value)
    for unit, size in units:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)
