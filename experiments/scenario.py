"""A scenario: all that is asked of a run, with its defaults, checked before anything starts.

A scenario comes from the command line, from a TOML file with the same options, or from Python. It
is plain data; `Scenario.network` says which network it means.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from experiments.outages import check_emulated
from experiments.units import (
    parse_duration,
    parse_number,
    parse_probability,
    parse_rate,
    parse_size,
    shown,
)
from switch.errors import InputError
from topo import clos
from topo.network import MAX_HOSTS_PER_LEAF, MAX_PORTS
from topo.packet_faults import OUTAGES, PACKET_ACTIONS, InjectedFault, is_injected, parse_fault
from topo.switch_kinds import RATE_BPS, check_kind

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COLLECTIVES = ("allgather",)
ALGORITHMS = ("multicast", "ring")
WORLDS = ("emulated", "simulated")
SWITCHES = ("weft", "bmv2")
TOPOLOGIES = ("leaf-spine", "single", "fat-tree")
CUTOFFS = ("adaptive", "paper", "fetch-only")
"""When a multicast Allgather fetches what is missing: near the expected time; at the paper's five
times it; or at once, without any multicast."""
MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs of the InfiniBand specification: bytes of RoCE payload a packet."""

MAX_SIZE_BYTES = 1 << 32
MAX_HOSTS = 8192
"""Of a network: what a fat tree of three tiers and 32 ports has. A larger one takes minutes."""


@dataclass(frozen=True)
class Fault:
    """A link or one direction of it, and its probability of loss."""

    link: str
    loss: float

    @staticmethod
    def parse(text: str) -> Fault | InjectedFault:
        """Read one ``--fault``.

        ``LINK:loss=P``, LINK being ``leaf0-spine1`` (both ways) or ``leaf0>spine1``; or a fault by
        name, as `topo.packet_faults` has them.
        """
        if is_injected(text):
            return parse_fault(text)
        link, colon, what = text.partition(":")
        key, equals, value = what.partition("=")
        if not (link.strip() and colon and equals) or key.strip() != "loss":
            raise InputError(
                f"fault {text!r} is not understood: write LINK:loss=P, like leaf0-spine1:loss=0.1 "
                "for both directions or 'leaf0>spine1:loss=1.0' for one; or WHERE:ACTION, ACTION "
                f"one of {', '.join((*PACKET_ACTIONS, *OUTAGES))} (see docs/faults.md)"
            )
        return Fault(link.strip(), parse_probability(value, f"fault {text!r}: loss"))

    def __str__(self) -> str:
        return f"{self.link}:loss={self.loss:g}"


@dataclass(frozen=True)
class Scenario:
    """What is to be run. Every field is an option of ``weft run`` and a key of a scenario file."""

    collective: str = "allgather"
    world: str = "emulated"
    switch: str = "weft"
    topology: str = "leaf-spine"
    leaves: int | None = None
    """Leaf switches (leaf-spine: 4 by default)."""
    spines: int | None = None
    """Spine switches (leaf-spine: 2 by default)."""
    hosts_per_leaf: int | None = None
    """Hosts of each leaf (leaf-spine: 2; single, where it is the number of hosts: 8)."""
    k: int | None = None
    """Ports of each switch of a fat tree (4 by default): k/2 hosts a leaf."""
    tiers: int | None = None
    """Tiers of switches of a fat tree: 2 or 3 (default)."""
    rate_bps: int = 0
    """Of every link, bits a second of Ethernet frames without FCS; 0: what two cores carry with
    ease (`topo.switch_kinds.RATE_BPS`)."""
    mtu: int = 4096
    """Path MTU: bytes of RoCE payload a packet."""
    size_bytes: int = 1 << 20
    """Bytes that each rank contributes."""
    algorithms: tuple[str, ...] = ("multicast", "ring")
    chains: int | None = None
    """Chains of the multicast Allgather; as many as ranks by default."""
    cutoff: str = "adaptive"
    loss: float = 0.0
    """Probability that a link loses a packet, for every link and each direction by itself."""
    faults: tuple[Fault | InjectedFault, ...] = ()
    delay_ns: int = 0
    """Propagation delay of every link; in the simulated world alone."""
    queue_bytes: int = 512 * 1024
    """Bound of every switch port's queue."""
    timeout_s: float | None = None
    """Longest time that an operation may take; by default, some times the expected time."""
    seed: int = 1
    repeat: int = 1
    pcap: bool = False
    predict: bool = True
    """Whether an emulated run is simulated first, and its fidelity judged by the difference."""

    def __post_init__(self) -> None:
        self._choose("collective", self.collective, COLLECTIVES)
        self._choose("world", self.world, WORLDS)
        self._choose("switch", self.switch, SWITCHES)
        self._choose("topology", self.topology, TOPOLOGIES)
        self._choose("cutoff", self.cutoff, CUTOFFS)
        if not self.algorithms:
            raise InputError(f"no algorithm was named: choose from {', '.join(ALGORITHMS)}")
        for algorithm in self.algorithms:
            self._choose("algorithm", algorithm, ALGORITHMS)
            if self.algorithms.count(algorithm) > 1:
                raise InputError(
                    f"algorithm {algorithm!r} is named more than once: name it once, and say "
                    "repeat (--repeat N) to run it N times"
                )
        if self.mtu not in MTUS:
            raise InputError(
                f"mtu {shown(self.mtu)} is no path MTU of RoCE: choose {', '.join(map(str, MTUS))} "
                "(bytes of payload a packet)"
            )
        self._whole("size", self.size_bytes, 0, MAX_SIZE_BYTES)
        self._whole("delay", self.delay_ns, 0, 10**9)
        if self.world == "emulated" and self.delay_ns:
            raise InputError(
                "delay: a host of the emulated world has no way to delay what it sends; choose "
                "--world simulated, or leave --delay out"
            )
        self._whole("queue", self.queue_bytes, 2 * 9216, 1 << 30)
        self._whole("seed", self.seed, 0, (1 << 63) - 1)
        self._whole("repeat", self.repeat, 1, 10_000)
        parse_probability(self.loss, "loss")
        if self.timeout_s is not None and not 0 < self.timeout_s <= 3600:
            raise InputError(
                f"timeout {self.timeout_s} s is out of range: more than 0, at most 3600"
            )
        defaults = {
            "leaf-spine": {"leaves": 4, "spines": 2, "hosts_per_leaf": 2},
            "single": {"hosts_per_leaf": 8},
            "fat-tree": {"k": 4, "tiers": 3},
        }[self.topology]
        for name in ("leaves", "spines", "hosts_per_leaf", "k", "tiers"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, defaults.get(name))
            elif name not in defaults:
                raise InputError(
                    f"{_option(name)} {shown(getattr(self, name))} means nothing for --topology "
                    f"{self.topology}: it takes {', '.join(map(_option, defaults))}"
                )
        if self.rate_bps == 0:
            object.__setattr__(self, "rate_bps", RATE_BPS[check_kind(self.switch)])
        self._whole("rate", self.rate_bps, 100_000, 100_000_000_000)
        network = self.network()
        ranks = len(network.hosts)
        if self.chains is None:
            object.__setattr__(self, "chains", ranks)
        assert self.chains is not None
        self._whole("chains", self.chains, 1, ranks)
        chunks = ranks * -(-self.size_bytes // self.mtu)
        if "multicast" in self.algorithms and chunks > 1 << 24:
            raise InputError(
                f"{ranks} ranks of {self.size_bytes} bytes are {chunks} chunks of {self.mtu}: the "
                f"immediate's 24 bits number {1 << 24}; choose a smaller --size or a larger --mtu"
            )
        for fault in self.faults:
            if isinstance(fault, Fault):
                network.select(fault.link)
            else:
                fault.check(network)
                if self.world == "emulated":
                    check_emulated(fault)
        if self.world == "simulated" and self.switch != "weft":
            raise InputError(
                f"switch {self.switch!r} does not run in the simulated world: that world's switch "
                "is the built-in one, weft; or choose world 'emulated'"
            )
        if self.world == "simulated" and self.pcap:
            raise InputError("pcap captures the emulated world's links; the simulated has none")

    @staticmethod
    def _choose(name: str, value: str, choices: Sequence[str]) -> None:
        if value not in choices:
            near = difflib.get_close_matches(str(value), choices, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InputError(
                f"{name} {shown(value)} is unknown{hint}: choose from {', '.join(choices)}"
            )

    @staticmethod
    def _whole(name: str, value: int, low: int, high: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(
                f"{name} {shown(value)} is out of range: a whole number from {low} to {high}"
            )

    def operations(self) -> Iterator[tuple[str, int, str]]:
        """What is to be run, in order: algorithm, repetition, and how to call it."""
        for algorithm in self.algorithms:
            for repetition in range(self.repeat):
                label = f"{self.collective.capitalize()} by {algorithm}"
                if self.repeat > 1:
                    label += f", {repetition + 1} of {self.repeat}"
                yield algorithm, repetition, label

    @property
    def lossy(self) -> bool:
        """Whether links lose packets at random."""
        return self.loss > 0 or bool(self.losses)

    @property
    def losses(self) -> tuple[Fault, ...]:
        """The links with a probability of loss of their own."""
        return tuple(fault for fault in self.faults if isinstance(fault, Fault))

    @property
    def injected(self) -> tuple[InjectedFault, ...]:
        """What happens to single packets, links, switches and ranks."""
        return tuple(fault for fault in self.faults if not isinstance(fault, Fault))

    def network(self) -> clos.Topology:
        """The network that the scenario asks for (raises `InputError` where there is none)."""
        if self.topology == "single":
            assert self.hosts_per_leaf is not None
            self._whole("hosts-per-leaf", self.hosts_per_leaf, 1, MAX_HOSTS_PER_LEAF)
            return clos.single(
                self.hosts_per_leaf,
                rate_bps=self.rate_bps,
                delay_ns=self.delay_ns,
                queue_bytes=self.queue_bytes,
            )
        if self.topology == "leaf-spine":
            assert self.leaves is not None and self.spines is not None
            assert self.hosts_per_leaf is not None
            self._whole("leaves", self.leaves, 1, MAX_PORTS)
            self._whole("spines", self.spines, 1, MAX_PORTS)
            self._whole("hosts-per-leaf", self.hosts_per_leaf, 1, MAX_HOSTS_PER_LEAF)
            hosts = self.leaves * self.hosts_per_leaf
            if hosts > MAX_HOSTS:
                raise InputError(
                    f"{self.leaves} leaves with {self.hosts_per_leaf} hosts each are {hosts} "
                    f"hosts: at most {MAX_HOSTS}; lower leaves or hosts-per-leaf"
                )
            return clos.leaf_spine(
                self.leaves,
                self.spines,
                self.hosts_per_leaf,
                rate_bps=self.rate_bps,
                delay_ns=self.delay_ns,
                queue_bytes=self.queue_bytes,
            )
        assert self.k is not None and self.tiers is not None
        self._whole("tiers", self.tiers, 2, 3)
        self._whole("k", self.k, 2, 32 if self.tiers == 3 else 64)  # see MAX_HOSTS
        return clos.fat_tree(
            self.k,
            self.tiers,
            rate_bps=self.rate_bps,
            delay_ns=self.delay_ns,
            queue_bytes=self.queue_bytes,
        )

    def to_dict(self) -> dict[str, Any]:
        """As it stands in results.json: everything, defaults included."""
        document = asdict(self)
        document["algorithms"] = list(self.algorithms)
        document["faults"] = [str(fault) for fault in self.faults]
        return document


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _strings(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


@dataclass(frozen=True)
class _Key:
    name: str
    """Of the scenario's field."""
    read: Callable[[Any], Any] | None = None


_KEYS: dict[str, _Key] = {
    "rate": _Key("rate_bps", lambda v: _rate(v)),
    "size": _Key("size_bytes", lambda v: parse_size(v, "size")),
    "delay": _Key("delay_ns", lambda v: parse_duration(v, "delay")),
    "queue": _Key("queue_bytes", lambda v: parse_size(v, "queue")),
    "loss": _Key("loss", lambda v: parse_probability(v, "loss")),
    "algorithm": _Key("algorithms", lambda v: tuple(_strings(v))),
    "fault": _Key("faults", lambda v: tuple(Fault.parse(text) for text in _strings(v))),
    "timeout": _Key("timeout_s", lambda v: _number("timeout", v)),
    "pcap": _Key("pcap", lambda v: _flag("pcap", v)),
    "predict": _Key("predict", lambda v: _flag("predict", v)),
    **{name: _Key(name, str) for name in ("collective", "world", "switch", "topology", "cutoff")},
    **{
        name: _Key(name.replace("-", "_"))
        for name in ("leaves", "spines", "hosts-per-leaf", "k", "tiers", "mtu", "chains")
    },
    **{name: _Key(name) for name in ("seed", "repeat")},
}
"""What a scenario file and the command line call the fields, and how they are read."""


def _rate(value: Any) -> int:
    rate_bps = parse_rate(value, "rate")
    if rate_bps == 0:
        raise InputError(f"rate {shown(value)} carries nothing: write one like 100Mbit")
    return rate_bps


def _number(name: str, value: Any) -> float:
    seconds = parse_number(value.removesuffix("s") if isinstance(value, str) else value)
    if seconds is None:
        raise InputError(f"{name} {shown(value)} is not a number of seconds, like 10 or 2.5")
    return seconds


_WHOLE = re.compile(r"-?[0-9]{1,20}")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} {shown(value)} is neither true nor false")
    return value


def _integer(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise InputError(f"{name} {shown(value)} is not a whole number: write digits, like 4")


def from_options(options: Mapping[str, Any], source: str = "options") -> Scenario:
    """A scenario of options by their command-line names (``hosts-per-leaf`` or ``hosts_per_leaf``).

    Raises `InputError` that names an unknown key with the nearest valid one, or the bad value.
    """
    values: dict[str, Any] = {}
    for name, value in _by_key(options, source).items():
        key = _KEYS[name]
        values[key.name] = key.read(value) if key.read else _integer(name, value)
    return Scenario(**values)


def _by_key(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """`options` by the names that `_KEYS` has; each of them known, and there once."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        key = name.replace("_", "-")
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"{source}: unknown key {shown(name)}.{hint} Valid keys: {', '.join(sorted(_KEYS))}"
            )
        if key in values:
            raise InputError(
                f"{source}: {key!r} is there twice, as {key!r} and as "
                f"{key.replace('-', '_')!r}: keep one of them"
            )
        values[key] = value
    return values


def read_file(path: Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario of a TOML file; `overrides` (options of the command line) go before its keys."""
    try:
        with path.open("rb") as stream:
            document = tomllib.load(stream)
    except OSError as error:
        raise InputError(f"scenario file {str(path)!r} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise InputError(
            f"scenario file {str(path)!r} is nested too deeply: a scenario is keys with numbers, "
            "strings and lists of strings"
        ) from None
    except ValueError as error:  # tomllib's own, no UTF-8, a number of thousands of digits
        raise InputError(f"scenario file {str(path)!r} is not valid TOML: {error}") from None
    source = f"scenario file {str(path)!r}"
    try:
        options = _by_key(document, source)
        return from_options({**options, **_by_key(overrides or {}, "options")}, source)
    except InputError as error:
        message = str(error)
        prefix = f"{source}: "
        raise InputError(message if message.startswith(prefix) else prefix + message) from None


assert {key.name for key in _KEYS.values()} == {item.name for item in fields(Scenario)}
