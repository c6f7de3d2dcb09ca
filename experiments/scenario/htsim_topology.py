"""The networks of htsim (``NAME.topo``), as options of Weft's own shapes ask for them.

A file has how many hosts there are (``Nodes``), how many ``Tiers``, the hosts of a pod
(``Podsize``), and of each ``Tier``, from the leaves up, what its switches have: links down and up
(``Radix_Down``, ``Radix_Up``), the rate and delay of those down (``Downlink_speed_Gbps``,
``Downlink_Latency_ns``). ``#`` begins a comment. Two tiers are a leaf-spine, three are pods.

Source: Broadcom/csg-htsim and ultraethernet/uet-htsim, ``sim/datacenter/fat_tree_topology.cpp``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.files import read_text, told_as_input
from weft.base.units import shown
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import COUNTS, RATES_BPS, flag
from weft.experiments.scenario.networks import HTSIM_ENDING
from weft.topo.network import MAX_DELAY_NS

MOST_BYTES = 1 << 20
OF_NETWORK = ("nodes", "tiers", "podsize")
OF_TIER = (
    "radix_down", "radix_up", "downlink_speed_gbps", "downlink_latency_ns", "switch_latency_ns",
    "oversubscribed", "bundle",
)  # fmt: skip
QUEUES = ("queue_up", "queue_down")
MAX_NUMBER = 1 << 20


@dataclass
class _Section:
    """The lines of the network, or of a tier."""

    name: str
    where: str
    values: dict[str, int] = field(default_factory=dict)

    def get(self, key: str) -> int:
        if key not in self.values:
            raise InputError(f"{self.where}: {self.name} has no {key}")
        return self.values[key]


def with_htsim_topology(asked: Asked) -> Asked:
    """Return what is asked with the shape, sizes, rates and delay of a ``.topo`` file in place of
    its name; what is asked otherwise stays as it is.

    Raises:
        InputError: the file makes no sense, is of a network that Weft has not, or something else
            that is asked says how large the network is.
    """
    if not asked.topology.endswith(HTSIM_ENDING):
        return asked
    for name in (*COUNTS, "oversubscription", "core_oversubscription"):
        if getattr(asked, name) is not None:
            raise InputError(
                f"{flag(name)} {shown(getattr(asked, name))} means nothing for topology "
                f"{asked.topology!r}, which says itself how large it is: leave it out"
            )
    for name, value, default in (("rate", asked.rate_bps, 0), ("delay", asked.delay_ns, 0)):
        refuse(
            value != default,
            f"{name} {value} means nothing for topology {asked.topology!r}, whose links have "
            f"figures of their own: leave {name} out, or change the file",
        )
    return replace(asked, **read_topology(Path(asked.topology)))


def read_topology(path: Path) -> dict[str, Any]:
    """Return the fields of `Asked` that ask for the network of a file. Raises InputError."""
    with told_as_input(f"topology {str(path)!r} cannot be read"):
        text = read_text(path, MOST_BYTES, endings=(HTSIM_ENDING,))
    return parse(text, str(path))


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the same as `read_topology`, given a file's text. Raises InputError with the line of
    what makes no sense."""
    whole, tiers = _sections(text, name)
    count = whole.get("tiers")
    if count not in (2, 3):
        raise InputError(f"{whole.where}: Tiers {count}: networks of 2 and 3 tiers are made here")
    if sorted(tiers) != list(range(count)):
        raise InputError(f"{name}: it describes tiers {sorted(tiers)}: 0 to {count - 1} are needed")
    for each in tiers.values():
        for key, only, why in (
            ("bundle", 1, "two switches have one link here"),
            ("switch_latency_ns", 0, "add it to Downlink_Latency_ns"),
        ):
            value = each.values.get(key, only)
            refuse(value != only, f"{each.where}: {each.name} has {key} {value}: {why}")
    delays = {each.get("downlink_latency_ns") for each in tiers.values()}
    if len(delays) != 1 or max(delays) > MAX_DELAY_NS:
        raise InputError(f"{name}: delays of {sorted(delays)} ns: all links have one here")
    sizes = _sizes(whole, tiers)
    speeds = [tiers[tier].get("downlink_speed_gbps") * 10**9 for tier in range(count)]
    for tier, rate_bps in enumerate(speeds):
        if not RATES_BPS[0] <= rate_bps <= RATES_BPS[1]:
            raise InputError(
                f"{tiers[tier].where}: links of {rate_bps // 10**9} Gbit/s: at most "
                f"{RATES_BPS[1] // 10**9} are possible"
            )
    fields: dict[str, Any] = {**sizes, "rate_bps": speeds[0], "delay_ns": delays.pop()}
    if speeds[1] != speeds[0]:
        sent_bps = sizes["hosts_per_leaf"] * speeds[0]
        fields["oversubscription"] = sent_bps / (sizes["spines"] * speeds[1])
    if count == 3 and speeds[2] != speeds[1]:
        sent_bps = sizes["leaves"] * speeds[1]
        fields["core_oversubscription"] = sent_bps / (sizes["uplinks"] * speeds[2])
    return fields


def _sizes(whole: _Section, tiers: Mapping[int, _Section]) -> dict[str, Any]:
    """Return the shape and its sizes, which must be the same from wherever they are counted."""
    hosts, on_leaf = whole.get("nodes"), tiers[0].get("radix_down")
    three = len(tiers) == 3
    pod = whole.get("podsize") if three else hosts
    spines, leaves = tiers[0].get("radix_up"), tiers[1].get("radix_down")
    counts = [
        ("hosts of a pod are its leaves times the hosts of a leaf", pod, leaves * on_leaf),
        ("what is left of Nodes besides whole pods", hosts % max(pod, 1), 0),
    ]
    if three:
        pods = hosts // max(pod, 1)
        counts.append(
            ("pods are the links down of a core switch", pods, tiers[2].get("radix_down"))
        )
    else:
        counts.append(("Podsize of two tiers is Nodes", whole.values.get("podsize", hosts), hosts))
    for what, one, other in counts:
        refuse(one != other, f"{whole.where}: {what}: {one} is not {other}")
    if three:
        return {
            "topology": "pods", "pods": hosts // pod, "leaves": leaves, "spines": spines,
            "uplinks": tiers[1].get("radix_up"), "hosts_per_leaf": on_leaf,
        }  # fmt: skip
    return {
        "topology": "leaf-spine", "leaves": leaves, "spines": spines, "hosts_per_leaf": on_leaf,
    }  # fmt: skip


def _sections(text: str, name: str) -> tuple[_Section, dict[int, _Section]]:
    whole = _Section("the network", f"{name}:1")
    tiers: dict[int, _Section] = {}
    section = whole
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where, key = f"{name}:{number}", words[0].lower()

        def error(what: str, where: str = where, line: str = line) -> InputError:
            return InputError(f"{where}: {shown(line.strip())}: {what}")

        refuse(len(words) != 2, "a line has a name and a number", error)
        word = words[1]
        if not (word.isascii() and word.isdigit() and len(word) < 8 and int(word) <= MAX_NUMBER):
            raise error(f"{shown(word)} is no number from 0 to {MAX_NUMBER}")
        value = int(word)
        if key == "tier":
            section = tiers.setdefault(value, _Section(f"tier {value}", where))
            refuse(section.values, f"tier {value} is there already", error)
            continue
        known = OF_NETWORK if section is whole else OF_TIER
        refuse(
            key in QUEUES,
            "queues have one bound in all tiers: leave it out, and say --queue",
            error,
        )
        if key not in known:
            raise error(f"{shown(words[0])} is none of Tier, {', '.join(known)}")
        refuse(key in section.values, "it is there already", error)
        section.values[key] = value
    return whole, tiers
