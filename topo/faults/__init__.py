"""Faults: links that lose packets at random, packets that an accident befalls, and outages.

A link with a probability of loss is written ``LINK:loss=P``; LINK is ``leaf0-spine1`` (both
directions) or ``leaf0>spine1``, with ports where two nodes have several links
(``s1:1-s2:1``). All other faults are named, one on each line:

    WHERE:ACTION=WHICH[,KEY=VALUE ...]

A packet fault is ``lose``, ``duplicate``, ``corrupt`` (one bit behind the UDP header is turned
over), ``delay`` or ``swap`` (the packet changes places with its successor). WHICH counts the
packets that match, in the order in which they reach the far end of their link: ``3``, ``2-5`` or
``all``. KEYs say what packets must match: ``opcode`` (a kind or a name, see `OPCODE_KINDS`),
``rank`` (who sent it), ``to`` (whom it is for; for multicast, whose downlink it is on), ``chunk``
(the number in its immediate). ``by`` says how long a packet is delayed, or waits for its successor.

    h0>leaf0:lose=3                              leaf0-spine1:duplicate=2,opcode=chunk
    *:lose=1,opcode=ack,to=3                     host_down:corrupt=all,chunk=17,rank=2
    leaf0>h1:delay=4,by=2ms                      fabric_up:swap=1

An outage is ``fail`` (a link, one direction of it, or a switch) or ``kill`` (a host's rank). It
begins at a time from the start of the operation, or when so many packets that match have arrived
(``after``, with the keys above, and ``on`` for where they are counted); ``for`` says how long it
lasts, otherwise it lasts for good. ``slow`` lets links between switches go on at a part of their
``rate``, from the start if no time is given.

    leaf0-spine1:fail,at=2ms                     spine0:fail,at=10ms,for=5ms
    h3:kill,at=1ms                               h3:kill,after=5,opcode=chunk,on=h3>leaf1
    leaf0-spine1:slow,rate=0.25                  spine0:slow,rate=10%,at=5ms,for=20ms

WHERE is a link (both directions), a direction, a tier (``host_up``, ``host_down``, ``fabric_up``,
``fabric_down``) or ``*``. All directions of a link, of a tier or of ``*`` count into the same
number.

Each kind of fault is an object (`FaultKind`), which holds its grammar, its checks, and what it does
in both worlds.
"""

from weft.topo.faults.fault import (
    FAULTS,
    Fault,
    FaultKind,
    Line,
    LinkLoss,
    emulated_lines,
    lasting_lines,
    split_line,
)
from weft.topo.faults.outages import Outage, OutageKind, slow_rates_bps
from weft.topo.faults.packets import OPCODE_KINDS, PacketFault, PacketMatch

__all__ = [
    "FAULTS",
    "OPCODE_KINDS",
    "Fault",
    "FaultKind",
    "Line",
    "LinkLoss",
    "Outage",
    "OutageKind",
    "PacketFault",
    "PacketMatch",
    "emulated_lines",
    "lasting_lines",
    "slow_rates_bps",
    "split_line",
]
