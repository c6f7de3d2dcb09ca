"""The emulated world: a topology as Linux namespaces and veth pairs, brought up with Mininet.

Every host has a namespace of its own. One namespace more, the run's, holds all the switches' ends
of links and the switch processes. Nothing is made in, or passes through, the machine's own
namespace; P4Runtime is reached over Unix sockets in the run's folder.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from weft.agents.ranks import RankReport
from weft.base.errors import InputError, RunError
from weft.base.files import check_working_folder
from weft.base.signals import ending_on_signals, signals_held
from weft.base.streams import open_closed
from weft.topo.interfaces import (
    LINK_MTU,
    LinkKind,
    check_link_mtu,
    check_path_mtu,
    interface_name,
    is_patched,
    switch_interfaces,
)
from weft.topo.network import HOST_PORT, Link, Port, Topology
from weft.topo.switch_kinds import SwitchKind, check_kind, check_topology, require
from weft.topo.worlds.emulated.captures import CaptureResult, LinkCaptures, patch_results
from weft.topo.worlds.emulated.changes import change_link, rates_request
from weft.topo.worlds.emulated.cleanup import kill_all, marked_processes
from weft.topo.worlds.emulated.host_sockets import HostSockets
from weft.topo.worlds.emulated.links import configure_hosts, make_links, set_end
from weft.topo.worlds.emulated.loading import SWITCH_MODULE, taken_over
from weft.topo.worlds.emulated.machine import check_limits, check_machine
from weft.topo.worlds.emulated.names import write_names
from weft.topo.worlds.emulated.namespaces import in_namespace, queue_drops
from weft.topo.worlds.emulated.netem import check_netem, lost_between_hosts, sent_by
from weft.topo.worlds.emulated.processes import RunProcess, blaming, stop_all
from weft.topo.worlds.emulated.ranks import Ranks
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.switch_processes import (
    READY_LIMIT_S,
    Bmv2Switches,
    BuiltinSwitches,
    SwitchProcesses,
    address,
    builtin_config,
    find_bmv2,
    losses_of,
)
from weft.topo.worlds.emulated.testbeds import (
    RunningSwitch,
    RunningTestbed,
    check_grpc_port,
    relays_of,
)
from weft.topo.worlds.processors import CpuTimes
from weft.topo.worlds.world import Advance, Order, World

if TYPE_CHECKING:
    from typing_extensions import Self

    from weft.topo.worlds.emulated.mininet_network import MininetNetwork

Part = TypeVar("Part")


class EmulatedWorld(World):
    """A topology that is up while this context manager is entered.

    Enter it in the main thread, or in one that outlives it: the kernel kills the run's processes
    when the thread that started them ends. A SIGTERM or SIGHUP in between ends the block as
    SystemExit, so that it cleans up after itself.
    """

    name = "emulated"

    def __init__(
        self,
        topology: Topology,
        switch_kind: str = "weft",
        *,
        run: RunRecord | None = None,
        path_mtu: int = 4096,
        link_mtu: int = LINK_MTU,
        seed: int = 1,
        pcap_dir: Path | None = None,
        bypass_qdisc: bool = True,
        bmv2_log: bool = False,
        links: LinkKind = "veth",
        switch_module: str = SWITCH_MODULE,
        ready_limit_s: float = READY_LIMIT_S,
        algorithms: tuple[str, ...] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        stands: bool = False,
        controlled: bool = True,
        grpc_port: int | None = None,
    ) -> None:
        """Check everything that can be checked before anything is made.

        ``run`` is the record to use; without one the world makes its own, and removes it at its
        end. ``path_mtu`` is the RoCE payload in bytes, ``link_mtu`` the veths' IP MTU. With
        ``pcap_dir``, every link end is captured there. With ``bypass_qdisc``, what the built-in
        switches send passes by the queueing disciplines of their interfaces, unless it is captured:
        cheaper, but tc has no effect there. ``bmv2_log`` turns BMv2's packet logs on.
        With ``links`` "patch", links between switches are inside the switch process, without
        interfaces; only the built-in switch can do that. ``switch_module`` is the module that runs
        the built-in switches. The rest is as in `NetworkOptions`. Raises InputError for what makes
        no sense, MachineError for what the machine does not have.
        """
        self.topology = topology
        self.switch_kind: SwitchKind = check_kind(switch_kind)
        check_path_mtu(path_mtu)
        check_link_mtu(link_mtu, path_mtu)
        check_topology(self.switch_kind, topology)
        if links == "patch":
            require(self.switch_kind, ["patch links"])
        self.links = links
        self._interfaces = dict(switch_interfaces(topology, links))
        for host, each in topology.stations:
            interface_name(Port(host.name, each.number), topology)  # it may be too long
        if self.switch_kind == "bmv2":
            find_bmv2()
        check_working_folder()
        check_machine(captures=pcap_dir is not None)
        check_limits(topology, captures=pcap_dir is not None)
        check_netem(topology.links, topology)
        self.path_mtu = path_mtu
        self.link_mtu = link_mtu
        self.seed = seed
        self.captured: list[CaptureResult] = []
        """What each capture holds and lost; filled when the world has ended."""
        self.running: RunningTestbed | None = None
        if grpc_port is not None:
            check_grpc_port("grpc_port", grpc_port, len(topology.switches))
        self._stands = stands
        self._served = controlled, grpc_port
        self._owns_record = run is None
        self._pcap_dir = pcap_dir
        self._bypass_qdisc = bypass_qdisc and pcap_dir is None
        self._bmv2_log = bmv2_log
        self._switch_module = switch_module
        self._ready_limit_s = ready_limit_s
        self._algorithms = algorithms
        self._meanwhile = meanwhile
        self._ranks = Ranks(self)
        self.frames: HostSockets = HostSockets(self._stations, link_mtu)
        self._record: RunRecord | None = run
        self._network: MininetNetwork | None = None
        self._switches: SwitchProcesses | None = None
        self._captures: LinkCaptures | None = None
        self._namespaces: dict[str, int] = {}
        self._signals = ExitStack()
        self._relays = ExitStack()
        self._ready = False
        """Whether the switches have said that they are."""

    def __enter__(self) -> "Self":
        """Bring everything up; return when all switches take P4Runtime connections."""
        open_closed()
        self._signals.enter_context(ending_on_signals())
        try:
            self._load()
            self._bring_up()
            if self._stands:
                self._announce()
        except BaseException as error:
            try:
                if isinstance(error, Exception):
                    self._check_shells()
            finally:
                self.close()
            raise
        return self

    def _load(self) -> None:
        """Have processes load their code while the namespaces and links are made."""
        module = self._switch_module if self.switch_kind == "weft" else None
        with signals_held():
            loading = taken_over(self._record, self._algorithms, module)
            self._record = loading.record
            self._ranks.take(loading.launcher)
            if loading.switches is not None:
                self._switches = BuiltinSwitches(loading.record, loading.switches)

    def _bring_up(self) -> None:
        from weft.topo.worlds.emulated.mininet_network import MininetNetwork

        write_names(self.topology, self.record.folder)
        network = self._network = MininetNetwork(
            self.record,
            len(self.topology.nodes) + 1,
            lambda node, neighbour, up: self.set_link(node, neighbour, up=up),
        )
        self._namespaces["switches"] = network.add_run_namespace()
        self._namespaces |= network.add_nodes(self.topology)
        make_links(
            self.topology,
            self.links,
            self.link_mtu,
            self._namespaces,
            self.namespace_pid,
            shaped=self.switch_kind == "bmv2",
        )
        network.add_links(self.topology, self.links)
        switches = self._begin_switches()
        configure_hosts(self.topology, self.link_mtu, self._namespaces)
        network.set_addresses(self.topology)
        if self._pcap_dir is not None:
            of_links = self._pcap_dir, self._processes(), self.link_mtu, self.links
            self._captures = LinkCaptures(self.topology, self.record, *of_links)
        self._meanwhile()
        switches.wait_until_ready(self._ready_limit_s)
        self._ready = True

    def _begin_switches(self) -> SwitchProcesses:
        """Let switches open their ports, whose interfaces there are by now."""
        network, run, namespace = self.topology, self.record, self.namespace_pid
        if isinstance(self._switches, BuiltinSwitches):
            qdisc, links, pcap = self._bypass_qdisc, self.links, self._pcap_dir
            config = builtin_config(network, run, self.seed, self.link_mtu, qdisc, links, pcap)
            self._switches.begin(network, config, namespace)
        else:
            self._switches = Bmv2Switches(network, run, namespace, self._bmv2_log)
        return self._switches

    def _processes(self) -> dict[str, int]:
        """Return a process in the namespaces of each node."""
        pids = self._namespaces
        return {name: pids.get(name, pids["switches"]) for name in self.topology.nodes}

    def _announce(self) -> None:
        """Let other processes find the switches."""
        served = self.switch_addresses, *self._served, self._processes()
        self.running = RunningTestbed.of(self.record.id, self.topology, *served)
        if self.running.grpc_port is not None:
            self._relays.callback(relays_of(self.running).close)
        self.running.write(self.record.folder)

    def close(self) -> None:
        """Take everything down: processes, namespaces, links, sockets and the run's folder.

        Afterwards :attr:`captured` says what was captured. This may be called more than once;
        signals wait until it is done. The folder of a record that was handed in stays. Raises
        RunError, with everything down, if the switches could not end their captures.
        """
        try:
            with signals_held(), ExitStack() as last_first:
                last_first.callback(self._end_processes)
                last_first.callback(self._end_captures)
                last_first.callback(self._relays.close)
                last_first.callback(self.frames.close)
                last_first.callback(self._ranks.close)
        finally:
            self._signals.close()

    def _end_captures(self) -> None:
        captures, self._captures = self._captures, None
        if captures is None:
            return
        self.captured = captures.stop()
        switches = self._switches
        if self.links == "patch" and self._ready and isinstance(switches, BuiltinSwitches):
            self.captured += patch_results(self.topology, switches.ask("captures end"))

    def _end_processes(self) -> None:
        stop_all(self.switch_processes)
        self._switches = None
        if self._network is not None:
            self._network.stop()
        self._network = None
        self._namespaces = {}
        if self._record is not None:
            self._record.end_enclosed()
            kill_all(marked_processes(self._record.id))
            if self._owns_record:
                self._record.remove()
                self._record = None

    def doubts(self) -> list[str]:
        """Return, once everything is down, which captures may not be whole."""
        return [each.doubt for each in self.captured if each.doubt]

    @property
    def record(self) -> RunRecord:
        """Return the run's record: its id, its folder, and the environment for its processes."""
        return _up(self._record)

    @property
    def mininet(self) -> Any:
        """Return the ``mininet.net.Mininet`` object, for Mininet's own command line and scripts."""
        return _up(self._network).net

    @property
    def namespace_pid(self) -> int:
        """Return the id of a process in the run's namespace, where all switch ends of links are."""
        return _up(self._namespaces.get("switches"))

    def host_pid(self, rank: int) -> int:
        """Return the id of a process in the namespace of a rank's host, by which to enter it."""
        return _up(self._namespaces.get(self.topology.host(rank).name))

    def host_interface(self, rank: int, number: int = HOST_PORT) -> str:
        """Return the name of an interface of a host, by its port number, in its namespace."""
        return interface_name(Port(self.topology.host(rank).name, number), self.topology)

    @property
    def switch_addresses(self) -> dict[str, str]:
        """Return the P4Runtime address (``unix:...``) of each switch, by name."""
        return {switch.name: address(self.record, switch) for switch in self.topology.switches}

    @property
    def switch_processes(self) -> list[RunProcess]:
        """Return the switch process, or BMv2's processes."""
        return list(self._switches.processes) if self._switches is not None else []

    def host_queue_drops(self) -> dict[str, int]:
        """Return, by host, the packets that the tbf on the host's own interface dropped."""
        return {
            host.name: sum(in_namespace(self.host_pid(host.rank), queue_drops).values())
            for host in self.topology.hosts
        }

    def fault_losses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """See `World.fault_losses`: here it is links that lose at random by themselves."""
        losing = [each for each in self.topology.directions if self.loses(each.link)]
        of_hosts = lost_between_hosts(losing, self.topology, self._namespaces)
        return of_hosts | (losses_of(losing, self.switch_statistics()) if losing else {})

    def switch_queue_drops(self) -> dict[tuple[str, int], int]:
        """Return, by switch and port, the packets that tbf dropped behind a switch (BMv2 alone has
        one)."""
        drops = in_namespace(self.namespace_pid, queue_drops)
        return {
            (port.node, port.number): drops[interface]
            for port, interface in self._interfaces.items()
            if interface in drops
        }

    def switch_statistics(self) -> dict[str, Any]:
        """See `World.switch_statistics`: of BMv2, the kernel's counts at its interfaces."""
        if self._switches is None:
            raise RunError("the emulated world is not up: enter it first")
        return self._switches.statistics()

    def reset_lateness(self) -> None:
        """Start the built-in switch's lateness statistics anew; do nothing on BMv2."""
        self.tell("reset")

    def tell(self, request: str) -> None:
        """Ask the built-in switches for something that BMv2 cannot do, and does without."""
        if isinstance(self._switches, BuiltinSwitches):
            self._switches.ask(request)

    def plain(self) -> list[str]:
        """See `World.plain`."""
        return self._switches.plain() if isinstance(self._switches, BuiltinSwitches) else []

    def wait_for_code(self) -> None:
        """See `World.wait_for_code`."""
        self.tell("code")

    def start_trace(self, switch: str, packets: int) -> None:
        """See `World.start_trace`."""
        self._builtin("be traced from here").start_trace(switch, packets)

    def take_trace(self, switch: str, *, end: bool = False) -> dict[str, Any]:
        """See `World.take_trace`."""
        return self._builtin("be traced from here").take_trace(switch, end=end)

    def _builtin(self, done: str) -> BuiltinSwitches:
        if not isinstance(self._switches, BuiltinSwitches):
            raise RunError(
                f"{self.switch_kind} cannot {done}: the built-in switch, --switch weft, can"
            )
        return self._switches

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """See `World.set_rates`; only the built-in switch can do that."""
        if not isinstance(self._switches, BuiltinSwitches):
            raise RunError(f"the rates of {self.switch_kind}'s links cannot be changed")
        self.tell(rates_request(self.topology, rates_bps))

    def set_link(self, node: str, neighbour: str, *, up: bool) -> None:
        """Let the link between two nodes fail or come back; while it is down, it loses everything.

        A patch link fails inside the switch process; for a pair of veths, the switch's end is set
        down and up, or one of two hosts' ends, whose routes are brought back with it. Raises
        InputError if there is no such link, RunError if the switches do not answer.
        """
        link = self.topology.direction(node, neighbour).link
        end = link.b  # the end away from the hosts is a switch's, if there is one
        if is_patched(link, self.topology, self.links):
            self.tell(f"link {end.node} {end.number} {'up' if up else 'down'}")
            return
        set_end(end, self.topology, self._namespaces.get(end.node, self.namespace_pid), up=up)

    def change_link(self, before: Link, after: Link) -> None:
        """See `World.change_link`; only the built-in switch can do that."""
        self._builtin("have its links changed")
        change_link(self.tell, self.topology, before, after, self.link_mtu, self._namespaces)
        super().change_link(before, after)

    def check_alive(self) -> None:
        """Raise RunError, which names the process, if a process that the network consists of has
        ended."""
        # The shells first: a link that goes with its namespace may take others along.
        self._check_shells()
        captures = self._captures.processes if self._captures is not None else []
        for process in [*self.switch_processes, *captures]:
            if not process.is_alive():
                raise RunError(f"{process.describe_end()} during the run{process.tail()}")

    def said(self) -> list[str]:
        """Return what the built-in switches have said since this was last called."""
        return self._switches.said() if isinstance(self._switches, BuiltinSwitches) else []

    def blaming_the_dead(self) -> AbstractContextManager[None]:
        """See `World.blaming_the_dead`."""
        return blaming(self.check_alive)

    def make_ready(self) -> None:
        """See `World.make_ready`."""
        self.frames.hush()
        self._ranks.make_ready()

    def expect(self, order: Order) -> None:
        """See `World.expect`."""
        self._ranks.expect(order)

    def gathered(
        self, order: Order, advance: Advance
    ) -> AbstractContextManager[Callable[[], list[RankReport]]]:
        """See `World.gathered`."""
        return self._ranks.gathered(order, advance)

    def evidence(self) -> tuple[CpuTimes, CpuTimes]:
        """See `World.evidence`."""
        return self._ranks.evidence()

    def _stations(self) -> list[tuple[int, str]]:
        """Return, by station, a process in the host's namespace, and the interface."""
        return [
            (self.host_pid(host.rank), self.host_interface(host.rank, each.number))
            for host, each in self.topology.stations
        ]

    def sent(self, station: int) -> tuple[int, int]:
        """See `World.sent`."""
        return sent_by(*self._stations()[station])

    @property
    def now_s(self) -> float:
        """The time of day in seconds."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Raise InputError: time goes by itself."""
        raise InputError(
            f"advance {seconds:g} s: in the emulated world time goes by itself; use time.sleep, or "
            "world='simulated'"
        )

    def popen(self, host: str, command: list[str], **options: Any) -> Any:
        """See `World.popen`."""
        return self.mininet[host].popen(command, **options)

    def addresses(self) -> dict[str, str]:
        """See `World.addresses`."""
        return _up(self.running).addresses()

    def programs(self) -> dict[str, str]:
        """See `World.programs`."""
        return {name: each.program for name, each in self._told().items()}

    def emptied(self) -> set[str]:
        """See `World.emptied`."""
        return {name for name, each in self._told().items() if each.emptied}

    def _told(self) -> dict[str, RunningSwitch]:
        return _up(self.running).again().switches

    def _check_shells(self) -> None:
        if self._record is not None and self._record.pid_namespace is not None:
            self._record.pid_namespace.check()
        if self._network is not None:
            self._network.check_namespaces()


def _up(part: Part | None) -> Part:
    """Return a part of the world; raise RunError unless the world is up."""
    if part is None:
        raise RunError("the emulated world is not up: enter it first")
    return part
