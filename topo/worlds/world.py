"""What a network is asked that is up in a world, whichever world that is."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from weft.base.errors import InputError
from weft.topo.faults import Fault
from weft.topo.interfaces import LinkKind
from weft.topo.network import Link, Topology
from weft.topo.worlds.processors import CpuTimes

if TYPE_CHECKING:
    from typing_extensions import Self

    from weft.agents.participant import Cast
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.switch.engine.codegen.loading import Pipeline

Advance = Callable[[float], None]
"""A function that is told which part of the work is done, from 0 to 1."""


class MachineCode(Protocol):
    """Who has programs compiled that run in the plain form meanwhile, in a world of this
    process."""

    def want(self, program: "Pipeline") -> None:
        """Have a program compiled; returns at once."""

    def wait(self) -> None:
        """Return when all programs have been compiled."""

    def told(self) -> "Sequence[tuple[Pipeline | None, int | str]]":
        """Return what has become of programs since this was last called: each that has machine
        code, with its address; or what is wrong with one."""


@dataclass(frozen=True)
class NetworkOptions:
    """What is asked of a network that is to come up, beside its shape."""

    switch: str = "weft"
    path_mtu: int = 4096
    """The RoCE payload in bytes."""
    seed: int = 1
    """Of the switches' random()."""
    links: LinkKind = "veth"
    pcap: Path | None = None
    """The folder for captures of every link end."""
    bypass_qdisc: bool = True
    """Whether what switches send passes by their interfaces' queueing disciplines, if there are
    some."""
    stands: bool = False
    """Whether scripts, and other processes, work with the network."""
    controlled: bool = True
    """Whether Weft's own controller owns the switches."""
    grpc_port: int | None = None
    """The first switch's TCP port of loopback; None: there is none."""
    algorithms: tuple[str, ...] | None = None
    """Those by which ranks will run as soon as the network is up, so that all they need is loaded
    meanwhile; None: nobody knows whether there will be ranks."""
    payload: bool = True
    """Whether data travel with their bytes."""
    cores: int = 1
    """Where time is virtual: how many threads drive the network, a part each."""
    keep: bool = True
    """Whether ranks keep their results until the end of a run."""
    meanwhile: Callable[[], None] = lambda: None
    """What is to be done while the network comes up."""
    code: MachineCode | None = None
    """Where the world is this process: who has programs compiled, which run at once; None: they
    wait."""


def _nowhere(_lost: Sequence[str], _without: Sequence[str]) -> None:
    """Lead nothing elsewhere."""


@dataclass(frozen=True)
class Order:
    """What ranks are to run."""

    name: str
    """The name that tells the run from the others on the same network."""
    operation: "OperationConfig"
    cast: "Cast"
    """Who runs on which host."""
    load_bin_ns: int = 0
    """How long the bins of time are at first in which the links' loads are counted; 0: they are
    not."""
    faults: Sequence[Fault] = ()
    """Those that are carried out by name."""
    notice_after_ns: int | None = None
    """How long after a link between switches went down, or came back, the controller knows it; None
    means never."""
    lead_around: Callable[[Sequence[str], Sequence[str]], None] = _nowhere
    """A function that makes the named directions of links lose everything, and leads nothing over
    the named links."""


class Frames(Protocol):
    """Frames of hosts, as scripts send and see them. Interfaces are numbered
    (`Topology.stations`)."""

    most_bytes: int
    """The longest frame that can be sent."""

    def mute_hosts(self) -> None:
        """Let hosts' kernels, if they have some, send nothing by themselves."""
        return

    def send(self, station: int, frame: bytes) -> None:
        """Send a frame from an interface."""

    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]:
        """Return frames that come to an interface, each with its time in s: what has come since it
        was last asked, and what comes until so many are there (0: any number), or the time is
        over."""


class World(Protocol):
    """A network in a world, which is up while this context manager is entered.

    It does what is asked of it in its own way. What all networks do alike (programming switches,
    the sequence of a run, counting, the verdict) is functions over it, and none of its business: it
    knows no controller.
    """

    name: str
    """The world's."""
    topology: Topology
    switch_kind: str = "weft"
    frames: Frames
    """Those of its hosts."""
    lossy: frozenset[str] = frozenset()
    """The names of links that have been made to lose packets since the network is up."""

    # --- up

    def __enter__(self) -> "Self":
        """Bring everything up; return when all switches take P4Runtime connections."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take everything down; do nothing if it is."""
        return

    @property
    def switch_addresses(self) -> Mapping[str, Any]:
        """Return where each switch serves P4Runtime, by name, for a `Controller`."""

    def check_alive(self) -> None:
        """Raise RunError, which names the process, if one that the network consists of has
        ended."""
        return

    def blaming_the_dead(self) -> AbstractContextManager[None]:
        """Name the process of the network that has ended, if the block fails because of that."""
        return nullcontext()

    # --- gather, run

    def make_ready(self) -> None:
        """Get ready to gather ranks: all that they need is loaded, and nobody hears frames any
        more. Raises InputError while a thread sends or sniffs."""
        return

    def expect(self, order: Order) -> None:
        """Begin to gather the ranks of the first order, while the switches are programmed."""
        return

    def gathered(
        self, order: Order, advance: Advance
    ) -> AbstractContextManager[Callable[[], "list[RankReport]"]]:
        """Gather the ranks, and give what runs their operation. They end with the block.

        Raises:
            RunError: a rank ended or did not come.
        """

    def evidence(self) -> tuple[CpuTimes, CpuTimes] | None:
        """Return what the machine's processors had done when the last operation began, and when it
        ended; None if none can be too slow for the network."""
        return None

    @property
    def digest(self) -> str | None:
        """Return what tells all frames so far from any others; None if time is not virtual."""
        return None

    # --- counts

    def switch_statistics(self) -> dict[str, Any]:
        """Return what the switches report of themselves."""

    def switch_queue_drops(self) -> dict[tuple[str, int], int]:
        """Return, by switch and port, what queues behind switches dropped."""
        return {}

    def host_queue_drops(self) -> dict[str, int]:
        """Return, by host, what hosts' own queues dropped."""

    def fault_losses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return, by direction, packets and bytes that faults by name lost, or the link itself at
        random (`weft.topo.network.Link.loss`), and no program of a switch counts."""

    def sent(self, station: int) -> tuple[int, int]:
        """Return the packets and bytes that an interface of a host (`Topology.stations`) has
        sent."""

    def plain(self) -> list[str]:
        """Return the switches that are slow for now: their programs are yet to be compiled, and run
        in the plain form meanwhile."""
        return []

    def wait_for_code(self) -> None:
        """Return once all switches are as fast as they can be. Raises RunError if a program cannot
        be compiled."""
        return

    def start_trace(self, switch: str, packets: int) -> None:
        """Trace the next packets of a switch. Raises RunError if it cannot be traced."""

    def take_trace(self, switch: str, *, end: bool = False) -> dict[str, Any]:
        """Return what has been traced at a switch (`weft.switch.realtime.traces.Traces.take`) since
        this was last called; ``end`` ends the trace. Raises RunError."""

    def doubts(self) -> list[str]:
        """Return, once everything is down, notes on what was asked for and may not be whole."""
        return []

    # --- links

    def set_link(self, node: str, neighbour: str, *, up: bool) -> None:
        """Let the link between two nodes fail or come back; while it is down, it loses
        everything."""

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """Let directions of links between switches, given by their ends, go on at other rates, in
        bit/s. Raises RunError where that is not possible."""

    def change_link(self, before: Link, after: Link) -> None:
        """Let a link go on with another rate, delay, jitter or loss, in both directions. Raises
        RunError where that is not possible."""
        if after.loss:
            self.lossy |= {after.name}

    def loses(self, link: Link) -> bool:
        """Return whether a link loses packets at random by itself, or has done so."""
        return link.loss > 0 or link.name in self.lossy

    # --- time

    @property
    def now_s(self) -> float:
        """The time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def advance(self, seconds: float) -> None:
        """Let virtual time pass. Raises InputError where time goes by itself."""
        self.wait(seconds)

    # --- processes: of hosts, and of others

    running: Any = None
    """What other processes are told of the network, if there can be some; else None."""

    @property
    def mininet(self) -> Any:
        """The ``mininet.net.Mininet`` object. Raises InputError if there is none."""
        raise self.without("no Mininet")

    def popen(self, host: str, command: list[str], **options: Any) -> Any:
        """Start a command on a host, as `subprocess.Popen` does. Raises InputError if hosts have no
        kernel."""
        raise self.without(f"no kernel that could run {' '.join(command)!r} on {host}")

    def addresses(self) -> dict[str, str]:
        """Return where each switch serves P4Runtime, as gRPC's clients take it. Raises InputError
        if no process but this one reaches them."""
        raise self.without("no sockets where switches serve P4Runtime")

    def programs(self) -> dict[str, str]:
        """Return the source that each switch runs; "" for the fabric's program, or for none."""
        return {switch.name: switch.program for switch in self.topology.switches}

    def emptied(self) -> set[str]:
        """Return the switches that have lost entries since another process loaded a program."""
        return set()

    def without(self, what: str) -> InputError:
        """Return the error that says what the world does not have."""
        return InputError(f"the {self.name} world has {what}; use world='emulated'")
