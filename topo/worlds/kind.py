"""What a world is: its name, what it is like, and what it cannot do."""

from collections.abc import Sequence
from typing import Protocol

from weft.base.errors import InputError
from weft.topo.faults import Fault
from weft.topo.network import Topology
from weft.topo.worlds.world import NetworkOptions, World


class Wanted(Protocol):
    """What of a scenario its world must be able to do."""

    @property
    def switch(self) -> str: ...
    @property
    def links(self) -> str: ...
    @property
    def pcap(self) -> bool: ...
    @property
    def trace(self) -> str: ...
    @property
    def cores(self) -> int: ...
    @property
    def faults(self) -> Sequence[Fault]: ...


class WorldKind:
    """A world that networks come up in.

    A package names an instance of a subclass by an entry point in the group ``weft.worlds``; one of
    Weft's own is a folder of `weft.topo.worlds` with a `WORLD` in ``kind``.
    """

    name: str
    has_real_time = False
    """Whether time is the machine's: then no two runs are quite alike, ranks are processes, and
    what the machine did to a run has to be judged. Virtual time stands still between operations,
    and one seed gives one run."""
    takes_machine = False
    """Whether a network takes the machine, as root: it comes up once for all runs that can share
    it, and no two of a sweep are up at a time. Otherwise every run has a network of its own."""
    rank_bytes = 1 << 20
    """The memory, roughly, that a rank needs besides its buffer."""

    def network(self, topology: Topology, options: NetworkOptions) -> World:
        """Return a network that comes up when it is entered.

        Raises:
            InputError, MachineError: the world, or this machine, cannot bring it up.
        """
        raise NotImplementedError

    def check_hosts(self, hosts: int) -> None:
        """Raise InputError for more hosts than a network can have."""

    def check_fault(self, fault: Fault, switch: str) -> None:
        """Raise InputError for a fault that the world, or this kind of switch, cannot carry out."""

    def check(self, wanted: Wanted, network: Topology) -> None:
        """Raise InputError for what a scenario wants of a network, and the world, or its switches,
        cannot do."""

    def cores(self, wanted: Wanted, network: Topology) -> int:
        """Return how many cores drive a network, of those that a scenario wants."""
        return 1


def untraced(switch: str) -> InputError:
    """Return what is said where a switch cannot be traced."""
    return InputError(
        f"trace {switch!r}: the built-in switch is traced, in the emulated world; "
        "choose world 'emulated' and switch 'weft', or leave trace out"
    )
