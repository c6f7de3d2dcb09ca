"""What a class of its own gives a small collective beside a bulk flow to one of its hosts."""

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import weft

MEMBERS = "h0,h1,h2,h3"
BULK_FRAMES = 2000
"""Of 1514 bytes: a link of 100 Mbit/s carries them in 242 ms."""


def completion_ms(bulk: bool, weights: tuple[int, ...]) -> float:
    """Return how long an Allgather of 64 KiB a rank takes, whose packets have the greatest of as
    many priorities as there are weights; what h4 sends to h1 has the least."""
    queues = len(weights)
    with weft.up(weft.single(5), world="simulated", priority_queues=queues) as net:
        for priority, weight in enumerate(weights):
            for port in range(1, 6) if weight else ():
                net.switch("leaf0").queue(port, priority).set(weight=weight)
        source, destination = net.host("h4"), net.host("h1")
        frame = Ether(dst=source.gateway_mac) / IP(src=source.ip, dst=destination.ip) / UDP()
        frame /= bytes(1514 - len(frame))
        if bulk:
            source.send(frame, count=BULK_FRAMES)
        result = net.allgather(
            size="64KiB", algorithm="ring", hosts=MEMBERS, priorities=(queues - 1,)
        )
    assert result.verified
    return result.completion_ns / 1e6


if __name__ == "__main__":
    for name, bulk, weights in (
        ("alone", False, (0,)),
        ("bulk, one queue", True, (0,)),
        ("bulk, strict", True, (0, 0)),
        ("bulk, weights 1, 3", True, (1, 3)),
    ):
        print(f"{name:20}{completion_ms(bulk, weights):>8.1f} ms")
