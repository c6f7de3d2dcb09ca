"""From a scenario to the command that asks for it."""

from __future__ import annotations

import shlex

from experiments.scenario import Scenario

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
