"""Start of a run's switch processes: one for all built-in switches, or one BMv2 for each switch."""

import json
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from weft.base import documents
from weft.base.children import run_tool
from weft.base.errors import InputError, MachineError, RunError
from weft.base.private_files import open_private
from weft.topo.interfaces import ETHERNET_BYTES, LinkKind, switch_interfaces
from weft.topo.network import CPU_PORT, DROP_PORT, Direction, Switch, Topology
from weft.topo.worlds.emulated.captures import capture_path
from weft.topo.worlds.emulated.loading import CONFIG
from weft.topo.worlds.emulated.namespaces import (
    in_namespace,
    queue_drops,
    read_counters,
)
from weft.topo.worlds.emulated.processes import RunProcess
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.watching import SOCKET, write_links

BMV2 = "simple_switch_grpc"
THRIFT_PORT = 9090
"""BMv2 switch n listens for Thrift at this port plus n, within the run's namespace only."""
READY_LIMIT_S = 600.0
"""The limit of `weft.base.effort.Effort`. A first start compiles the switch's real-time loop, which
takes a slow machine minutes; later ones take it from the cache."""
ANSWER_DEADLINE_S = 60.0
"""How long the switch process may take to answer; one that has ended is noticed at once."""
COMPILING_DEADLINE_S = 600.0
"""How long it may take until programs, or the traced form of a large one, have been compiled."""
BMV2_UMASK = 0o077
"""The umask of BMv2, so that the sockets and logs that it makes in the run's folder belong to their
owner alone."""
MOST_SAID_BYTES = 1 << 16
"""How much of a process's words is read at once."""
LEAST_FRAME_BYTES = 9216
"""The least room for a frame in the built-in switch, however small the links' MTU is."""


def socket_path(run: RunRecord, switch: Switch) -> Path:
    """Return where a switch listens for P4Runtime."""
    return run.folder / f"{switch.name}.sock"


def address(run: RunRecord, switch: Switch) -> str:
    """Return a switch's P4Runtime address, in the form that gRPC takes."""
    return f"unix:{socket_path(run, switch)}"


def builtin_config(
    topology: Topology,
    run: RunRecord,
    seed: int,
    link_mtu: int,
    bypass_qdisc: bool = True,
    links: LinkKind = "veth",
    patch_captures: Path | None = None,
) -> dict[str, Any]:
    """Return the configuration of ``python -m weft.switch.realtime`` for all switches of a
    topology.

    With ``bypass_qdisc``, tc at the switches' ends of links has no effect on what the switches
    send, and captures there do not see it. ``patch_captures`` is the folder for captures of patch
    links, which only the process itself sees.
    """
    ports: dict[str, list[dict[str, Any]]] = {switch.name: [] for switch in topology.switches}
    interfaces = dict(switch_interfaces(topology, links))
    for switch in topology.switches:
        for direction in topology.outward(switch.name):
            source, link = direction.source, direction.link
            port: dict[str, Any] = {
                "port": source.number,
                "rate_bps": link.rate_bps,
                "delay_ns": link.delay_ns,
                "queue_bytes": link.queue_bytes,
            }
            if link.loss:
                port["loss"] = link.loss
            if link.jitter_ns:
                port["jitter_ns"] = link.jitter_ns
            if source in interfaces:
                port["interface"] = interfaces[source]
                if direction.tier == "host_down":  # a host delays nothing that it sends
                    port["ingress_delay_ns"] = link.delay_ns
                    if link.loss:
                        port["ingress_loss"] = link.loss
                    if link.jitter_ns:
                        port["ingress_jitter_ns"] = link.jitter_ns
            else:
                port["patch"] = [direction.destination.node, direction.destination.number]
                if patch_captures is not None:
                    port["pcap_in"] = port["pcap_out"] = str(
                        capture_path(patch_captures, direction)
                    )
            ports[switch.name].append(port)
    return {
        "stats_socket": str(run.folder / SOCKET),
        "drop_port": DROP_PORT,
        "frame_bytes": max(LEAST_FRAME_BYTES, link_mtu + ETHERNET_BYTES),
        "bypass_qdisc": bypass_qdisc,
        "priority_queues": topology.priority_queues,
        "classes": [asdict(each) for each in topology.queue_changes],
        "at_once": True,
        "switches": [
            {
                "name": switch.name,
                "device_id": switch.device_id,
                "address": address(run, switch),
                "seed": (seed * 65536 + switch.device_id) % 2**63,
                "ports": ports[switch.name],
                "cpu_port": topology.cpu_port,
            }
            for switch in topology.switches
        ],
    }


class BuiltinSwitches:
    """All switches of a topology in one process of the built-in switch."""

    def __init__(self, run: RunRecord, process: RunProcess) -> None:
        """Take a process that loads what it needs (`weft.topo.worlds.emulated.loading`), and opens
        its ports when `begin` is called."""
        self._run = run
        self._statistics = str(run.folder / SOCKET)
        self._heard = 0
        """How many bytes of the process's words have been read."""
        self.processes = [process]

    def begin(self, topology: Topology, config: Mapping[str, Any], namespace_pid: int) -> None:
        """Let the process open its ports, as `builtin_config` has them, whose interfaces are in a
        process's namespace by now."""
        with open_private(self._run.folder / CONFIG, "w") as file:
            json.dump(config, file, indent=1)
        write_links(topology, self._run.folder)
        self.processes[0].tell(f"/proc/{namespace_pid}/ns/net")

    def wait_until_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Return once the process says that all its P4Runtime servers listen."""
        self.processes[0].wait_for_line("ready", limit_s)

    def said(self) -> list[str]:
        """Return the lines that the process has written since this was last called."""
        with open(self.processes[0].log, "rb") as log:
            log.seek(self._heard)
            text = log.read(MOST_SAID_BYTES)
        *lines, rest = text.split(b"\n")
        self._heard += len(text) - len(rest)
        if len(rest) == MOST_SAID_BYTES:  # a part of a longer line
            lines = [rest]
            self._heard += len(rest)
        return [line.decode(errors="replace") for line in lines]

    def statistics(self) -> dict[str, Any]:
        """Return the statistics document of the process. Raises RunError if it does not answer."""
        return self.ask("")

    def plain(self) -> list[str]:
        """Return the switches whose programs run in the plain form."""
        told = self.statistics()["switches"]
        return [switch["name"] for switch in told if switch["form"] == "plain"]

    def start_trace(self, switch: str, packets: int) -> None:
        """Trace the next packets of a switch. Raises RunError."""
        self.ask(f"trace {switch} start {packets}")

    def take_trace(self, switch: str, *, end: bool) -> dict[str, Any]:
        """Return what has been traced since this was last called; ``end`` ends the trace. Raises
        RunError."""
        taken = self.ask(f"trace {switch} take")
        if end:
            self.ask(f"trace {switch} end")
        return taken

    def ask(self, request: str) -> dict[str, Any]:
        """Return what the process answers to a request line of `weft.switch.realtime.statistics`,
        or to an empty one.

        Raises RunError if it does not answer, or refuses.
        """
        answer = bytearray()
        compiles = request.startswith(("trace", "code"))
        timeout_s = COMPILING_DEADLINE_S if compiles else ANSWER_DEADLINE_S
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(timeout_s)
                connection.connect(self._statistics)
                if request:
                    connection.sendall(f"{request}\n".encode())
                with suppress(OSError):  # it may have answered and gone already
                    connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    answer += chunk
            document = documents.decoded(dict[str, Any], bytes(answer), "its answer is no document")
        except (OSError, InputError) as error:
            raise RunError(
                f"{self.processes[0].describe_end()} and does not answer "
                f"{request or 'statistics'!r} at {self._statistics}, within {timeout_s:g} s: "
                f"{error}{self.processes[0].tail()}"
            ) from error
        if "error" in document:
            raise RunError(f"the switch process refuses: {document['error']}")
        return document


def losses_of(
    losing: Iterable[Direction], statistics: dict[str, Any]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the packets and bytes that built-in switches have lost for these directions of
    links, which lose at random by themselves; of links of theirs alone."""
    ports = {
        (switch["name"], port["port"]): port
        for switch in statistics["switches"]
        for port in switch["ports"]
    }
    found = {}
    for each in losing:
        for end, of in ((each.source, ""), (each.destination, "arrived_")):
            if port := ports.get((end.node, end.number)):
                found[each.ends] = port.get(f"{of}lost_packets", 0), port.get(f"{of}lost_bytes", 0)
                break
    return found


class Bmv2Switches:
    """One ``simple_switch_grpc`` for each switch, which has no program until the controller sends
    it one."""

    def __init__(
        self, topology: Topology, run: RunRecord, namespace_pid: int, log_packets: bool = False
    ) -> None:
        """Start all switches in the run's namespace. Raises MachineError if BMv2 is not installed.

        ``log_packets`` makes each switch write every step of every packet to its log in the run's
        folder.
        """
        self._topology = topology
        self._sockets = [socket_path(run, switch) for switch in topology.switches]
        self._namespace_pid = namespace_pid
        interfaces: dict[str, dict[int, str]] = {switch.name: {} for switch in topology.switches}
        for port, interface in switch_interfaces(topology):
            interfaces[port.node][port.number] = interface
        log = ("--log-console", "--log-level", "trace") if log_packets else ()
        self.processes = [
            RunProcess(
                run,
                f"BMv2 switch {switch.name}",
                bmv2_command(
                    switch.device_id,
                    path,
                    interfaces[switch.name],
                    topology.cpu_port,
                    log,
                    topology.priority_queues,
                ),
                namespace_pid=namespace_pid,
                log=run.folder / f"{switch.name}.log",
                speaks=False,
                umask=BMV2_UMASK,
            )
            for switch, path in zip(topology.switches, self._sockets, strict=True)
        ]

    def wait_until_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Return once every switch takes connections at its P4Runtime socket."""
        for process, path in zip(self.processes, self._sockets, strict=True):
            process.wait_for_socket(path, limit_s)

    def statistics(self) -> dict[str, Any]:
        """Return, per switch and port, what the kernel counted at its interface and what tbf
        dropped there.

        Keys are named as in the built-in switch's document; BMv2 has only these few of it.
        """
        counters = read_counters(self._namespace_pid)
        drops = in_namespace(self._namespace_pid, queue_drops)
        switches: dict[str, dict[str, Any]] = {}
        for port, interface in switch_interfaces(self._topology):
            known = switches.setdefault(port.node, {"name": port.node, "ports": []})
            known["ports"].append(
                {
                    "port": port.number,
                    "interface": interface,
                    **counters[interface],
                    "queue_drops": drops.get(interface, 0),
                }
            )
        return {
            "switches": list(switches.values()),
            "cpu_seconds": sum(process.cpu_seconds() for process in self.processes),
        }


SwitchProcesses = BuiltinSwitches | Bmv2Switches
"""The running switches of a world."""


def find_bmv2(search_path: str | None = None) -> str:
    """Return the path of simple_switch_grpc. Raises MachineError, which says what to install, if
    there is none."""
    found = shutil.which(BMV2, path=search_path)
    if found is None:
        raise MachineError(
            f"{BMV2} (BMv2) is not on PATH: --switch bmv2 needs it. Install p4lang's package "
            "p4lang-bmv2 (Ubuntu; see https://github.com/p4lang/behavioral-model, or the "
            "Vagrantfile here, which sets up a machine with it), or use --switch weft, which "
            "needs nothing"
        )
    return found


def bmv2_command(
    device_id: int,
    path: Path,
    interfaces: Mapping[int, str],
    cpu_port: int = CPU_PORT,
    log: Sequence[str] = (),
    priority_queues: int = 1,
) -> list[str]:
    """Return the command of a BMv2 without a program. Raises MachineError if BMv2 is not installed.

    Args:
        path: where it is to listen for P4Runtime.
        interfaces: the interface at each of its ports.
        cpu_port: the number of its port to the controller.
        log: options that say what it logs.
        priority_queues: how many queues each port has.
    """
    program = find_bmv2()
    return [
        *(program, "--no-p4", "--device-id", str(device_id), *log),
        *(
            word.format(thrift_port=THRIFT_PORT + device_id, path=path.with_suffix(""))
            for word in options_of_its_build(program)
        ),
        *(word for port, name in interfaces.items() for word in ("-i", f"{port}@{name}")),
        *("--", "--grpc-server-addr", f"unix:{path}"),
        *("--cpu-port", str(cpu_port), "--drop-port", str(DROP_PORT)),
        *(("--priority-queues", str(priority_queues)) if priority_queues > 1 else ()),
    ]


@cache
def options_of_its_build(program: str) -> tuple[str, ...]:
    """Return the options of a BMv2 that depend on what it was built with: a Thrift port for each
    device, and notifications by nanomsg kept out of /tmp, where device ids clash."""
    told = run_tool([program, "--help"])
    options = {
        "--thrift-port": "{thrift_port}",
        "--notifications-addr": "ipc://{path}.notifications",
    }
    known = told.stdout + told.stderr
    return tuple(chain.from_iterable(each for each in options.items() if each[0] in known))
