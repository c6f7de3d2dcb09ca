"""Where things are in the arrays of the simulated world's compiled event loop.

Beside the context of `weft.switch.engine`, which holds all switches, links and queues, there is one
array of words for the world, a row for every host and a row for every packet fault. A *port index*
is the engine's: switch * ports per switch + port. Behind the switches' ports come one for each
host's uplink, then one for each host itself, whose events are the times at which it is called.
"""

from __future__ import annotations

# Words of the world.
W_NOW_NS = 0
W_STOP_NS = 1
"""Events after this time are left alone."""
W_HOSTS = 2
W_HOST_TABLE = 3
"""Address of int64[hosts, HOST_WORDS]."""
W_FIRST_UPLINK = 4
"""Port index of host 0's uplink; the others follow."""
W_FIRST_CALL = 5
"""Port index whose events are the calls of host 0; the others follow."""
W_PEERS = 6
"""Address of int64[port indices]: the port index at the other end of the link, or NONE."""
W_DIRECTIONS = 7
"""Address of int64[port indices]: number of the link direction that leaves here, or NONE."""
W_DOWN = 8
"""Address of int64[port indices]: not 0 while what leaves here is lost on the link."""
W_LOST_PACKETS = 9
"""Address of int64[port indices]: what faults lost of what left here."""
W_LOST_BYTES = 10
W_DIGEST_LOW = 11
W_DIGEST_HIGH = 12
W_SENDING = 13
"""Address of the words of a batch of one datagram, `weft.agents.transport.layout`'s BATCH_*."""
W_RECEIVING = 14
W_RECEIVED_ROW = 15
"""Address of uint8[stride]: the datagram that the host is called for."""
W_HOST = 16
"""The host that must be called."""
W_BUDGET = 17
"""Events until the loop pauses."""
W_FRAMES = 18
"""Frames that crossed a link."""
W_DELIVERED = 19
"""Datagrams that hosts took in."""
W_DATA_DELIVERED = 20
"""Those of them that are no acknowledgements."""
W_MARGIN = 21
"""Free packets and buffers that must be left before an event."""
W_RULES = 22
"""Address of int64[rules, RULE_WORDS]."""
W_RULE_COUNT = 23
W_RULE_PLACES = 24
"""Address of uint8[rules, port indices]: whether a rule holds for what leaves there."""
W_RULE_OPCODES = 25
"""Address of uint8[rules, 256]."""
W_PORT_INDICES = 26
W_HELD = 27
"""Address of int64[HELD_ROOM, HELD_WORDS]: frames that faults keep for later."""
W_HELD_COUNT = 28
W_HELD_NUMBER = 29
W_FAILURE = 30
W_FRAME_BYTES = 31
"""The longest frame that a host sends."""
W_EVENTS = 32
W_TRIGGERED = 33
"""Not 0: a rule of action TRIGGER has applied."""
WORLD_WORDS = 40

# Words of a host.
H_ENDPOINT = 0
"""Address of its endpoint's words; 0 while it has none."""
H_DUE_NS = 1
H_ATTENTIVE = 2
H_ALIVE = 3
H_ADDRESS = 4
H_MAC = 5
H_GATEWAY_MAC = 6
H_GROUPS = 7
"""Address of int64[groups]: multicast addresses that it has joined."""
H_GROUP_COUNT = 8
H_REFUSED = 9
"""Frames that the interface or the stack does not take."""
H_QUEUE_BYTES = 10
"""Bound of what waits at the uplink; the transport is told what is left of it."""
HOST_WORDS = 16

# Words of a rule of a packet fault, and what it does.
R_ACTION = 0
R_FIRST = 1
"""The first of the packets that match, from 1, that it is done to."""
R_LAST = 2
R_SOURCE = 3
"""IPv4 address, or NONE for any."""
R_DESTINATION = 4
R_CHUNK = 5
"""The lower 24 bits of the immediate, or NONE."""
R_DELAY_NS = 6
R_SEEN = 7
"""Packets that matched."""
R_DONE = 8
R_RECEIVER = 9
"""Port index at the far end of the destination's downlink, where multicast is for it."""
RULE_WORDS = 12

LOSE, DUPLICATE, CORRUPT, DELAY, SWAP, TRIGGER = range(1, 7)

# Words of a held frame.
K_TIME_NS = 0
K_NUMBER = 1
K_PACKET = 2
K_PORT = 3
K_SWAPPED = 4
"""It goes as soon as its successor has."""
HELD_WORDS = 5
HELD_ROOM = 4096

# Why the loop came back.
IDLE, STOPPED, CALL, GROW, PAUSE, TRIGGERED, FAILED, ENDLESS = range(8)

NEVER = 1 << 62

ETHERNET_BYTES = 14
IP_BYTES = 20
UDP_BYTES = 8
STACK_BYTES = ETHERNET_BYTES + IP_BYTES + UDP_BYTES
"""What stands before a datagram in a frame."""
