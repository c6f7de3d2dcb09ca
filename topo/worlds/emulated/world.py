"""The emulated world: a topology as Linux namespaces and veth pairs, brought up with Mininet.

Every host has a namespace of its own. One namespace more, the run's, holds all the switches' ends
of links and the switch processes. Nothing is made in, or passes through, the machine's own
namespace; P4Runtime is reached over Unix sockets in the run's folder.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from weft.base.errors import RunError
from weft.base.files import check_working_folder
from weft.base.signals import ending_on_signals, signals_held
from weft.base.streams import open_closed
from weft.topo.interfaces import (
    LINK_MTU,
    SYSCTLS,
    LinkKind,
    check_link_mtu,
    check_path_mtu,
    host_shapers,
    host_side,
    host_side_again,
    interface_name,
    ipv6_rules,
    ipv6_sysctls,
    is_patched,
    switch_interfaces,
    switch_shapers,
    switch_side_links,
)
from weft.topo.network import HOST_PORT, Host, Port, Topology, format_mac
from weft.topo.switch_kinds import SwitchKind, check_kind, check_topology, require
from weft.topo.worlds.emulated.captures import CaptureResult, LinkCaptures, patch_results
from weft.topo.worlds.emulated.cleanup import kill_all, marked_processes
from weft.topo.worlds.emulated.machine import check_limits, check_machine
from weft.topo.worlds.emulated.namespaces import (
    in_namespace,
    queue_drops,
    read_counters,
    run_batch,
    turn_offloads_off,
    write_sysctls,
)
from weft.topo.worlds.emulated.processes import RunProcess, stop_all
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.switch_processes import (
    READY_LIMIT_S,
    Bmv2Switches,
    BuiltinSwitches,
    SwitchProcesses,
    address,
    find_bmv2,
)

if TYPE_CHECKING:
    from weft.topo.worlds.emulated.mininet_network import MininetNetwork

Part = TypeVar("Part")

DEATH_S = 1.0
"""How long a process whose connections have ended may take to end itself."""

TRACE_DEADLINE_S = 600.0
"""How long a trace may take to begin: a large program's traced form is compiled first."""


class EmulatedWorld:
    """A topology that is up while this context manager is entered.

    Enter it in the main thread, or in one that outlives it: the kernel kills the run's processes
    when the thread that started them ends. A SIGTERM or SIGHUP in between ends the block as
    SystemExit, so that it cleans up after itself.
    """

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
        switch_module: str = "weft.switch.realtime",
        ready_limit_s: float = READY_LIMIT_S,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Check everything that can be checked before anything is made.

        ``run`` is the record to use; without one the world makes its own, and removes it at its
        end. ``path_mtu`` is the RoCE payload in bytes, ``link_mtu`` the veths' IP MTU. With
        ``pcap_dir``, every link end is captured there. With ``bypass_qdisc``, what the built-in
        switches send passes by the queueing disciplines of their interfaces, unless it is captured:
        cheaper, but tc has no effect there. ``bmv2_log`` turns BMv2's packet logs on.
        With ``links`` "patch", links between switches are inside the switch process, without
        interfaces; only the built-in switch can do that. ``switch_module`` is the module that runs
        the built-in switches. ``meanwhile`` is called while the switches start. Raises InputError
        for what makes no sense, MachineError for what the machine does not have.
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
        self.path_mtu = path_mtu
        self.link_mtu = link_mtu
        self.seed = seed
        self.captured: list[CaptureResult] = []
        """What each capture holds and lost; filled when the world has ended."""
        self._owns_record = run is None
        self._pcap_dir = pcap_dir
        self._bypass_qdisc = bypass_qdisc and pcap_dir is None
        self._bmv2_log = bmv2_log
        self._switch_module = switch_module
        self._ready_limit_s = ready_limit_s
        self._meanwhile = meanwhile
        self._record: RunRecord | None = run
        self._network: MininetNetwork | None = None
        self._switches: SwitchProcesses | None = None
        self._captures: LinkCaptures | None = None
        self._namespaces: dict[str, int] = {}
        self._signals = ExitStack()
        self._ready = False
        """Whether the switches have said that they are."""

    def __enter__(self) -> "EmulatedWorld":
        """Bring everything up; return when all switches take P4Runtime connections."""
        open_closed()
        self._signals.enter_context(ending_on_signals())
        try:
            if self._record is None:
                with signals_held():
                    self._record = RunRecord.create()
            self._bring_up()
        except BaseException as error:
            try:
                if isinstance(error, Exception):
                    self._check_shells()
            finally:
                self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take everything down."""
        self.close()

    def _bring_up(self) -> None:
        from weft.topo.worlds.emulated.mininet_network import MininetNetwork

        self.record.enclose()
        network = self._network = MininetNetwork(
            self.record,
            len(self.topology.nodes) + 1,
            lambda node, neighbour, up: self.set_link(node, neighbour, up=up),
        )
        self._namespaces["switches"] = network.add_run_namespace()
        if self.switch_kind == "weft":  # it loads its code while the links are made
            builtin = self._switches = BuiltinSwitches(
                self.topology,
                self.record,
                self.namespace_pid,
                self.seed,
                self.link_mtu,
                self._switch_module,
                bypass_qdisc=self._bypass_qdisc,
                links=self.links,
                patch_captures=self._pcap_dir,
            )
        self._make_nodes(network)
        self._make_links()
        switches: SwitchProcesses
        if self.switch_kind == "weft":
            switches = builtin
            builtin.begin()
        else:
            switches = self._switches = Bmv2Switches(
                self.topology, self.record, self.namespace_pid, self._bmv2_log
            )
        self._configure_hosts()
        if self._pcap_dir is not None:
            self._captures = LinkCaptures(
                self.topology,
                self.record,
                self._pcap_dir,
                {
                    name: self._namespaces.get(name, self.namespace_pid)
                    for name in self.topology.nodes
                },
                self.link_mtu,
                self.links,
            )
        self._meanwhile()
        switches.wait_until_ready(self._ready_limit_s)
        self._ready = True

    def _make_nodes(self, network: "MininetNetwork") -> None:
        for host in self.topology.hosts:
            self._namespaces[host.name] = network.add_host(host.name)
        for switch in self.topology.switches:
            network.add_switch(switch.name, switch.device_id)
        network.await_hosts()

    def _make_links(self) -> None:
        for pid in self._namespaces.values():
            in_namespace(pid, lambda: write_sysctls(SYSCTLS))
        links = switch_side_links(self.topology, self._namespaces, self.link_mtu, self.links)
        bmv2 = self.switch_kind == "bmv2"
        shapers = switch_shapers(self.topology, self.link_mtu) if bmv2 else []

        def make() -> None:
            run_batch("ip", links)
            turn_offloads_off(self._interfaces.values())
            run_batch("tc", shapers)

        in_namespace(self.namespace_pid, make)
        for link in self.topology.links:
            if not is_patched(link, self.topology, self.links):
                _up(self._network).add_link(
                    link.a.node,
                    link.b.node,
                    (link.a.number, link.b.number),
                    (interface_name(link.a, self.topology), interface_name(link.b, self.topology)),
                )

    def _configure_hosts(self) -> None:
        def configure(host: Host) -> None:
            work = partial(
                _configure_host,
                [
                    interface_name(uplink.source, self.topology)
                    for uplink in self.topology.outward(host.name)
                ],
                ipv6_sysctls(host, self.topology),
                host_side(host, self.topology),
                ipv6_rules(host),
                host_shapers(host, self.topology, self.link_mtu),
            )
            in_namespace(self._namespaces[host.name], work)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as side_by_side:
            list(side_by_side.map(configure, self.topology.hosts))
        for host in self.topology.hosts:
            for each in host.interfaces:
                interface = interface_name(Port(host.name, each.number), self.topology)
                _up(self._network).set_address(
                    host.name, interface, each.with_subnets, format_mac(each.mac)
                )

    def close(self) -> None:
        """Take everything down: processes, namespaces, links, sockets and the run's folder.

        Afterwards :attr:`captured` says what was captured. This may be called more than once;
        signals wait until it is done. The folder of a record that was handed in stays. Raises
        RunError, with everything down, if the switches could not end their captures.
        """
        try:
            with signals_held():
                try:
                    self._end_captures()
                finally:
                    self._captures = None
                    self._end_processes()
        finally:
            self._signals.close()

    def _end_captures(self) -> None:
        if self._captures is None:
            return
        self.captured = self._captures.stop()
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

    @property
    def record(self) -> RunRecord:
        """Return the run's record: its id, its folder, and the environment for its processes."""
        return _up(self._record)

    @property
    def network(self) -> Any:
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

    def host_counters(self, host: str) -> dict[str, dict[str, int]]:
        """Return what a host's kernel counted at its interfaces, by their names; see
        `weft.topo.worlds.emulated.namespaces.read_counters`."""
        return read_counters(self.host_pid(self.topology.host(host).rank))

    def host_queue_drops(self) -> dict[str, int]:
        """Return, by host, the packets that the tbf on the host's own interface dropped."""
        return {
            host.name: sum(in_namespace(self.host_pid(host.rank), queue_drops).values())
            for host in self.topology.hosts
        }

    def fault_losses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return, by direction, the packets and bytes that links lost which lose at random by
        themselves (`weft.topo.network.Link.loss`). What else is lost on purpose, programs of
        switches lose and count."""
        if not any(link.loss for link in self.topology.links):
            return {}
        ports = {
            (switch["name"], port["port"]): port
            for switch in self.switch_statistics()["switches"]
            for port in switch["ports"]
        }
        found = {}
        for each in (each for each in self.topology.directions if each.link.loss):
            source = ports.get((each.source.node, each.source.number))
            port = source or ports[each.destination.node, each.destination.number]
            of = "" if source else "arrived_"
            found[each.ends] = port[f"{of}lost_packets"], port[f"{of}lost_bytes"]
        return found

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
        """Return what the switches report of themselves: the built-in switch's statistics document,
        or the kernel's counts at BMv2's interfaces."""
        if self._switches is None:
            raise RunError("the emulated world is not up: enter it first")
        return self._switches.statistics()

    def reset_lateness(self) -> None:
        """Start the built-in switch's lateness statistics anew; do nothing on BMv2."""
        if isinstance(self._switches, BuiltinSwitches):
            self._switches.ask("reset")

    def record_loads(self, start_ns: int, bin_ns: int) -> None:
        """Count what links carry from this time of CLOCK_MONOTONIC on, in bins of this length or of
        a multiple of it. The counts are among the built-in switch's statistics; BMv2 counts
        nothing."""
        if isinstance(self._switches, BuiltinSwitches):
            self._switches.ask(f"loads {start_ns} {bin_ns}")

    def end_loads(self) -> None:
        """Stop counting what links carry."""
        if isinstance(self._switches, BuiltinSwitches):
            self._switches.ask("loads end")

    def start_trace(self, switch: str, packets: int) -> None:
        """Trace the next packets of a built-in switch. Raises RunError.

        The traced form of its program may have to be compiled first, which takes seconds.
        """
        self._builtin("traced").ask(f"trace {switch} start {packets}", TRACE_DEADLINE_S)

    def take_trace(self, switch: str, *, end: bool = False) -> dict[str, Any]:
        """Return what has been traced at a switch (`weft.switch.realtime.traces.Traces.take`) since
        this was last called; ``end`` ends the trace. Raises RunError."""
        switches = self._builtin("traced")
        taken = switches.ask(f"trace {switch} take", TRACE_DEADLINE_S)
        if end:
            switches.ask(f"trace {switch} end")
        return taken

    def _builtin(self, done: str) -> BuiltinSwitches:
        if not isinstance(self._switches, BuiltinSwitches):
            raise RunError(
                f"{self.switch_kind} cannot be {done} from here: the built-in switch, "
                "--switch weft, can"
            )
        return self._switches

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """Let directions of links between switches, given by their ends, go on at other rates, in
        bit/s.

        Only the built-in switch can do that. Raises RunError.
        """
        if not isinstance(self._switches, BuiltinSwitches):
            raise RunError(f"the rates of {self.switch_kind}'s links cannot be changed")
        rates = (
            f"{source} {self.topology.direction(source, target).source.number} {rate_bps}"
            for (source, target), rate_bps in rates_bps.items()
        )
        self._switches.ask(" ".join(["rates", *rates]))

    def set_link(self, node: str, neighbour: str, *, up: bool) -> None:
        """Let the link between two nodes fail or come back; while it is down, it loses everything.

        A patch link fails inside the switch process; for a pair of veths, the switch's end is set
        down and up, or one of two hosts' ends, whose routes are brought back with it. Raises
        InputError if there is no such link, RunError if the switches do not answer.
        """
        direction = self.topology.direction(node, neighbour)
        end = direction.link.b  # the end away from the hosts is a switch's, if there is one
        state = "up" if up else "down"
        host = self.topology.nodes[end.node]
        if isinstance(host, Host):
            lines = [f"link set dev {interface_name(end, self.topology)} {state}"]
            lines += host_side_again(host, end.number, self.topology) if up else []
            in_namespace(self.host_pid(host.rank), lambda: run_batch("ip", lines))
            return
        if is_patched(direction.link, self.topology, self.links):
            assert isinstance(self._switches, BuiltinSwitches)
            self._switches.ask(f"link {end.node} {end.number} {state}")
            return
        interface = self._interfaces[end]
        in_namespace(
            self.namespace_pid, lambda: run_batch("ip", [f"link set dev {interface} {state}"])
        )

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
        """Return what the built-in switches have said since this was last called, as of packets
        that no queue takes."""
        return self._switches.said() if isinstance(self._switches, BuiltinSwitches) else []

    @contextmanager
    def blaming_the_dead(self) -> Iterator[None]:
        """Name the process of the network that has ended, if the block fails because of that: a
        RunError that names it replaces the RunError that the block raised."""
        try:
            yield
        except RunError:
            end = time.monotonic() + DEATH_S
            while True:  # its connections end a moment before it does
                self.check_alive()
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _check_shells(self) -> None:
        if self._record is not None and self._record.pid_namespace is not None:
            self._record.pid_namespace.check()
        if self._network is not None:
            self._network.check_namespaces()


def _configure_host(
    interfaces: Sequence[str],
    sysctls: Sequence[tuple[str, str]],
    lines: Sequence[str],
    rules: Sequence[str],
    shapers: Sequence[str],
) -> None:
    """Configure a host's interfaces, in the calling thread's namespace."""
    turn_offloads_off(interfaces)
    write_sysctls(sysctls)
    run_batch("ip", lines)
    run_batch("ip", rules, "-6")
    run_batch("tc", shapers)


def _up(part: Part | None) -> Part:
    """Return a part of the world; raise RunError unless the world is up."""
    if part is None:
        raise RunError("the emulated world is not up: enter it first")
    return part
