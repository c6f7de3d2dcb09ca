"""The records of the simulated world's compiled event loop.

Beside the context of `weft.switch.engine`, which holds all switches, links and queues, there is one
record for the world, a row for every host and a row for every packet fault. A *port index* is the
engine's: switch * ports per switch + port. Behind the switches' ports come one for each host's
uplink, then one for each host itself, whose events are the times at which it is called.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt

from weft.agents.wire.compiled import JIT as AGENTS
from weft.base.jit import Jit, Record, Words, record
from weft.switch.engine.dataplane.layout import HEAP_WIDTH
from weft.switch.engine.native.compiled import JIT as ENGINE

Frame = npt.NDArray[np.uint8]
"""The buffer that a frame is in."""


@record
class WorldRecord(Record):
    """The state of the world."""

    now_ns: int
    stop_ns: int
    """Events after this time are left alone."""
    hosts: int
    host_table: int
    """Address of `HostRecord`[hosts]."""
    first_uplink: int
    """Port index of host 0's uplink; the others follow."""
    first_call: int
    """Port index whose events are the calls of host 0; the others follow."""
    peers: int
    """Address of int64[port indices]: the port index at the other end of the link, or NONE."""
    directions: int
    """Address of int64[port indices]: number of the link direction that leaves here, or NONE."""
    down: int
    """Address of int64[port indices]: not 0 while what leaves here is lost on the link."""
    lost_packets: int
    """Address of int64[port indices]: what faults lost of what left here."""
    lost_bytes: int
    digest_low: int
    digest_high: int
    sending: int
    """Address of a `Batch` of one datagram."""
    receiving: int
    received_row: int
    """Address of uint8[stride]: the datagram that the host is called for."""
    host: int
    """The host that must be called."""
    budget: int
    """Events until the loop pauses."""
    frames: int
    """Frames that crossed a link."""
    delivered: int
    """Datagrams that hosts took in."""
    margin: int
    """Free packets and buffers that must be left before an event."""
    rules: int
    """Address of `Rule`[rules]."""
    rule_count: int
    rule_places: int
    """Address of uint8[rules, port indices]: whether a rule holds for what leaves there."""
    rule_opcodes: int
    """Address of uint8[rules, 256]."""
    port_indices: int
    held: int
    """Address of `Held`[HELD_ROOM]: frames that faults keep for later."""
    held_count: int
    held_number: int
    failure: int
    frame_bytes: int
    """The longest frame that a host sends."""
    events: int
    landings: int
    """Address of the `Landings` of data that travel without bytes; 0 where bytes travel."""
    headers_alone: int
    """Whether the digest mixes the headers of frames alone."""
    triggered: int
    """Not 0 once a rule of action TRIGGER has applied."""
    ahead: Annotated[Words, HEAP_WIDTH]
    """The ports next in the heap for which memory has been fetched."""
    next_frame: int
    """Where the payload is of the frame that arrives by the next event; 0 where it has been fetched
    already, or nobody knows of one."""
    part: int
    """Address of the `PartRecord` where the network is cut, and this is the world of a part; 0
    where it is whole."""


@record
class HostRecord(Record):
    """The state of a host."""

    endpoint: int
    """Address of its endpoint's words; 0 while it has none."""
    due_ns: int
    attentive: int
    alive: int
    address: int
    mac: int
    gateway_mac: int
    groups: int
    """Address of int64[groups]: multicast addresses that it has joined."""
    group_count: int
    refused: int
    """Frames that the interface or the stack does not take."""
    captured: int
    """Not 0 while frames that arrive are captured (`weft.topo.worlds.simulated.tap`)."""
    queue_bytes: int
    """Bound of what waits at the uplink; the transport is told what is left of it."""


@record
class Rule(Record):
    """A rule of a packet fault: which frames match it, and what it does to them."""

    action: int
    first: int
    """The number, from 1, of the first matching packet that the rule is applied to."""
    last: int
    source: int
    """IPv4 address, or NONE for any."""
    destination: int
    chunk: int
    """The lower 24 bits of the immediate, or NONE."""
    delay_ns: int
    seen: int
    """Packets that matched."""
    done: int
    receiver: int
    """Port index at the far end of the destination's downlink: a multicast packet there matches as
    well."""


LOSE, DUPLICATE, CORRUPT, DELAY, SWAP, TRIGGER = range(1, 7)
"""What a rule does: what `weft.topo.faults.packets.PACKET_ACTIONS` names, in that order; or it
tells that a packet has come."""


@record
class Held(Record):
    """A frame that a fault keeps back."""

    time_ns: int
    number: int
    packet: int
    port: int
    swapped: int
    """Whether the frame waits for its successor: it goes as soon as that has gone."""


HELD_ROOM = 4096


@record
class PartRecord(Record):
    """The state of a part of a network that is cut (`weft.topo.worlds.simulated.parts`): whole
    cache lines, since others read it while its thread writes."""

    world: int
    context: int
    team: int
    number: int
    step: int
    """What it does next, one of `RUNS`, `TAKES` and `CLEARS`."""
    round: int
    """How often it has been ready to meet the others."""
    next_ns: int
    """When its next event is, or NONE, as it was when it was last ready."""
    over: int
    """Not 0 if nothing was waited for any more then."""
    done: int
    """Not 0 once nothing is waited for: Python says so."""
    sender: int
    """The part that it takes frames of..."""
    place: int
    """... and the place in that one's list."""
    wanted: int
    """How many free packets and buffers it needs to go on."""
    inbound: int
    """Address of int64[port indices]: the row of `crossings` of what leaves there for this part; or
    NONE, for what does not come from another."""
    crossings: int
    """Address of `Chain`[rows]: frames of other parts, in the order of their arrival."""
    outbound: int
    """Address of int64[port indices]: the part to which frames go from there; NONE for its own."""
    noted: int
    """Address of int64[port indices]: not 0 for ports that are in the lists of `outgoing`."""
    outgoing: int
    """Address of int64[parts, outgoing_room]: the ports from which frames are on the way to each
    part."""
    outgoing_room: int
    outgoing_counts: int
    """Address of int64[parts]."""
    events: int
    """Address of `LoggedEvent`[event_room]: what this part has done since all met."""
    event_count: int
    event_room: int
    arrivals: int
    """Address of `LoggedArrival`[arrival_room], in the order of the events."""
    arrival_count: int
    arrival_room: int
    spare: Annotated[Words, 7]


@record
class TeamRecord(Record):
    """What the parts of a network have in common."""

    parts: int
    """Address of `PartRecord`[count]."""
    count: int
    window_ns: int
    stop_ns: int
    halt: int
    """Not 0 once all are to come back as soon as they can."""
    merged: int
    """Address of int64[count, 2]: how many events and arrivals of each are in the digest."""


@record
class LoggedEvent(Record):
    """An event that a part has come to."""

    time_ns: int
    port_index: int
    arrivals: int
    """How many frames arrived by it."""


@record
class LoggedArrival(Record):
    """A frame that has arrived, as the digest has it."""

    direction: int
    length: int
    content: int


RUNS, TAKES, CLEARS = range(3)

# Why the loop came back.
IDLE, STOPPED, CALL, GROW, PAUSE, TRIGGERED, FAILED, ENDLESS, HALTED = range(9)

NEVER = 1 << 62

ETHERNET_BYTES = 14
IP_BYTES = 20
UDP_BYTES = 8
STACK_BYTES = ETHERNET_BYTES + IP_BYTES + UDP_BYTES
"""What stands before a datagram in a frame."""


COMPILED = ("ahead", "crossing", "faults", "frames", "hosts", "layout", "loop", "parts")
"""The modules of this folder that have compiled functions, or what these are made of."""
_HERE = Path(__file__).resolve().parent

JIT = Jit(
    "simulated",
    (*ENGINE.sources, *AGENTS.sources, *(_HERE / f"{name}.py" for name in COMPILED)),
    brought=AGENTS.brought,
    error_model="numpy",
)
entry, internal = JIT.entry, JIT.internal
