"""What a frame costs a switch that does nothing with it: a bare loop over a ring of veth pairs.

It is what a switch's hops are compared with: frames of the size of a full data packet, as many
links as eight hosts have in a small Clos, and a rest between two looks at the sockets that is as
long as a switch's.
"""

import time
from contextlib import ExitStack

import numpy as np

from weft.base.errors import RunError, refuse
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.base.system_calls import Timespec
from weft.switch.realtime import bare
from weft.switch.realtime.packet_sockets import open_receiver, open_sender
from weft.tools.bench.udp_floor import ip, main, measured_apart

HOPS = 48_000
LINKS = 12
FRAME_BYTES = 14 + 20 + 8 + 12 + 4096 + 4
"""Ethernet, IPv4, UDP, BTH, a payload and the ICRC."""
BATCHES = (1, 4, 16)
REST_NS = 200_000
ROUNDS = 3
_TYPE = b"\x88\xb5"
"""The EtherType of frames that no protocol of the kernel takes (IEEE 802, local experiments)."""


def hop_floor_ns() -> dict[int, float]:
    """Return processor time of a frame that is received and sent on, in ns, by how many of them go
    in a system call: the least of three rounds.

    Raises:
        MachineError: no network namespace can be made here.
        RunError: frames were lost.
    """
    return measured_apart(__name__, "the bare loop over frames")


def _measure() -> dict[int, float]:
    """Leave the machine's network, and measure in an empty one."""
    check_call(libc.unshare(CLONE_NEWNET))
    for i in range(LINKS):
        ip(
            f"link add n{i} type veth peer name f{i}",
            f"link set n{i} mtu 9000 addrgenmode none up",
            f"link set f{i} mtu 9000 addrgenmode none up",
        )
    messages = bare.FrameMessages()
    rest = np.zeros(1, Timespec.dtype)
    rest["nanoseconds"] = REST_NS
    with ExitStack() as stack:
        senders = [stack.enter_context(open_sender(f"n{i}")) for i in range(LINKS)]
        receivers = [stack.enter_context(open_receiver(f"f{i}")) for i in range(LINKS)]
        near = np.array([sender.fileno() for sender in senders])
        far = np.array([receiver.fileno() for receiver in receivers])

        def circulate(batch: int, turns: int) -> int:
            time_at = rest.ctypes.data
            return bare.circulate(
                far, near, messages.headers, messages.vectors, batch, turns, time_at
            )

        frame = b"\2" * 12 + _TYPE + bytes(FRAME_BYTES - 14)
        found = {}
        under_way = 0
        for batch in BATCHES:
            for sender in senders:
                for _ in range(batch - under_way):
                    sender.send(frame)
            under_way = batch
            turns = -(-HOPS // (LINKS * batch))
            circulate(batch, 3)  # what has to be loaded is
            rounds = []
            for _ in range(ROUNDS):
                started_ns = time.process_time_ns()
                hops = circulate(batch, turns)
                rounds.append((time.process_time_ns() - started_ns) / hops)
                expected = turns * LINKS * batch
                refuse(hops != expected, f"{hops} of {expected} frames came", RunError)
            found[batch] = min(rounds)
    return found


if __name__ == "__main__":
    main(_measure)
