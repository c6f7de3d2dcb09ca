"""Faults by name, one to a line: which packet of which link is lost, or what fails and when.

    WHERE:ACTION=WHICH[,KEY=VALUE ...]

A packet fault: ``lose``, ``duplicate``, ``corrupt`` (one bit behind the UDP header), ``delay`` or
``swap`` (with its successor). WHICH counts the packets that match, in the order in which they
reach the far end of their link: ``3``, ``2-5`` or ``all``. KEYs that they must match: ``opcode``
(a kind or a name, see `OPCODE_KINDS`), ``rank`` (who sent it), ``to`` (whom it is for; of
multicast: whose downlink it is on), ``chunk`` (the number in its immediate). ``by`` is how long it
is delayed, or waits for its successor.

    h0>leaf0:lose=3                              leaf0-spine1:duplicate=2,opcode=chunk
    *:lose=1,opcode=ack,to=3                     host_down:corrupt=all,chunk=17,rank=2
    leaf0>h1:delay=4,by=2ms                      fabric_up:swap=1

An outage: ``fail`` (a link, one direction of it, or a switch) or ``kill`` (a host's rank), at a
time from the start of the operation, or when so many packets that match have arrived (``after``,
with the keys above and ``on`` for where); ``for`` how long, or for good. ``slow``: links between
switches go on at a part of their ``rate``, from the start if no time is given.

    leaf0-spine1:fail,at=2ms                     spine0:fail,at=10ms,for=5ms
    h3:kill,at=1ms                               h3:kill,after=5,opcode=chunk,on=h3>leaf1
    leaf0-spine1:slow,rate=0.25                  spine0:slow,rate=10%,at=5ms,for=20ms

WHERE is a link (both directions), a direction, a tier (``host_up``, ``host_down``, ``fabric_up``,
``fabric_down``) or ``*``. Each direction of a link, a tier or ``*`` counts into the same number.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.agents.wire.headers import HAS_PAYLOAD, IS_SEND, IS_WRITE, PROPERTIES, Opcode
from weft.base.errors import InputError
from weft.topo.network import LINK_TIERS, Direction, Host, Switch, Topology

PACKET_ACTIONS = ("lose", "duplicate", "corrupt", "delay", "swap")
OUTAGES = ("fail", "kill", "slow")
EVERY = (1, 1 << 62)

DEFAULT_DELAY_NS = 1_000_000
DEFAULT_SWAP_NS = 10_000_000
"""How long a swapped packet waits for a successor, if there is none."""

_RESPONSES = (0x0D, 0x0E, 0x0F, 0x10)
OPCODE_KINDS: dict[str, frozenset[int]] = {
    "send": frozenset(code for code, bits in PROPERTIES.items() if bits & IS_SEND),
    "write": frozenset(code for code, bits in PROPERTIES.items() if bits & IS_WRITE),
    "read": frozenset({int(Opcode.RC_READ_REQUEST)}),
    "response": frozenset(_RESPONSES),
    "ack": frozenset({int(Opcode.RC_ACKNOWLEDGE)}),
    "chunk": frozenset({int(Opcode.UD_SEND_ONLY_WITH_IMMEDIATE)}),
    "control": frozenset(
        {int(Opcode.RC_READ_REQUEST), int(Opcode.RC_ACKNOWLEDGE)}
        | {int(code) for code, bits in PROPERTIES.items() if bits & IS_SEND}
    ),
    "data": frozenset(code for code, bits in PROPERTIES.items() if bits & HAS_PAYLOAD),
    "any": frozenset(range(256)),
}
"""Kinds of packets: all RC SENDs (the control messages of the collectives), all RDMA WRITEs, READ
requests, READ responses, acknowledgements with NAKs, multicast chunks; SENDs, READ requests and
acknowledgements together; all with payload; all."""

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class PacketMatch:
    """Which packets: where they go, and what they are; None matches everything."""

    where: str = "*"
    opcode: str = "any"
    rank: int | None = None
    to: int | None = None
    chunk: int | None = None

    @property
    def opcodes(self) -> frozenset[int]:
        """The opcodes that match."""
        return OPCODE_KINDS[self.opcode] if self.opcode in OPCODE_KINDS else _named(self.opcode)

    def directions(self, topology: Topology) -> tuple[Direction, ...]:
        """The directions of links that it is about; InputError for an unknown link or rank."""
        for rank in (self.rank, self.to):
            if rank is not None:
                topology.host(rank)
        if self.where == "*":
            return topology.directions
        for tier in LINK_TIERS:
            if self.where == tier:
                return topology.directions_of(tier)
        return topology.select(self.where)


@dataclass(frozen=True)
class PacketFault:
    """Something happens to packets ``first`` to ``last``, from 1, of those that match."""

    action: str
    match: PacketMatch
    first: int = 1
    last: int = 1
    by_ns: int = 0
    text: str = field(default="", compare=False)

    def check(self, topology: Topology) -> None:
        """Raise InputError unless it fits the topology."""
        self.match.directions(topology)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Outage:
    """A link, a switch or a rank is gone, or a link is slow, from ``at_ns`` on or once ``after``
    packets matched."""

    action: str
    where: str
    at_ns: int | None = None
    after: int | None = None
    match: PacketMatch = PacketMatch()
    for_ns: int | None = None
    """None: for good."""
    rate: float | None = None
    """Of ``slow``: the part of its rate that a link still carries, above 0 and below 1."""
    text: str = field(default="", compare=False)

    def check(self, topology: Topology) -> None:
        """Raise InputError unless it fits the topology."""
        if self.action == "kill":
            self.host(topology)
        else:
            directions = self.directions(topology)
            if self.action == "slow":
                self._check_fabric(directions)
        self.match.directions(topology)

    def _check_fabric(self, directions: Iterable[Direction]) -> None:
        for each in directions:
            if each.tier not in ("fabric_up", "fabric_down"):
                raise InputError(
                    f"fault {self.text!r}: {each.name} is a host's link; slow is for links between "
                    "switches: name one, a spine, fabric_up or fabric_down"
                )

    def host(self, topology: Topology) -> Host:
        """Whose rank is killed."""
        node = topology.nodes.get(self.where)
        if not isinstance(node, Host):
            raise InputError(
                f"fault {self.text!r}: kill is for the rank of a host, h0 to "
                f"h{len(topology.hosts) - 1}, not {self.where!r}"
            )
        return node

    def directions(self, topology: Topology) -> tuple[Direction, ...]:
        """What no longer carries anything, or is slow."""
        if isinstance(topology.nodes.get(self.where), Switch):
            return tuple(item for item in topology.directions if self.where in item.ends)
        return PacketMatch(self.where).directions(topology)

    def __str__(self) -> str:
        return self.text


InjectedFault: TypeAlias = PacketFault | Outage


def slow_rates_bps(outages: Iterable[Outage], topology: Topology) -> dict[tuple[str, str], int]:
    """What directions, by their ends, carry while these outages last: of several, the least.

    Of outages that make links slow; others change no rate.
    """
    found: dict[tuple[str, str], int] = {}
    for outage in outages:
        if outage.rate is not None:
            for each in outage.directions(topology):
                rate_bps = max(1, round(each.link.rate_bps * outage.rate))
                found[each.ends] = min(rate_bps, found.get(each.ends, rate_bps))
    return found


_MATCH_KEYS = ("opcode", "rank", "to", "chunk")


def is_injected(text: str) -> bool:
    """Whether a fault line is one of these (and not a probability of loss)."""
    words = re.split(r"[:=,]", text)
    return len(words) > 1 and words[1].strip() in (*PACKET_ACTIONS, *OUTAGES)


def parse_fault(text: str) -> InjectedFault:
    """Read one line, as the module says. InputError names what is wrong, and what is valid."""
    where, colon, rest = text.partition(":")
    parts = [part.partition("=") for part in rest.split(",")]
    action = parts[0][0].strip()
    if not where.strip() or not colon or not action:
        raise InputError(
            f"fault {text!r} is not understood: write WHERE:ACTION=WHICH[,KEY=VALUE ...], like "
            "'h0>leaf0:lose=3' or 'spine0:fail,at=2ms'"
        )
    if action not in (*PACKET_ACTIONS, *OUTAGES):
        raise InputError(
            f"fault {text!r}: {_unknown('action', action, (*PACKET_ACTIONS, *OUTAGES))}"
        )
    values: dict[str, str] = {}
    for key, equals, value in parts[1:]:
        if not equals or not value.strip():
            raise InputError(f"fault {text!r}: {key.strip()!r} needs a value, KEY=VALUE")
        values[key.strip()] = value.strip()
    which = parts[0][2].strip()
    if action in OUTAGES:
        return _outage(text, action, where.strip(), which, values)
    allowed = (*_MATCH_KEYS, "by") if action in ("delay", "swap") else _MATCH_KEYS
    _check_keys(text, action, values, allowed)
    first, last = _range(text, which or "1")
    default = {"delay": DEFAULT_DELAY_NS, "swap": DEFAULT_SWAP_NS}.get(action, 0)
    by_ns = _duration(text, "by", values["by"]) if "by" in values else default
    if action in ("delay", "swap") and by_ns == 0:
        raise InputError(f"fault {text!r}: by={values['by']} is no delay; write one like by=1ms")
    return PacketFault(action, _match(text, where.strip(), values), first, last, by_ns, text)


def parse_faults(lines: Iterable[str], topology: Topology) -> list[InjectedFault]:
    """Read several lines and check that they fit a topology."""
    faults = [parse_fault(line) for line in lines]
    for fault in faults:
        fault.check(topology)
    return faults


def _slow(text: str, where: str, which: str, values: Mapping[str, str]) -> Outage:
    _check_keys(text, "slow", values, ("rate", "at", "for"))
    if which or "rate" not in values:
        raise InputError(f"fault {text!r}: say how slow, as slow,rate=PART, like slow,rate=0.25")
    return Outage(
        "slow",
        where,
        _duration(text, "at", values.get("at", "0ns")),
        for_ns=_duration(text, "for", values["for"]) if "for" in values else None,
        rate=_part(text, "rate", values["rate"]),
        text=text,
    )


def _outage(text: str, action: str, where: str, which: str, values: Mapping[str, str]) -> Outage:
    if action == "slow":
        return _slow(text, where, which, values)
    _check_keys(text, action, values, ("at", "after", "for", "on", *_MATCH_KEYS))
    if which:
        raise InputError(f"fault {text!r}: {action} takes no number; say when: at=TIME or after=N")
    if ("at" in values) == ("after" in values):
        raise InputError(f"fault {text!r}: say when, either at=TIME or after=N packets")
    if action == "kill" and "for" in values:
        raise InputError(f"fault {text!r}: a killed rank does not come back; leave out for=")
    given = [key for key in ("on", *_MATCH_KEYS) if key in values]
    if "at" in values and given:
        raise InputError(f"fault {text!r}: {', '.join(given)} choose packets, for after=N only")
    return Outage(
        action,
        where,
        _duration(text, "at", values["at"]) if "at" in values else None,
        _count(text, "after", values["after"]) if "after" in values else None,
        _match(text, values.get("on", "*"), values),
        _duration(text, "for", values["for"]) if "for" in values else None,
        text=text,
    )


def _match(text: str, where: str, values: Mapping[str, str]) -> PacketMatch:
    opcode = values.get("opcode", "any").lower()
    if opcode not in OPCODE_KINDS and not _named(opcode):
        known = (*OPCODE_KINDS, *(code.name.lower() for code in Opcode))
        raise InputError(f"fault {text!r}: {_unknown('opcode', opcode, known)}")

    def number(key: str) -> int | None:
        return _whole(text, key, values[key]) if key in values else None

    return PacketMatch(where, opcode, number("rank"), number("to"), number("chunk"))


def _named(opcode: str) -> frozenset[int]:
    return frozenset(int(code) for code in Opcode if code.name.lower() == opcode)


def _check_keys(
    text: str, action: str, values: Mapping[str, str], allowed: tuple[str, ...]
) -> None:
    for key in values:
        if key not in allowed:
            raise InputError(f"fault {text!r}: {_unknown(f'key of {action}', key, allowed)}")


def _range(text: str, which: str) -> tuple[int, int]:
    if which == "all":
        return EVERY
    first, dash, last = which.partition("-")
    low = _count(text, "the packet", first)
    high = _count(text, "the packet", last) if dash else low
    if high < low:
        raise InputError(f"fault {text!r}: packets {which} are none; the first number is larger")
    return low, high


def _count(text: str, what: str, value: str) -> int:
    number = _whole(text, what, value)
    if number < 1:
        raise InputError(f"fault {text!r}: {what} {value} is out of range; packets count from 1")
    return number


def _whole(text: str, what: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", value.strip()):
        raise InputError(f"fault {text!r}: {what} {value!r} is not a whole number, 0 or more")
    return int(value)


def _part(text: str, key: str, value: str) -> float:
    """A number above 0 and below 1, or as many per cent."""
    found = re.fullmatch(r"([0-9]{0,4}(?:\.[0-9]{1,9})?)(%?)", value)
    part = float(found[1]) / (100 if found[2] else 1) if found and found[1] else 0.0
    if not 0 < part < 1:
        raise InputError(
            f"fault {text!r}: {key}={value} is no part of a rate; write one above 0 and below 1, "
            "like 0.25 or 25%"
        )
    return part


def _duration(text: str, key: str, value: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) *(ns|us|ms|s)", value)
    if value == "0":
        return 0
    if not found:
        raise InputError(f"fault {text!r}: {key}={value} is no time; write one like 250us or 1.5ms")
    whole, _, fraction = found[1].partition(".")
    unit = _UNITS[found[2]]
    return int(whole) * unit + int((fraction or "0").ljust(9, "0")) * unit // 1_000_000_000


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown {kind} {name!r}{hint}; choose from {', '.join(names)}"
