"""Outages: for a while or for good, a link, a switch or a rank is gone, or a link is slow."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.base.entry_points import blamed
from weft.base.errors import InputError, refuse
from weft.topo.faults.fault import FAULTS, Fault, Line
from weft.topo.faults.packets import EVERYTHING, MATCH_KEYS, PacketMatch, read_match
from weft.topo.network import FABRIC_TIERS, Direction, Host, Switch, Topology

Rates = dict[tuple[str, str], int]
"""Rates in bit/s by direction; a direction is given by its ends."""


@dataclass(frozen=True)
class Outage(Fault):
    """Something that is gone or slow, from ``at_ns`` on or once ``after`` packets have matched."""

    carried_out = True
    action: str
    where: str
    at_ns: int | None = None
    after: int | None = None
    match: PacketMatch = EVERYTHING
    for_ns: int | None = None
    """How long it lasts; None means for good."""
    rate: float | None = None
    """The part of its rate that a slow link still carries, above 0 and below 1."""
    text: str = field(default="", compare=False)

    @property
    def kind(self) -> "OutageKind":
        """Return the kind of outage that its action names."""
        kind = FAULTS[self.action]
        assert isinstance(kind, OutageKind)
        return kind

    @property
    def needs(self) -> tuple[str, ...]:
        """See `Fault.needs`."""
        return self.kind.needs

    @property
    def emulated_problem(self) -> str:
        """See `Fault.emulated_problem`."""
        return "" if self.after is None else "count packets that match"

    def check(self, topology: Topology) -> None:
        """Raise InputError unless the outage fits the topology."""
        with blamed(self.kind, "check"):
            self.kind.check(self, topology)
        self.match.directions(topology)

    def down(self, topology: Topology) -> tuple[Direction, ...]:
        """Return the directions of links that carry nothing while the outage lasts."""
        with blamed(self.kind, "down"):
            return tuple(self.kind.down(self, topology))

    def directions(self, topology: Topology) -> tuple[Direction, ...]:
        """Return the directions of the links that the outage names."""
        if isinstance(topology.nodes.get(self.where), Switch):
            return tuple(item for item in topology.directions if self.where in item.nodes)
        return PacketMatch(self.where).directions(topology)

    def __str__(self) -> str:
        return self.text


class OutageKind:
    """The grammar and the checks of a kind of outage, and what it does to a network while it
    lasts."""

    name = ""
    needs: tuple[str, ...] = ()
    """See `Fault.needs`."""
    is_plain = False
    """Whether a link that it is at from the start on is just not there: its line is ``LINK``, or
    ``LINK:NAME``, where there is no time."""
    emulated = ""
    lasting = ""
    """See `FaultKind`."""

    def read(self, line: Line) -> Outage:
        """See `FaultKind.read`."""
        raise NotImplementedError

    def check(self, outage: Outage, topology: Topology) -> None:
        """Raise InputError unless the outage fits the topology."""
        outage.directions(topology)

    def down(self, outage: Outage, topology: Topology) -> tuple[Direction, ...]:
        """Return the directions of links that carry nothing while the outage lasts."""
        return ()

    def rates_bps(self, outage: Outage, topology: Topology) -> Rates:
        """Return what directions of links carry while the outage lasts, where that is less than
        their rate; bit/s."""
        return {}

    def killed(self, outage: Outage, topology: Topology) -> Host | None:
        """Return the host whose rank is killed when the outage begins, if any is."""
        return None


class Fail(OutageKind):
    """A link, one direction of it or a switch that carries nothing (``fail``)."""

    name = "fail"
    emulated = "WHERE:fail,at=TIME[,for=TIME]"
    lasting = "down, like leaf0-spine1"
    is_plain = True
    keys: tuple[str, ...] = ("at", "after", "for", "on", *MATCH_KEYS)

    def read(self, line: Line) -> Outage:
        """See `FaultKind.read`."""
        values = line.take_values(*self.keys)
        refuse(line.which, f"{self.name} takes no number; say when: at=TIME or after=N", line.error)
        refuse(
            ("at" in values) == ("after" in values),
            "say when, either at=TIME or after=N packets",
            line.error,
        )
        self.check_values(line)
        given = [key for key in ("on", *MATCH_KEYS) if key in values]
        if "at" in values and given:
            raise line.error(f"{', '.join(given)} choose packets, for after=N only")
        return Outage(
            self.name,
            line.where,
            line.optional_ns("at"),
            line.count("after", values["after"]) if "after" in values else None,
            read_match(line, values.get("on", "*")),
            line.optional_ns("for"),
            text=line.text,
        )

    def check_values(self, line: Line) -> None:
        """Raise InputError for what this kind does not take."""

    def down(self, outage: Outage, topology: Topology) -> tuple[Direction, ...]:
        """See `OutageKind.down`."""
        return outage.directions(topology)


class Kill(Fail):
    """The end of a host's rank, for good (``kill``)."""

    name = "kill"
    emulated = "HOST:kill,at=TIME"
    lasting = ""
    is_plain = False

    def check_values(self, line: Line) -> None:
        """See `Fail.check_values`."""
        refuse("for" in line.values, "a killed rank does not come back; leave out for=", line.error)

    def check(self, outage: Outage, topology: Topology) -> None:
        """See `OutageKind.check`."""
        self.killed(outage, topology)

    def down(self, outage: Outage, topology: Topology) -> tuple[Direction, ...]:
        """See `OutageKind.down`: links stay as they are."""
        return ()

    def killed(self, outage: Outage, topology: Topology) -> Host:
        """See `OutageKind.killed`."""
        node = topology.nodes.get(outage.where)
        if not isinstance(node, Host):
            raise InputError(
                f"fault {outage.text!r}: kill is for the rank of a host, h0 to "
                f"h{len(topology.hosts) - 1}, not {outage.where!r}"
            )
        return node


class Slow(OutageKind):
    """Links between switches that go on at a part of their rate (``slow``)."""

    name = "slow"
    emulated = "WHERE:slow,rate=PART[,at=TIME][,for=TIME]"
    lasting = "slow, like leaf0-spine1:slow,rate=0.25"
    needs = ("links that become slow",)

    def read(self, line: Line) -> Outage:
        """See `FaultKind.read`."""
        values = line.take_values("rate", "at", "for")
        refuse(
            line.which or "rate" not in values,
            "say how slow, as slow,rate=PART, like slow,rate=0.25",
            line.error,
        )
        return Outage(
            self.name,
            line.where,
            line.duration_ns("at", "0ns"),
            for_ns=line.optional_ns("for"),
            rate=line.part("rate"),
            text=line.text,
        )

    def check(self, outage: Outage, topology: Topology) -> None:
        """See `OutageKind.check`."""
        for each in outage.directions(topology):
            refuse(
                each.tier not in FABRIC_TIERS,
                f"fault {outage.text!r}: {each.name} is a host's link; slow is for links "
                "between switches: name one, a spine, fabric_up or fabric_down",
            )

    def rates_bps(self, outage: Outage, topology: Topology) -> Rates:
        """See `OutageKind.rates_bps`."""
        assert outage.rate is not None
        return {
            each.ends: max(1, round(each.link.rate_bps * outage.rate))
            for each in outage.directions(topology)
        }


KINDS = (Fail(), Kill(), Slow())


def slow_rates_bps(outages: Iterable[Outage], topology: Topology) -> Rates:
    """Return the rates of directions, bit/s, while these outages last; where several meet, the
    least."""
    found: Rates = {}
    for outage in outages:
        with blamed(outage.kind, "rates_bps"):
            for ends, rate_bps in outage.kind.rates_bps(outage, topology).items():
                found[ends] = min(rate_bps, found.get(ends, rate_bps))
    return found
