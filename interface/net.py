"""Networks that are up: ``with weft.up(weft.leaf_spine(2, 2, 2)) as net: ...``"""

import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from weft.base import arguments as given
from weft.base.errors import InputError, did_you_mean
from weft.controller import Controller, LinkCounters
from weft.controller.handles.switch import SwitchHandle
from weft.experiments.results.network import FABRIC, INTERFACE, PORTS, NetworkResults
from weft.experiments.results.results import Run
from weft.experiments.runs.capacity import check_capacity, check_ways
from weft.experiments.runs.inputs import own_programs, program_of
from weft.experiments.runs.operate import operate
from weft.experiments.runs.simulation import simulate
from weft.experiments.runs.testbed import Testbed
from weft.experiments.scenario.scenario import Scenario
from weft.interface.asked_by_file import AskedByFile
from weft.interface.collectives import fields_of, scenario_on
from weft.interface.commands import MOST_TIMEOUT_S
from weft.interface.compiling import MachineCode
from weft.interface.counts import add_losses, counted_elsewhere
from weft.interface.handles import HostHandle, LinkHandle
from weft.interface.loading import load_programs
from weft.interface.planning import Planning
from weft.interface.standing import Standing
from weft.interface.tracing import Tracing
from weft.switch.compiler import ProgramFiles
from weft.topo.fabric_program import check_carried
from weft.topo.network import Direction, Host, Link
from weft.topo.switch_kinds import check_kind, require
from weft.topo.worlds.registry import WORLDS
from weft.topo.worlds.world import NetworkOptions

if TYPE_CHECKING:
    from typing import TextIO

    from weft.experiments.families.programs.results import TorchRun

_ORDINARY = Standing()


class Net(Tracing):
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
        self._names = [switch.name for switch in self.topology.switches]
        own = own_programs(self.topology, standing.include_dirs, standing.defines)
        if standing.controlled:
            check_carried(self.topology)
            alone = len(own) == len(self._names)
            self._program: ProgramFiles = own[self._names[0]] if alone else program_of(scenario)
            """The fabric's program, or, if no switch runs it, that of the first switch."""
        self._own = own
        self.by_file = AskedByFile(
            self.topology, check_kind(scenario.switch), own,
            self._program if standing.controlled else None,
        )  # fmt: skip
        """What the network's file asks beside its shape."""
        self.changed: dict[str, Link] = {}
        """The links that go on with other figures (`LinkHandle.set`), by name."""
        self._up = False
        self.began_s = 0.0
        """When it came up, as `now` tells the time."""
        if standing.bypass_qdisc:
            require(check_kind(scenario.switch), ["way past queueing disciplines"])
        own_programs_run = any(switch.program for switch in self.topology.switches)
        self._kind = WORLDS[scenario.world]
        self._kind.check_hosts(len(self.topology.hosts))
        self.backend = self._kind.network(
            self.topology,
            NetworkOptions(
                scenario.switch, scenario.mtu, scenario.seed, scenario.link_kind, standing.pcap,
                not own_programs_run if standing.bypass_qdisc is None else standing.bypass_qdisc,
                stands=True, controlled=standing.controlled, grpc_port=standing.grpc_port,
                code=MachineCode(),
            ),
        )  # fmt: skip
        """The network in its world, which does what is asked for here."""
        unmanaged = {*(own if standing.controlled else self._names)}
        self._plans = plans = Planning(self.topology, scenario, self.backend, unmanaged)
        self.planned_by, self.notice_loads = plans.planned_by, plans.notice_loads
        self.unmanaged = unmanaged
        """The names of switches that run another program than the fabric's: no plan is for them."""
        self.planning = plans.lock
        """Held while switches are brought to another plan."""
        self.epochs: Iterator[int] = itertools.count(1)
        """Numbers of aggregation jobs on this network, each of which is used once."""
        self._controller: Controller | None = None
        self._in_use = threading.RLock()
        self._switches: dict[str, SwitchHandle] = {}

    def __enter__(self) -> "Net":
        """Bring the network up."""
        try:
            addresses = self.backend.__enter__().switch_addresses
            with self.backend.blaming_the_dead():
                if not self.standing.controlled:
                    load_programs(self._own, self.topology, addresses)
                    self.by_file.run(self if self._kind.has_real_time else None)
                    self._up, self.began_s = True, self.now
                    return self
                self._controller = Controller(
                    self.topology, addresses, self._program, others=self._own
                )
                self._controller.unmanaged = self.unmanaged
                for name in self._own:
                    self._controller.session(name).want_digests()
                self._plans.plan(self.controller)
                self.by_file.write(self.switch)
                self.by_file.run(self if self._kind.has_real_time else None)
                self._up, self.began_s = True, self.now
        except BaseException:
            self.close()
            raise
        return self

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
            self.backend.close()

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
        """Do the same in a world whose time is virtual, and stands still meanwhile; frames and
        rates of the emulated one are the kernel's and the switches', which take what comes."""
        return nullcontext() if self._kind.has_real_time else self.alone(doing)

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
        return self._kind.name

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

    def host(self, name: str | int) -> HostHandle:
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
    def hosts(self) -> list[HostHandle]:
        """All hosts by rank."""
        return [self.host(host.name) for host in self.topology.hosts]

    @property
    def switches(self) -> list[SwitchHandle]:
        """All switches by device id."""
        return [self.switch(switch.name) for switch in self.topology.switches]

    def link(self, node: str, neighbour: str) -> LinkHandle:
        """Return the link between two nodes; of several, the one between two ports: ``s1:2``."""
        return LinkHandle(self, self.topology.direction(node, neighbour).link)

    @property
    def links(self) -> list[LinkHandle]:
        """All links."""
        return [LinkHandle(self, link) for link in self.topology.links]

    @property
    def down(self) -> frozenset[str]:
        """The names of links that have failed."""
        return frozenset(self._plans.down)

    def set_link(self, node: str, neighbour: str, up: bool) -> None:
        """Let a link fail or come back, and lead all routes, trees and pinned paths around those
        that have failed, as far as there are others. What the script has written stays."""
        link = self.topology.direction(node, neighbour).link
        # While something else plans, it is that which leads its traffic around the link.
        turn = nullcontext() if self._plans.planner is not None else self.alone("set_link")
        with turn, self.planning:
            self.backend.set_link(*link.ends, up=up)
            down = self._plans.down
            (down.discard if up else down.add)(link.name)
            if self.standing.controlled and set(link.nodes) <= set(self._names):
                for switch in self._names:  # whoever owns them now
                    self.controller.session(switch).take_over()
                self._plans.plan(self.controller)

    def counts(self) -> dict[tuple[str, str], LinkCounters]:
        """Return what every direction of every link has carried and lost, by (from, to).

        The fabric's program counts since it was loaded. Where another program runs, the switch's
        port is what counts, whatever the program does, since the network is up; it knows of no
        losses on purpose but those of links that lose by themselves, and of no marks. `counted_by`
        says which it is.
        """
        self.check_up()
        self.notice_loads()
        fabric = self.standing.controlled and self._plans.has_fabric
        counted = self.controller.read_counters() if fabric else {}
        others = [each for each in self.topology.directions if self.counted_by(each) != FABRIC]
        counted |= counted_elsewhere(self.topology, self.backend, others)
        add_losses(counted, self.topology, self.backend)
        return counted

    def counted_by(self, direction: Direction) -> str:
        """Return by what a direction of a link is counted: ``the fabric's program``, or ``the
        switch's port`` where another program runs, or ``the host's interface`` between two
        hosts."""
        counting = [name for name in direction.nodes if name in self._names]
        if not counting:
            return INTERFACE
        return PORTS if counting[0] in self.unmanaged else FABRIC

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
        from weft.experiments.runs.folder import claimed
        from weft.experiments.runs.network_state import gather, write_results

        self.check_up()
        place = None if folder is None else Path(given.path("folder", folder, "'results/lab'"))
        with self.in_turn("report"), self.backend.blaming_the_dead(), claimed(place) as written_to:
            results = gather(self)
            if written_to is not None:
                write_results(results, written_to)
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
        scenario = scenario.family.settled(scenario)
        check_ways(scenario, self._plans.as_it_is())
        (algorithm, repetition, _), *_ = scenario.runs()
        predicted_ns = None
        if scenario.predict and self._kind.has_real_time and not (self.down or self.changed):
            predicted = simulate(scenario, self._program, algorithm, repetition, _unseen)
            predicted_ns = predicted.completion_ns
        with self.alone(collective):
            self.backend.make_ready()
            testbed = Testbed(scenario, self.backend, self.controller, self.epochs, self.down)
            run = operate(testbed, algorithm, repetition, _unseen, predicted_ns)
            # As it was before: a collective may have pinned paths, or sprayed.
            self._plans.plan(self.controller)
            compared: Run = scenario.family.compared(run, scenario)
            return compared

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
        fail_link: str | Sequence[str] = (),
        change_link: str | Sequence[str] = (),
        kill_rank: str | Sequence[str] = (),
        delay_rank: str | Sequence[str] = (),
        slow_rank: str | Sequence[str] = (),
        max_restarts: int = 0,
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
            fail_link, change_link, kill_rank, delay_rank, slow_rank: faults, one or several, as the
                command line has them: ``fail_link="leaf0:spine0@step10..step20"``,
                ``change_link="leaf0:spine0:delay=5ms,loss=1%@2s"``, ``kill_rank="2@step5"``,
                ``delay_rank="1:200ms"``, ``slow_rank="1:2.0"``. Links are as before when it ends.
            max_restarts: how often all ranks are started anew after one has failed.
            timeout: after so many seconds it is ended.
            environment: variables of its environment beside this process's own.
            output, errors: files that its lines go to, each with its rank; by default nowhere.
            folder: a results folder for the document, the report and the timeline.

        Returns:
            what came of it; ``status`` is 0 if every rank ended well, ``error`` says what failed.

        Raises:
            InputError: something of this makes no sense, or the network is simulated.
            MachineError: torch is not installed.
            RunError: a process of the network has ended.
        """
        from weft.experiments.families.programs.asked import ProgramAsked
        from weft.experiments.families.programs.torch_run import torch_run
        from weft.experiments.runs.folder import claimed

        self.controller  # noqa: B018 - raises unless the network is up
        options = ProgramAsked(
            ranks, backend, _several(as_weft), allgather, broadcast, reduce_scatter, allreduce,
            max_restarts, _several(fail_link), _several(change_link), _several(kill_rank),
            _several(delay_rank), _several(slow_rank),
            limit_s=given.seconds("torch_run: timeout", timeout, MOST_TIMEOUT_S),
            environment=dict(environment or {}),
        )  # fmt: skip
        place = None if folder is None else Path(folder)
        with self.alone("torch_run"), claimed(place) as written_to:
            return torch_run(
                self, given.path("script", script, "'train.py'"), [*map(str, arguments)], options,
                output=output, errors=errors, folder=written_to,
            )  # fmt: skip


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _unseen(_fraction: float) -> None:
    """Show no progress."""
