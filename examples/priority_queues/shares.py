"""What three classes get of a link that each could fill alone: strict, by weight, and paused."""

from pathlib import Path

import weft

PROGRAM = Path(__file__).with_name("classes.p4")
SECONDS = 0.5


def shares(weights: tuple[int, int, int], paused: int | None = None) -> list[float]:
    """Return the parts of the link that the classes of priorities 0 to 2 got."""
    network = weft.single(4, 10_000_000)
    with weft.up(network, world="simulated", program=PROGRAM, priority_queues=3) as net:
        queues = [net.switch("leaf0").queue(4, priority) for priority in range(3)]
        for priority, queue in enumerate(queues):
            queue.set(weight=weights[priority])
            if priority == paused:
                queue.pause()
            frame = bytes([2, 0, 0, 0, 0, priority]) + bytes(1508)
            net.host(f"h{priority}").send(frame, count=500)
        net.advance(SECONDS)
        taken = [queue.read()["taken_bytes"] for queue in queues]
    return [each / sum(taken) for each in taken]


if __name__ == "__main__":
    print(f"{'priority':24}" + "".join(f"{priority:>9}" for priority in range(3)))
    for name, weights, paused in (
        ("strict", (0, 0, 0), None),
        ("strict, 2 is paused", (0, 0, 0), 2),
        ("weights 1, 2, 4", (1, 2, 4), None),
        ("weights 1, 3; 2 paused", (1, 3, 9), 2),
    ):
        cells = "".join(f"{100 * each:>7.1f} %" for each in shares(weights, paused))
        print(f"{name:24}{cells}")
