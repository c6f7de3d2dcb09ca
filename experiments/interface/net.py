"""Networks that are up: ``with weft.up(weft.leaf_spine(2, 2, 2)) as net: ...``"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from weft.base import arguments as given
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.outputs import MOST_OUTPUT_BYTES
from weft.base.signals import signals_held
from weft.base.units import format_rate, parse_rate, parse_size, shown
from weft.controller import Controller, LinkCounters
from weft.controller.client import LoadableProgram, Session
from weft.controller.handles.switch import SwitchHandle
from weft.experiments.interface.collectives import fields_of, network_of, scenario_on
from weft.experiments.interface.commands import MOST_TIMEOUT_S, Completed, Running, words_of
from weft.experiments.interface.frames import frame_bytes, packet_of
from weft.experiments.interface.standing import Program, Standing, folders_of, macros_of
from weft.experiments.network_results.document import FABRIC, INTERFACE, PORTS, NetworkResults
from weft.experiments.results.results import Run
from weft.experiments.runs.alone import compared, slowed
from weft.experiments.runs.capacity import check_capacity, check_hosts, check_ways
from weft.experiments.runs.inputs import own_programs, plan_around, program_of
from weft.experiments.runs.operate import Testbed, operate
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.choices import RATES_BPS
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import ProgramFiles
from weft.switch.engine.trace.text import packets_text
from weft.topo.fabric_program import check_carried
from weft.topo.interfaces import LinkKind
from weft.topo.network import Direction, Host, Interface, Link, Topology, format_mac
from weft.topo.own import Network, with_programs
from weft.topo.switch_kinds import SwitchKind, check_kind, require

if TYPE_CHECKING:
    from typing import TextIO

    from scapy.packet import Packet

    from weft.experiments.training.results import TorchRun

WorldName = Literal["emulated", "simulated"]
_ORDINARY = Standing()


class Backend(Protocol):
    """A network in one of the worlds, which does what a `Net` asks for; see
    `weft.experiments.interface.emulated` and `weft.experiments.interface.simulated`."""

    name: str
    most_frame_bytes: int
    world: Any
    """The world itself: `weft.topo.worlds`."""
    running: Any
    """What other processes are told of it: a `weft.topo.worlds.emulated.testbeds.RunningTestbed`;
    None in the simulated world."""
    epochs: Iterator[int]
    """Numbers of aggregation jobs on this network, each of which is used once."""

    @property
    def mininet(self) -> Any: ...
    @property
    def now_s(self) -> float: ...
    def bring_up(self) -> Mapping[str, Any]: ...
    def take_down(self) -> None: ...
    def blaming_the_dead(self) -> AbstractContextManager[None]: ...
    def advance(self, seconds: float) -> None: ...
    def wait(self, seconds: float) -> None: ...
    def start(self, host: str, command: list[str]) -> Running: ...
    def listen(self) -> None: ...
    def mute_hosts(self) -> None: ...
    def send(self, station: int, frame: bytes) -> None: ...
    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]: ...
    def sent(self, station: int) -> tuple[int, int]: ...
    def start_trace(self, switch: str, packets: int) -> None: ...
    def take_trace(self, switch: str) -> list[dict[str, Any]]: ...
    def set_link(self, node: str, neighbour: str, up: bool) -> None: ...
    def set_rate(self, source: str, target: str, rate_bps: int) -> None: ...
    def take_over(self, controller: Controller) -> None: ...
    def addresses(self) -> dict[str, str]: ...
    def programs(self) -> dict[str, str]: ...
    def emptied(self) -> set[str]: ...
    def testbed(self, scenario: Any, controller: Controller) -> Testbed: ...


def up(
    network: "Topology | Network | str | os.PathLike[str] | Any",
    *,
    world: WorldName = "emulated",
    switch: SwitchKind = "weft",
    program: Program | Mapping[str, Program] | None = None,
    include: Program | Sequence[Program] = (),
    define: Mapping[str, object] | Sequence[str] = (),
    paths: str | None = None,
    mtu: int = 4096,
    links: LinkKind = "veth",
    seed: int = 1,
    pcap: str | os.PathLike[str] | None = None,
    bypass_qdisc: bool | None = None,
    cpu_port: int | None = None,
    priority_queues: int = 1,
    controller: bool = True,
    grpc_port: int | None = None,
) -> "Net":
    """Return a network that is up, with its routes, while its with-block is entered.

    ::

        with weft.up(weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as net:
            net.host("h0").run("ping -c 1", net.host("h3").ip, check=True)

    Several networks may be up at the same time. Whichever way a block is left, nothing of its
    network stays.

    Args:
        network: what `leaf_spine`, `fat_tree` or `single` returns; a `weft.Network`, the path of a
            network file (TOML), or a graph of networkx.
        world: ``emulated``, in namespaces with real packets, which needs root; or ``simulated``, in
            virtual time.
        switch: ``weft`` is the built-in switch; ``bmv2`` needs simple_switch_grpc and the emulated
            world.
        program: the P4_16 source of all switches, or of some by their names; the others run the
            fabric's. A switch with a program of one's own has no entries but those that are written
            to it.
        include: folders where programs' includes are looked for.
        define: macros of programs, as ``{"PORTS": 64}`` or ``["PORTS=64"]``.
        paths: the paths of the fabric's packets: ``ecmp``, ``spray`` and so on.
        mtu: the RoCE payload of collectives' packets, in bytes.
        links: ``patch`` joins switches inside the switch process, without interfaces.
        seed: of the switches' random(), routes and data.
        pcap: a folder for captures at both ends of every link, ``leaf0-spine1.pcap`` and so on, in
            the emulated world.
        bypass_qdisc: whether what the built-in switches send in the emulated world passes by their
            interfaces' queueing disciplines: a little faster, but tc has no effect there, and no
            capture sees it. By default it does so if all switches run the fabric's program.
        cpu_port: the number that switches have for the port to the controller; by default the
            network's own, which is 510 if its file names no other.
        priority_queues: the queues of each port of a switch, of priorities from 0 on: its link
            serves the packets of the greatest ``standard_metadata.priority`` first.
        controller: False leaves the switches of the emulated world to a P4Runtime client of your
            own, at `Net.addresses`: programs of one's own are loaded, and nothing else is done.
        grpc_port: the TCP port of 127.0.0.1 where the first switch serves P4Runtime, too, and the
            next ones at the next ports.

    Raises:
        InputError: something of this makes no sense.
        MachineError: the machine lacks something that the emulated world needs.
    """
    fields: dict[str, Any] = {
        "world": world, "switch": switch, "mtu": mtu, "links": links, "seed": seed,
        **({} if paths is None else {"paths": paths}),
    }  # fmt: skip
    scenario = scenario_on(network_of(network), "allgather", **fields)
    standing = Standing(
        program,
        pcap=None if pcap is None else Path(given.path("pcap", pcap, "'captures'")),
        bypass_qdisc=bypass_qdisc,
        cpu_port=cpu_port,
        priority_queues=priority_queues,
        controlled=given.truth("controller", controller),
        grpc_port=grpc_port,
        include_dirs=folders_of(include),
        defines=macros_of(define),
    )
    return Net(scenario, standing, fields)


class Net:
    """A network that is up while the with-block is entered; `up` makes one.

    ``net["h0"]`` is a `HostHandle`, ``net["leaf0"]`` a `SwitchHandle`; `host` and `switch` are the
    same for type checkers.
    """

    def __init__(
        self,
        scenario: Scenario,
        standing: Standing = _ORDINARY,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """Check everything, and compile the programs.

        Args:
            scenario: what it says of network, world and switches, of paths and of losses, holds.
            standing: what else is asked of the network.
            fields: what of the scenario holds for collectives on the network, too.
        """
        self.topology = standing.network(scenario.network())
        """What the network is."""
        self.standing = standing
        """What was asked of it beside its shape."""
        self._scenario = scenario
        self._fields = dict(fields or {})
        self._down: set[str] = set()
        self._planned_by: Callable[[], None] | None = None
        self.planning = threading.RLock()
        """Held while switches are brought to another plan."""
        self._names = [switch.name for switch in self.topology.switches]
        own = own_programs(self.topology, standing.include_dirs, standing.defines)
        self.strange: set[str] = set(own)
        """The names of switches that run another program than the fabric's: no plan is for them."""
        if standing.controlled:
            check_carried(self.topology)
            alone = len(own) == len(self._names)
            self._program: ProgramFiles = own[self._names[0]] if alone else program_of(scenario)
            """The fabric's program, or, if no switch runs it, that of the first switch."""
        else:
            self.strange = set(self._names)
        self._own = own
        self._up = False
        self.began_s = 0.0
        """When it came up, as `now` tells the time."""
        self.backend: Backend
        """What does in the network's world what is asked for here."""
        if scenario.world == "emulated":
            if standing.bypass_qdisc:
                require(check_kind(scenario.switch), ["way past queueing disciplines"])
            check_hosts(len(self.topology.hosts))
            with signals_held():  # a Ctrl-C would be lost at the wrong moment of an import
                from weft.experiments.interface.emulated import EmulatedNet

            self.backend = EmulatedNet(self.topology, scenario, standing)
        else:
            from weft.experiments.interface.simulated import SimulatedNet

            standing.check_simulated()
            self.backend = SimulatedNet(self.topology, scenario.mtu, scenario.seed)
        self._controller: Controller | None = None
        self._in_use = threading.RLock()
        self._switches: dict[str, SwitchHandle] = {}

    def __enter__(self) -> "Net":
        """Bring the network up."""
        try:
            addresses = self.backend.bring_up()
            with self.backend.blaming_the_dead():
                if not self.standing.controlled:
                    self._load_own(addresses)
                    self._up, self.began_s = True, self.now
                    return self
                self._controller = Controller(
                    self.topology, addresses, self._program, others=self._own
                )
                self._controller.strange = self.strange
                for name in self._own:
                    self._controller.session(name).want_digests()
                self._plan()
                self._up, self.began_s = True, self.now
        except BaseException:
            self.close()
            raise
        return self

    def _load_own(self, addresses: Mapping[str, Any]) -> None:
        """Give switches their own programs, and leave them to whoever comes."""
        programs = {path: LoadableProgram.read(path) for path in set(self._own.values())}
        for name, path in self._own.items():
            device_id = self.topology.switch(name).device_id
            with closing(Session(name, device_id, addresses[name])) as session:
                session.connect()
                session.push_program(programs[path])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the network down; do nothing if it is."""
        self._up = False
        try:
            if self._controller is not None:
                self._controller.close()
        finally:
            self._controller = None
            self._switches = {}
            self.backend.take_down()

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """Do within the block what one thread at a time can do with a network. Raises InputError if
        another thread does so just now."""
        if not self._in_use.acquire(blocking=False):
            raise InputError(
                f"{doing}: another thread uses this network just now: let threads take turns "
                "(threading.Lock), or have a network each; commands on hosts run side by side"
            )
        try:
            yield
        finally:
            self._in_use.release()

    def in_turn(self, doing: str) -> AbstractContextManager[None]:
        """Do the same in the simulated world, whose time stands still meanwhile; frames and
        rates of the emulated one are the kernel's and the switches', which take what comes."""
        return self.alone(doing) if self.world == "simulated" else nullcontext()

    @property
    def controller(self) -> Controller:
        """The controller, which owns the switches."""
        if self._up and not self.standing.controlled:
            raise InputError(
                f"network {self.topology.describe()} came up with controller=False: its switches "
                "are a P4Runtime client's of your own, at net.addresses"
            )
        if self._controller is None:
            self.check_up()
        assert self._controller is not None
        return self._controller

    def check_up(self) -> None:
        """Raise InputError unless the network is up."""
        if not self._up:
            raise InputError(
                f"network {self.topology.describe()} is not up: use it inside 'with weft.up(...) "
                "as net:'"
            )

    @property
    def addresses(self) -> dict[str, str]:
        """Where each switch serves P4Runtime, as gRPC's clients take it: a Unix socket,
        ``unix:PATH``, or with ``grpc_port`` a TCP port, ``127.0.0.1:PORT``. Their device ids are 1
        and up, in the order of the switches (`Topology.switch`). Raises InputError in the simulated
        world, where no client reaches them."""
        self.check_up()
        return self.backend.addresses()

    @property
    def scenario(self) -> Scenario:
        """What is known of the network and its switches."""
        return self._scenario

    @property
    def world(self) -> str:
        """``emulated`` or ``simulated``."""
        return self.backend.name

    @property
    def mininet(self) -> Any:
        """The ``mininet.net.Mininet`` object of the emulated world, for Mininet's own scripts.

        It does everything but make and remove parts of the network.
        """
        mininet = self.backend.mininet
        mininet.set_link = self.set_link  # so that routes lead around what configLinkStatus fails
        return mininet

    @property
    def now(self) -> float:
        """The time in seconds: of day in the emulated world, virtual in the simulated."""
        return self.backend.now_s

    def advance(self, seconds: float) -> None:
        """Let virtual time pass; InputError in the emulated world, where it goes by itself."""
        with self.alone("advance"):
            self.backend.advance(given.seconds("advance:", seconds, MOST_TIMEOUT_S))

    def __getitem__(self, name: str) -> Any:
        """Return the `HostHandle` or `SwitchHandle` of a name."""
        known = [*self.topology.nodes]
        if name not in known:
            raise InputError(
                f"node {name!r}: there is none in {self.topology.describe()}"
                f"{did_you_mean(str(name), known)}; there are {', '.join(known[:12])}"
                f"{' and others' if len(known) > 12 else ''}"
            )
        node = self.topology.nodes[name]
        return self.host(name) if isinstance(node, Host) else self.switch(name)

    def host(self, name: str | int) -> "HostHandle":
        """Return a host by its name or its rank."""
        return HostHandle(self, self.topology.host(name))

    def switch(self, name: str) -> SwitchHandle:
        """Return a switch by its name."""
        self.topology.switch(name)
        if name not in self._switches:
            self._switches[name] = SwitchHandle(
                self.controller, name, self.backend.wait, check_kind(self._scenario.switch)
            )
        return self._switches[name]

    @property
    def hosts(self) -> list["HostHandle"]:
        """All hosts by rank."""
        return [self.host(host.name) for host in self.topology.hosts]

    @property
    def switches(self) -> list[SwitchHandle]:
        """All switches by device id."""
        return [self.switch(switch.name) for switch in self.topology.switches]

    def link(self, node: str, neighbour: str) -> "LinkHandle":
        """Return the link between two nodes; of several, the one between two ports: ``s1:2``."""
        return LinkHandle(self, self.topology.direction(node, neighbour).link)

    @property
    def links(self) -> list["LinkHandle"]:
        """All links."""
        return [LinkHandle(self, link) for link in self.topology.links]

    @property
    def down(self) -> frozenset[str]:
        """The names of links that have failed."""
        return frozenset(self._down)

    def set_link(self, node: str, neighbour: str, up: bool) -> None:
        """Let a link fail or come back, and lead all routes, trees and pinned paths around those
        that have failed, as far as there are others. What the script has written stays."""
        link = self.topology.direction(node, neighbour).link
        # While something else plans, it is that which leads its traffic around the link.
        turn = nullcontext() if self._planned_by is not None else self.alone("set_link")
        with turn, self.planning:
            self.backend.set_link(*link.ends, up)
            (self._down.discard if up else self._down.add)(link.name)
            if self.standing.controlled and set(link.nodes) <= set(self._names):
                self.backend.take_over(self.controller)
                self._plan()

    @contextmanager
    def planned_by(self, plan: Callable[[], None]) -> Iterator[None]:
        """Within the block let something else plan for the switches when links fail or come back,
        since it keeps more in them than the network does. Nobody else plans meanwhile (`planning`).
        It raises InputError where the links that are up do not serve, and then all stays."""
        self._planned_by = plan
        try:
            yield
        finally:
            self._planned_by = None

    def notice_loads(self) -> None:
        """Take note of the programs that ``weft load`` has given to switches: no plan is for one
        that lost entries by that."""
        self.strange |= self.backend.emptied()

    def _plan(self) -> None:
        self.notice_loads()
        if self.strange == set(self._names):
            return
        if self._planned_by is not None:
            with suppress(InputError):
                self._planned_by()
            return
        around = sorted(self._down)
        plan = plan_around(self.controller.names, self._scenario, self._as_it_is(), around)
        self.controller.apply(plan)

    def _as_it_is(self) -> Topology:
        """Return the network with the programs that have been loaded since it came up."""
        loaded = self.strange - self.topology.strange
        return with_programs(self.topology, dict.fromkeys(loaded, "loaded since"))

    @contextmanager
    def trace(self, switch: str, packets: int = 100) -> "Iterator[PacketTrace]":
        """Trace what comes to a switch within the block: every step of every packet through its
        program, at most so many packets.

        The trace is whole once the block has been left. The traced form of a program is compiled
        once, which takes seconds.

        Raises RunError for BMv2, which has no such trace.
        """
        self.topology.switch(switch)
        self.check_up()
        self.backend.start_trace(switch, given.whole("trace: packets", packets, "100"))
        trace = PacketTrace()
        try:
            yield trace
        finally:
            trace.events += self.backend.take_trace(switch)

    def counts(self) -> dict[tuple[str, str], LinkCounters]:
        """Return what every direction of every link has carried and lost, by (from, to).

        The fabric's program counts since it was loaded. Where another program runs, the switch's
        port is what counts, whatever the program does, since the network is up; it knows of no
        losses on purpose but those of links that lose by themselves, and of no marks. `counted_by`
        says which it is.
        """
        self.check_up()
        self.notice_loads()
        none = self.strange == set(self._names)  # then no switch has the fabric's counters
        counted = self.controller.read_counters() if self.standing.controlled and not none else {}
        by_ports = [each for each in self.topology.directions if self.counted_by(each) != FABRIC]
        if not by_ports:
            return self._with_losses(counted)
        ports = {
            (switch["name"], port["port"]): port
            for switch in self.backend.world.switch_statistics()["switches"]
            for port in switch["ports"]
        }
        for each in by_ports:
            if self.topology.between_hosts(each.link):
                counted[each.ends] = self._sent_by_host(each)
                continue
            if each.source.node in self._names:
                sent, way = ports[each.source.node, each.source.number], "tx"
            else:
                sent, way = ports[each.destination.node, each.destination.number], "rx"
            counted[each.ends] = LinkCounters(sent[f"{way}_packets"], sent[f"{way}_bytes"])
        return self._with_losses(counted)

    def _with_losses(
        self, counted: dict[tuple[str, str], LinkCounters]
    ) -> dict[tuple[str, str], LinkCounters]:
        """Add what links have lost at random by themselves."""
        losing = {each.ends: each for each in self.topology.directions if each.link.loss}
        lost = self.backend.world.fault_losses() if losing else {}
        for ends, (packets, size_bytes) in lost.items():
            if ends in losing:  # what comes from a host is counted where it arrives
                unseen = 1 if losing[ends].tier == "host_up" else 0
                counted[ends] += LinkCounters(
                    unseen * packets, unseen * size_bytes, packets, size_bytes
                )
        return counted

    def _sent_by_host(self, direction: Direction) -> LinkCounters:
        """Return what a host has sent to another one on their own link."""
        host, number = direction.source.node, direction.source.number
        return LinkCounters(*self.backend.sent(self.topology.station_of[host, number]))

    def counted_by(self, direction: Direction) -> str:
        """Return by what a direction of a link is counted: ``the fabric's program``, or ``the
        switch's port`` where another program runs, or ``the host's interface`` between two
        hosts."""
        counting = [name for name in direction.nodes if name in self._names]
        if not counting:
            return INTERFACE
        return PORTS if counting[0] in self.strange else FABRIC

    def report(self, folder: str | os.PathLike[str] | None = None) -> NetworkResults:
        """Return what links have carried since the network is up, and what switches hold, whatever
        programs they run.

        Args:
            folder: a results folder, there already or not: it gets ``results.json``, and
                ``report.html``, a page with the network, its links and its switches, which
                ``weft report`` makes anew. None: nothing is written.

        Raises:
            InputError: the folder cannot be written.
            RunError: a process of the network has ended.
        """
        from weft.experiments.network_results.gather import gather
        from weft.experiments.network_results.page import write_results
        from weft.experiments.runs.folder import ResultsFolder

        self.check_up()
        place = None
        if folder is not None:
            named = Path(given.path("folder", folder, "'results/lab'"))
            place = ResultsFolder(named, "name another folder")
            place.make(captures=False, traces=False)
        try:
            with self.in_turn("report"), self.backend.blaming_the_dead():
                results = gather(self)
            if place is not None:
                write_results(results, place)
        finally:
            if place is not None:
                place.close()
        return results

    def run(self, collective: str, **options: Any) -> Run:
        """Run a collective once, and return how the network carried it.

        Args:
            collective: ``allgather``, ``allreduce``, ...
            options: those of ``weft run``, by the same names and in the same form
                (``size="1MiB"``, ``algorithm="ring"``) or as numbers; not those that need another
                network.

        Returns:
            the run, with its completion time, what every link carried, and each rank's figures;
            ``verified`` says whether all ranks had the right data, ``error`` what failed.

        Raises:
            InputError: an option makes no sense, or switches run programs of their own.
            RunError: a process of the network has ended.
        """
        fields = {**self._fields, **fields_of(collective, options)}
        scenario = scenario_on(self._scenario.network(), collective, self._scenario, **fields)
        check_capacity(scenario)
        scenario = slowed(scenario)
        check_ways(scenario, self._as_it_is())
        (algorithm, repetition, _), *_ = scenario.runs()
        predicted_ns = None
        if scenario.predict and self.world == "emulated" and not self._down:
            predicted = simulate(scenario, self._program, algorithm, repetition, _unseen)
            predicted_ns = predicted.completion_ns
        with self.alone(collective):
            testbed = self.backend.testbed(scenario, self.controller)
            testbed.failed = self.down
            run = operate(testbed, algorithm, repetition, _unseen, predicted_ns)
            run = compared(run, scenario)
            self._plan()  # as it was before: a collective may have pinned paths, or sprayed
            return run

    def allgather(self, **options: Any) -> Run:
        """Run an Allgather; see `run`."""
        return self.run("allgather", **options)

    def reduce_scatter(self, **options: Any) -> Run:
        """Run a Reduce-Scatter; see `run`."""
        return self.run("reduce-scatter", **options)

    def allreduce(self, **options: Any) -> Run:
        """Run an Allreduce; see `run`."""
        return self.run("allreduce", **options)

    def broadcast(self, **options: Any) -> Run:
        """Run a Broadcast; see `run`."""
        return self.run("broadcast", **options)

    def alltoall(self, **options: Any) -> Run:
        """Run an all-to-all exchange; see `run`."""
        return self.run("alltoall", **options)

    def torch_run(
        self,
        script: str | os.PathLike[str],
        *arguments: object,
        allgather: str = "",
        broadcast: str = "",
        reduce_scatter: str = "",
        allreduce: str = "",
        backend: str = "weft",
        as_weft: str | Sequence[str] = (),
        ranks: int | None = None,
        timeout: float = 3600.0,
        environment: Mapping[str, str] | None = None,
        output: "TextIO | None" = None,
        errors: "TextIO | None" = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> "TorchRun":
        """Run a program of PyTorch, a rank on each host, as ``weft torch run`` does.

        Args:
            script: the path of a Python file; or ``-m``, with a module as the first argument.
            arguments: the program's own.
            allgather, broadcast, reduce_scatter, allreduce: the algorithm, as ``ring``, or by size,
                as ``ring<64KiB,switch``.
            backend: what ``init_process_group()`` without a backend gets: ``weft`` or ``gloo``.
            as_weft: names of backends, ``gloo`` or ``nccl`` or both, by which the program gets
                Weft's.
            ranks: how many hosts run it, from the first one on; by default all.
            timeout: after so many seconds it is ended.
            environment: variables of its environment beside this process's own.
            output, errors: files that its lines go to, each with its rank; by default nowhere.
            folder: an existing folder for the document, the report and the timeline.

        Returns:
            what came of it; ``status`` is 0 if every rank ended well, ``error`` says what failed.

        Raises:
            InputError: something of this makes no sense, or the network is simulated.
            MachineError: torch is not installed.
            RunError: a process of the network has ended.
        """
        from weft.experiments.training.torch_run import TorchOptions, torch_run

        self.controller  # noqa: B018 - raises unless the network is up
        asked = {
            "allgather": allgather, "broadcast": broadcast, "reduce-scatter": reduce_scatter,
            "allreduce": allreduce,
        }  # fmt: skip
        options = TorchOptions(
            algorithms={name: text for name, text in asked.items() if text},
            backend=backend,
            as_weft=(as_weft,) if isinstance(as_weft, str) else tuple(as_weft),
            ranks=ranks,
            limit_s=given.seconds("torch_run: timeout", timeout, MOST_TIMEOUT_S),
            environment=dict(environment or {}),
        )
        with self.alone("torch_run"):
            return torch_run(
                self, given.path("script", script, "'train.py'"), [*map(str, arguments)], options,
                output=output, errors=errors, folder=None if folder is None else Path(folder),
            )  # fmt: skip


@dataclass
class PacketTrace:
    """The steps of packets through a switch's program; its text is one for people."""

    events: list[dict[str, Any]] = field(default_factory=list)
    """The steps in order, as ``--trace`` of ``weft run`` writes them."""

    def __str__(self) -> str:
        return packets_text(self.events).rstrip() or "no packet came"


class HostHandle:
    """A handle on a host of a network that is up."""

    def __init__(self, net: Net, host: Host) -> None:
        self._net = net
        self.name = host.name
        self.rank = host.rank
        self.ip = host.ip
        """The IPv4 address, dotted; empty if it has none."""
        self.ip6 = host.interfaces[0].ip6
        """The IPv6 address; empty if it has none."""
        self.mac = format_mac(host.mac)
        """The MAC address, with colons."""
        self.interfaces = [InterfaceHandle(net, host, each) for each in host.interfaces]
        """All network interfaces. What is said of the host itself is the first one's."""
        self.gateway_mac = self.interfaces[0].gateway_mac
        """The MAC address of the switch, to which frames for hosts elsewhere go; or of the host
        that the first interface is linked to."""

    @property
    def mininet(self) -> Any:
        """Mininet's node of the host."""
        return self._net.mininet[self.name]

    def start(self, *command: object) -> Running:
        """Start a command and return it while it runs: ``start("iperf -s")``.

        The first argument is split into words as a shell does; each other argument is a word. No
        shell interprets them: for that, ``start("sh -c", "...")``.

        Raises InputError in the simulated world, which has no kernel.
        """
        self._net.check_up()
        return self._net.backend.start(self.name, words_of(command))

    def run(
        self,
        *command: object,
        check: bool = False,
        timeout: float | None = None,
        input: str | None = None,
        most_output: str | int = MOST_OUTPUT_BYTES,
    ) -> Completed:
        """Run a command to its end: ``run("ping -c 1", other.ip).output``.

        Args:
            command: as for `start`.
            check: whether a status other than 0 is a RunError.
            timeout: after so many seconds it is killed, and RunError raised.
            input: what it reads.
            most_output: likewise once it has printed more than so many bytes, or ``"256MiB"``; let
                it write to a file what is more than memory should hold.
        """
        if timeout is not None:
            given.seconds("timeout", timeout, MOST_TIMEOUT_S)
        input = "" if input is None else given.text("input", input, "'yes'")
        parse_size(most_output, "most_output")
        done = self.start(*command).wait(timeout, input, most_output)
        return done.check() if check else done

    def send(self, packet: "Packet | bytes", count: int = 1) -> None:
        """Send a frame from the host's first interface (`InterfaceHandle.send`)."""
        self.interfaces[0].send(packet, count)

    def sniff(self, timeout: float = 1.0, count: int = 0) -> "list[Packet]":
        """Return what comes to the host's first interface (`InterfaceHandle.sniff`)."""
        return self.interfaces[0].sniff(timeout, count)

    def __repr__(self) -> str:
        return f"<host {self.name} ({self.interfaces[0].addresses})>"


class InterfaceHandle:
    """A handle on a network interface of a host of a network that is up."""

    def __init__(self, net: Net, host: Host, interface: Interface) -> None:
        self._net = net
        self._station = net.topology.station_of[host.name, interface.number]
        self.name = f"{host.name}-eth{interface.number - 1}"
        """The kernel's name for it in the emulated world."""
        self.ip = interface.ip
        """The IPv4 address, dotted; empty if it has none."""
        self.ip6 = interface.ip6
        """The IPv6 address; empty if it has none."""
        self.addresses = interface.addresses
        """All of these, for people."""
        self.mac = format_mac(interface.mac)
        """The MAC address, with colons."""
        self.switch = interface.switch
        """The name of the switch that it is linked to; empty if it is linked to a host."""
        self.gateway_mac = format_mac(net.topology.far_mac(host.name, interface))
        """The MAC address of that switch, or of that host's interface."""

    def send(self, packet: "Packet | bytes", count: int = 1) -> None:
        """Send a frame: a packet of scapy's that begins with Ether, or bytes. In the simulated
        world it leaves, and time stands still until `sniff` or `Net.advance`."""
        self._net.check_up()
        frame = frame_bytes(packet, self._net.backend.most_frame_bytes)
        for _ in range(given.whole("send: count", count, "1")):
            with self._net.in_turn("send"):
                self._net.backend.send(self._station, frame)

    def sniff(self, timeout: float = 1.0, count: int = 0) -> "list[Packet]":
        """Return what comes, as packets of scapy's with their times.

        That is what has come since the network's first `send` or `sniff`, or since the interface's
        last `sniff`, and what comes until ``timeout`` seconds have passed, or ``count`` frames are
        there (0: whatever comes). A collective ends that: then frames are heard from the next
        `send` or `sniff` on.
        """
        self._net.check_up()
        timeout_s = given.seconds("sniff:", timeout, MOST_TIMEOUT_S)
        count = given.whole("sniff: count", count, "1")
        with self._net.in_turn("sniff"):
            found = self._net.backend.sniff(self._station, timeout_s, count)
        return [packet_of(frame, time_s) for time_s, frame in found]

    def __repr__(self) -> str:
        place = f" at {self.switch}" if self.switch else ""
        return f"<interface {self.name} ({self.addresses}){place}>"


class LinkHandle:
    """A handle on a link of a network that is up."""

    def __init__(self, net: Net, link: Link) -> None:
        self._net = net
        self._link = link
        self.name = link.name
        """The name: ``leaf0-spine1``."""
        self.ends = link.ends
        """The names of its ends: nodes, or ports, as ``s1:2``, if the nodes have several links."""

    @property
    def up(self) -> bool:
        """Whether it carries packets."""
        return self.name not in self._net.down

    def fail(self) -> None:
        """Let the link lose everything, and lead routes around it (`Net.set_link`)."""
        self._net.set_link(*self.ends, up=False)

    def restore(self) -> None:
        """Let the link carry packets again, and lead routes over it."""
        self._net.set_link(*self.ends, up=True)

    def set_rate(self, rate: str | int) -> None:
        """Let both directions go on at another rate: ``"10Mbit"``, or bit/s, at most the link's
        own. Links between switches can do that, with the built-in switch."""
        rate_bps, most = parse_rate(rate), self._link.rate_bps
        least = min(RATES_BPS[0], most)
        if not least <= rate_bps <= most:
            raise InputError(
                f"link {self.name}: rate {shown(rate)} is out of range: from {format_rate(least)} "
                f"to the link's own, {format_rate(most)}; fail() lets it carry nothing"
            )
        switches = {switch.name for switch in self._net.topology.switches}
        refuse(
            not set(self._link.nodes) <= switches,
            f"link {self.name}: a host sends at the rate of its interface; links between switches "
            "can be slowed",
        )
        with self._net.in_turn("set_rate"):
            for source, target in (self.ends, self.ends[::-1]):
                self._net.backend.set_rate(source, target, rate_bps)

    @property
    def counted_by(self) -> dict[str, str]:
        """By what each direction is counted, by its name (`Net.counted_by`)."""
        self._net.check_up()
        self._net.notice_loads()
        both = [self._net.topology.direction(*ends) for ends in (self.ends, self.ends[::-1])]
        return {each.name: self._net.counted_by(each) for each in both}

    @property
    def counts(self) -> dict[str, LinkCounters]:
        """What each direction has carried and lost, by its name: ``leaf0>spine1``; `counted_by`
        says by what that is counted."""
        found = self._net.counts()
        return {">".join(ends): found[ends] for ends in (self.ends, self.ends[::-1])}

    def __repr__(self) -> str:
        return f"<link {self.name}, {'up' if self.up else 'down'}>"


def _unseen(_fraction: float) -> None:
    """Show no progress."""
