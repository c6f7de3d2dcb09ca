"""The device that ranks compute on, as it is declared: what a tile takes, and a put.

It computes at a rate of FLOP/s and reads and writes memory at a rate of bytes/s, which its
workgroups share evenly. A tile takes the longer of both times (the roofline model, Williams et al.,
CACM 2009).
"""

from dataclasses import dataclass

FLOPS = 22.6e12
MEMORY_BYTES_PER_S = 1.6384e12
LAUNCH_NS = 5_000.0
PUT_NS = 250.0
"""The device that is declared by default: AMD's data sheet of the Instinct MI210 (float32 vectors,
HBM2e), the launch of a kernel, and what a put costs the workgroup that makes it."""


@dataclass(frozen=True)
class ComputeDevice:
    """A device. Everything takes `slowdown` times as long as its rates say."""

    workgroups: int
    slowdown: float = 1.0
    """0: nothing takes any time."""
    flops: float = FLOPS
    memory_bytes_per_s: float = MEMORY_BYTES_PER_S
    launch: float = LAUNCH_NS
    put: float = PUT_NS
    measured: bool = False
    """Whether it is this machine, whose threads are the workgroups: nothing is declared."""

    def work_ns(self, flops: int, memory_bytes: int) -> int:
        """Return how long one workgroup takes for that."""
        seconds = max(flops / self.flops, memory_bytes / self.memory_bytes_per_s)
        return round(seconds * 1e9 * self.workgroups * self.slowdown)

    @property
    def launch_ns(self) -> int:
        """Return how long it takes until a kernel runs."""
        return round(self.launch * self.slowdown)

    @property
    def put_ns(self) -> int:
        """Return how long a workgroup takes to make a put."""
        return round(self.put * self.slowdown)
