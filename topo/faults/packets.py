"""Faults of single packets: they say which packet of which link is lost, doubled, damaged
or late."""

from dataclasses import dataclass, field

from weft.agents.wire.headers import HAS_PAYLOAD, IS_SEND, IS_WRITE, PROPERTIES, Opcode
from weft.base.errors import InputError, refuse
from weft.topo.faults.fault import Fault, Line, unknown
from weft.topo.network import LINK_TIERS, Direction, Topology

PACKET_ACTIONS = ("lose", "duplicate", "corrupt", "delay", "swap")
"""What links of the simulated world do to packets."""
EVERY = (1, 1 << 62)
"""The numbers of all packets."""
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
MATCH_KEYS = ("opcode", "rank", "to", "chunk")


@dataclass(frozen=True)
class PacketMatch:
    """Which packets a fault is about, by where they go and what they are; None matches all."""

    where: str = "*"
    opcode: str = "any"
    rank: int | None = None
    to: int | None = None
    chunk: int | None = None

    @property
    def opcodes(self) -> frozenset[int]:
        """Return the opcodes that match."""
        return OPCODE_KINDS[self.opcode] if self.opcode in OPCODE_KINDS else _named(self.opcode)

    def directions(self, topology: Topology) -> tuple[Direction, ...]:
        """Return the directions of links that the match is about. Raises InputError for an unknown
        link or rank."""
        for rank in (self.rank, self.to):
            if rank is not None:
                topology.host(rank)
        if self.where == "*":
            return topology.directions
        tier = next((tier for tier in LINK_TIERS if tier == self.where), None)
        return topology.select(self.where) if tier is None else topology.directions_of(tier)


@dataclass(frozen=True)
class PacketFault(Fault):
    """One of `PACKET_ACTIONS`, done to the packets ``first`` to ``last``, counted from 1, of those
    that match."""

    carried_out = True
    action: str
    match: PacketMatch
    first: int = 1
    last: int = 1
    by_ns: int = 0
    text: str = field(default="", compare=False)

    @property
    def emulated_problem(self) -> str:
        """See `Fault.emulated_problem`."""
        return "tell one packet from another"

    def check(self, topology: Topology) -> None:
        """Raise InputError unless the fault fits the topology."""
        self.match.directions(topology)

    def __str__(self) -> str:
        return self.text


EVERYTHING = PacketMatch()
"""Matches every packet."""


def read_match(line: Line, where: str) -> PacketMatch:
    """Read which packets on the links of ``where`` a line is about."""
    opcode = line.values.get("opcode", "any").lower()
    if opcode not in OPCODE_KINDS and not _named(opcode):
        known = (*OPCODE_KINDS, *(code.name.lower() for code in Opcode))
        raise line.error(unknown("opcode", opcode, known))
    rank, to, chunk = (
        line.whole(key, line.values[key]) if key in line.values else None
        for key in ("rank", "to", "chunk")
    )
    return PacketMatch(where, opcode, rank, to, chunk)


def _named(opcode: str) -> frozenset[int]:
    return frozenset(int(code) for code in Opcode if code.name.lower() == opcode)


@dataclass(frozen=True)
class PacketKind:
    """One kind of accident that befalls packets, by its lines; the simulated world's links carry it
    out.

    Raises InputError for an action that these links do not know.
    """

    name: str
    default_by_ns: int | None = None
    """How long a packet is delayed, or waits, if the line does not say; None if the kind takes no
    time."""
    action: str = ""
    """What happens to the packets, one of `PACKET_ACTIONS`; by default the kind's name."""

    def __post_init__(self) -> None:
        if (self.action or self.name) not in PACKET_ACTIONS:
            raise InputError(
                f"packet fault {self.name!r}: {self.action or self.name!r} is nothing that links "
                f"do to packets; let its action be one of {', '.join(PACKET_ACTIONS)}"
            )

    def read(self, line: Line) -> PacketFault:
        """See `FaultKind.read`."""
        timed = self.default_by_ns is not None
        line.take_values(*MATCH_KEYS, *(("by",) if timed else ()))
        first, last = _range(line)
        by_ns = line.duration_ns("by", f"{self.default_by_ns or 0}ns")
        if timed and by_ns == 0:
            raise line.error(f"by={line.values.get('by')} is no delay; write one like by=1ms")
        action = self.action or self.name
        return PacketFault(action, read_match(line, line.where), first, last, by_ns, line.text)


def _range(line: Line) -> tuple[int, int]:
    which = line.which or "1"
    if which == "all":
        return EVERY
    first, dash, last = which.partition("-")
    low = line.count("the packet", first)
    high = line.count("the packet", last) if dash else low
    refuse(high < low, f"packets {which} are none; the first number is larger", line.error)
    return low, high


KINDS = (
    PacketKind("lose"),
    PacketKind("duplicate"),
    PacketKind("corrupt"),
    PacketKind("delay", DEFAULT_DELAY_NS),
    PacketKind("swap", DEFAULT_SWAP_NS),
)
