"""The simulated world: a topology in virtual time, in one process, without root.

It runs the same P4 program, agents and operations as the emulated world; a host's interface sends
at its link's rate, and switches run the compiled pipeline and its queues. Nothing sleeps, and
nothing reads a clock: one seed gives one trace, bit for bit, and `SimulatedWorld.digest` tells it
from any other.

    world = SimulatedWorld(leaf_spine(), seed=1)
    with Controller(world.topology, world.switch_addresses, program) as controller:
        plan = fabric_plan(controller.names, world.topology, seed=1)
        controller.apply(plan)
        results = world.run_operation(
            OperationConfig(Request(0, "allgather", "multicast", 1 << 20)),
            groups=[group.address for group in multicast.trees_of(plan)],
        )
"""

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import ipv4_text
from weft.agents.participant import Cast
from weft.agents.ranks import OperationConfig, RankReport
from weft.base.errors import InputError, MachineError, RunError, refuse
from weft.switch.p4runtime.local import LocalSwitch
from weft.switch.realtime.traces import Traces
from weft.topo.faults import Fault
from weft.topo.figures import check_link_figures
from weft.topo.interfaces import check_path_mtu
from weft.topo.network import Link, Topology
from weft.topo.worlds.simulated.cut import cut
from weft.topo.worlds.simulated.fabric import Fabric
from weft.topo.worlds.simulated.landings import Landings
from weft.topo.worlds.simulated.operation import SimulatedOperations, SimulatedProgress
from weft.topo.worlds.simulated.tap import TappedFrames, go_on_to
from weft.topo.worlds.world import Advance, MachineCode, Order, World

HOST_QUEUE_BYTES = 256 * 1024
"""The most bytes that a host's interface queues. The transport paces itself, so the queue is nearly
empty."""


_MAP_NORESERVE = 0x4000
"""Of Linux: the system keeps no memory for what nobody has written yet."""


def _now_ns(fabric: Fabric) -> int:
    return fabric.now_ns


class SimulatedWorld(World):
    """A topology on which operations run in virtual time, one after the other; time goes on from
    one to the next."""

    name = "simulated"

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 1,
        path_mtu: int = 4096,
        host_queue_bytes: int = HOST_QUEUE_BYTES,
        faults: Sequence[Fault] = (),
        cpu_ports: bool = False,
        code: MachineCode | None = None,
        payload: bool = True,
        headers_alone: bool = False,
        cores: int = 1,
        keep: bool = True,
    ) -> None:
        """Set up the network.

        ``seed`` seeds the switches' random(). ``faults`` are those of every operation, from its
        start. ``cpu_ports`` says whether switches have the port to the controller
        (`Topology.cpu_port`), which takes memory. With ``code``, programs that are yet to be
        compiled run at once, in the plain form, until then. Without ``payload``, lengths and places
        of data travel, and their bytes do not. The digest is then of frames' headers, which it
        also is with ``headers_alone``. With several ``cores``, as many threads drive parts of the
        network (`weft.topo.worlds.simulated.cut`), where links between these have a delay; what
        happens is the same. Unless ranks ``keep`` results, their operations are such as leave the
        same bytes on all of them, which are compared as they come, and dropped.

        Raises InputError for what makes no sense.
        """
        check_path_mtu(path_mtu)
        for link in topology.links:
            check_link_figures(link.rate_bps, link.delay_ns, link.queue_bytes, link.jitter_ns)
        for fault in faults:
            fault.check(topology)
        made = cut(topology, cores)
        refuse(
            cores > 1 and not payload,
            f"cores {cores}: what data without bytes come to is noted in one order, which parts of "
            "a network do not have; let them travel with their bytes",
        )
        self.topology = topology
        self.faults = tuple(faults)
        self.seed = seed
        self.path_mtu = path_mtu
        self.fabric = Fabric(
            topology,
            seed=seed,
            path_mtu=path_mtu,
            host_queue_bytes=host_queue_bytes,
            cpu_ports=cpu_ports,
            code=code,
            payload=payload,
            headers_alone=headers_alone,
            parts=made if made.window_ns else None,
        )
        if not keep:
            self.fabric.landings = Landings(noted=True, whole=True)
            self.fabric.world.landings = self.fabric.landings.location
        self._code = code
        self.controls = {
            switch.name: self.fabric.dataplane.control(index, switch.name)
            for index, switch in enumerate(topology.switches)
        }
        """The control side of each switch's engine, by name."""
        self._services = {
            switch.name: LocalSwitch(
                self.controls[switch.name], switch.device_id, partial(_now_ns, self.fabric)
            )
            for switch in topology.switches
        }
        self.frames: TappedFrames = TappedFrames(self.fabric)
        self.faults_done: dict[str, int] = {}
        """How many packets each packet fault of the last operation was done to, by its line."""
        self._memory: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    @property
    def switch_addresses(self) -> Mapping[str, LocalSwitch]:
        """Return the P4Runtime service of each switch, by name."""
        return self._services

    @property
    def now_ns(self) -> int:
        """Return the present virtual time in ns."""
        return self.fabric.now_ns

    @property
    def digest(self) -> str:
        """Return a digest, 32 hexadecimal digits, of every frame on every link so far (arrival
        time, direction, length, content)."""
        return self.fabric.digest

    def switch_statistics(self) -> dict[str, Any]:
        """Return, per switch and port, what was received, sent and dropped, as in the emulated
        world."""
        return self.fabric.statistics()

    def host_queue_drops(self) -> dict[str, int]:
        """Return, by host, the packets for which a host's interface had no room."""
        ports = self.fabric.dataplane.ports
        return {
            host.name: int(ports[self.fabric.host_index(host.rank)].counted.queue_drops)
            for host in self.topology.hosts
        }

    def fault_losses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return, by direction, the packets and bytes that faults lost on the link, or the link
        itself at random (`weft.topo.network.Link.loss`), where there are any.

        These come on top of what the P4 fault tables lose. No switch counts what a host sent and a
        fault lost.
        """
        return self.fabric.lost_on_links()

    def run_operation(
        self,
        operation: OperationConfig,
        progress: Callable[[SimulatedProgress], None] | None = None,
        *,
        groups: Sequence[int] = (),
        cast: Cast | None = None,
        faults: Sequence[Fault] | None = None,
        load_bin_ns: int = 0,
        notice_after_ns: int | None = None,
        noticed: Callable[[Sequence[str]], None] | None = None,
    ) -> list[RankReport]:
        """Run an operation, or several that start at the same time, on fresh agents.

        Args:
            progress: called every so many events.
            groups: addresses of the multicast groups that the controller has installed.
            cast: what runs on which host; by default every host is a rank of one team, which has
                the `groups`.
            faults: these replace the world's own.
            load_bin_ns: unless it is 0, what links carry until all ranks are done is counted in
                bins of this length, or of a multiple of it; `switch_statistics` has the counts.
            notice_after_ns: how long after a link between switches went down, or came back, the
                controller knows it (see `weft.topo.faults.schedule`); None means never.
            noticed: called then with the names of all links that are known to be down; it may
                change the switches' tables. The caller knows already what `known_from_start`
                returns.

        Returns:
            one result a rank, in order; ``verified`` is false and ``error`` set where it failed.
        """
        chosen = self.faults if faults is None else faults
        if cast is None:
            addresses = [host.ip for host in self.topology.hosts]
            cast = Cast.of_one_team(addresses, [ipv4_text(group) for group in groups])
        running = SimulatedOperations(
            self.fabric, self.path_mtu, self.memory, operation, progress, cast
        )
        try:
            return running.run(chosen, load_bin_ns, notice_after_ns, noticed)
        finally:
            self.faults_done = running.faults_done

    @contextmanager
    def gathered(self, order: Order, advance: Advance) -> Iterator[Callable[[], list[RankReport]]]:
        """See `World.gathered`."""
        yield lambda: self.run_operation(
            order.operation,
            lambda state: advance(state.fraction),
            cast=order.cast,
            faults=order.faults,
            notice_after_ns=order.notice_after_ns,
            noticed=lambda links: order.lead_around((), links),
            load_bin_ns=order.load_bin_ns,
        )

    def memory(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory for all ranks' buffers; every operation of the same size uses it again.

        Where bytes do not travel, these are addresses that nobody reads or writes, and take none.
        """
        if size and not self.fabric.carries_bytes:
            kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            return np.frombuffer(mmap.mmap(-1, size, flags=kind), np.uint8)
        if len(self._memory) != size:
            self._memory = np.zeros(0, np.uint8)
            try:
                self._memory = np.empty(size, np.uint8)
            except MemoryError:
                raise MachineError(
                    f"the ranks' buffers take {size / 2**30:.1f} GiB, more than this machine "
                    "gives: choose fewer ranks or smaller shards"
                ) from None
        return self._memory

    def close(self) -> None:
        """Hear nothing more."""
        self.make_ready()

    def make_ready(self) -> None:
        """Hear nothing more."""
        self.frames.close()

    def sent(self, station: int) -> tuple[int, int]:
        """See `World.sent`."""
        counted = self.fabric.dataplane.ports[self.fabric.host_index(station)].counted
        return int(counted.tx_packets), int(counted.tx_bytes)

    def plain(self) -> list[str]:
        """See `World.plain`."""
        if self._code is None:
            return []
        forms = {
            name: self.fabric.dataplane.form(control.switch)["form"]
            for name, control in self.controls.items()
        }
        return [name for name, form in forms.items() if form == "plain"]

    def wait_for_code(self) -> None:
        """See `World.wait_for_code`."""
        if self._code is None or not self.plain():
            return
        self._code.wait()
        self.fabric.take_code()
        plain = ", ".join(self.plain())
        refuse(plain, f"the program of {plain} could not be compiled", RunError)

    @cached_property
    def _traces(self) -> Traces:
        return Traces(self.controls, self.fabric.dataplane, nullcontext(), lambda action: action())

    def start_trace(self, switch: str, packets: int) -> None:
        """See `World.start_trace`."""
        self._traces.start(switch, packets)

    def take_trace(self, switch: str, *, end: bool = False) -> dict[str, Any]:
        """See `World.take_trace`."""
        taken = self._traces.take(switch)
        if end:
            self._traces.end(switch)
        return taken

    def set_link(self, node: str, neighbour: str, *, up: bool) -> None:
        """See `World.set_link`."""
        ends = self.topology.direction(node, neighbour).ends
        self.fabric.set_down([ends, ends[::-1]], not up)

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """See `World.set_rates`."""
        for ends, rate_bps in rates_bps.items():
            self.fabric.set_rate(ends, rate_bps)

    def change_link(self, before: Link, after: Link) -> None:
        """See `World.change_link`."""
        super().change_link(before, after)
        self.fabric.set_figures(after)

    @property
    def now_s(self) -> float:
        """Return the present virtual time in seconds."""
        return self.now_ns / 1e9

    def wait(self, seconds: float) -> None:
        """Let virtual time pass."""
        go_on_to(self.fabric, self.now_ns + round(seconds * 1e9))

    def without(self, what: str) -> InputError:
        """See `World.without`."""
        return InputError(
            f"the simulated world has {what}: it is for tables, frames, faults and collectives in "
            "virtual time; use world='emulated'"
        )
