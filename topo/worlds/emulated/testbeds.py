"""What a testbed that stays up tells of itself, so that other processes find its switches.

`Testbed.write` leaves ``testbed.json`` in the run's folder; the file goes with the folder.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from weft.base import documents
from weft.base.arguments import whole
from weft.base.effort import start_time
from weft.base.errors import InputError, RunError, did_you_mean
from weft.base.files import read_text, told_as_input
from weft.base.private_files import open_private
from weft.base.units import listed
from weft.topo.addresses import format_mac
from weft.topo.interfaces import interface_name
from weft.topo.network import CPU_PORT, Port, Switch, Topology
from weft.topo.worlds.emulated.relays import LOOPBACK, Relays
from weft.topo.worlds.emulated.runs import RUNS, DoubtfulError, Process, read_believed, read_record

FILE = "testbed.json"
UNIX = "unix:"

MOST_SCRIPT_BYTES = 1 << 20
"""The largest file of commands for a testbed's prompt."""


def read_script(path: Path, what: str) -> str:
    """Return the prompt's commands in a file, by any name. Raises InputError, which begins with
    ``what``."""
    with told_as_input(what):
        return read_text(path, MOST_SCRIPT_BYTES, endings=())


@dataclass(frozen=True)
class RunningSwitch:
    """A switch of a testbed by where it serves P4Runtime (``unix:PATH``) and by its device
    id."""

    address: str
    device_id: int
    program: str = ""
    """The source that Weft has loaded into it; "" for the fabric's program, or for none yet."""
    emptied: bool = False
    """Whether entries were lost when a program was loaded, so that no plan holds there any more."""


@dataclass(frozen=True)
class RunningPort:
    """An end of a link of a testbed: an interface of a node, which is its port of this number."""

    node: str
    number: int
    interface: str
    mac: str
    ip: str = ""
    """The IPv4 address and the length of its prefix; "" for none, as a switch's have."""


@dataclass(frozen=True)
class RunningLink:
    """A link of a testbed, of the same rate and delay in either direction."""

    one: RunningPort
    other: RunningPort
    rate_bps: int
    delay_ns: int


@dataclass(frozen=True)
class RunningTestbed:
    """A testbed that is up."""

    run_id: str
    description: str
    switches: dict[str, RunningSwitch]
    """The switches by name."""
    controlled: bool = True
    """Whether Weft's own controller owns the switches."""
    grpc_port: int | None = None
    """The TCP port of loopback where the first switch serves P4Runtime, too; None: nowhere."""
    nodes: dict[str, Process] = field(default_factory=dict)
    """Of each host and switch, a process in its namespaces."""
    links: list[RunningLink] = field(default_factory=list)
    cpu_port: int = CPU_PORT

    @staticmethod
    def of(
        run_id: str,
        topology: Topology,
        addresses: Mapping[str, str],
        controlled: bool,
        grpc_port: int | None,
        namespaces: Mapping[str, int],
    ) -> "RunningTestbed":
        """Return what is told of a network whose switches serve P4Runtime at these addresses, and
        whose nodes' namespaces have these processes in them."""
        switches = {
            each.name: RunningSwitch(addresses[each.name], each.device_id, each.program)
            for each in topology.switches
        }
        nodes = {name: Process(pid, start_time(pid) or 0, name) for name, pid in namespaces.items()}
        links = [
            RunningLink(
                _port(link.a, topology), _port(link.b, topology), link.rate_bps, link.delay_ns
            )
            for link in topology.links
        ]
        return RunningTestbed(
            run_id,
            topology.describe(),
            switches,
            controlled,
            grpc_port,
            nodes,
            links,
            topology.cpu_port,
        )

    def ports(self) -> dict[str, int]:
        """Return the switches' TCP ports, by name."""
        if self.grpc_port is None:
            return {}
        return {name: port for port, name in enumerate(self.switches, self.grpc_port)}

    def addresses(self) -> dict[str, str]:
        """Return where each switch serves P4Runtime, by name: at its TCP port, if it has one."""
        ports = {name: f"{LOOPBACK}:{port}" for name, port in self.ports().items()}
        return {name: ports.get(name, each.address) for name, each in self.switches.items()}

    def lines(self) -> list[str]:
        """Return where each switch serves P4Runtime, a line for each."""
        ports = {name: f", {LOOPBACK}:{port}" for name, port in self.ports().items()}
        return [
            f"{name}: device {each.device_id}, {each.address}{ports.get(name, '')}"
            for name, each in self.switches.items()
        ]

    def loaded(self, name: str, program: Path, *, emptied: bool) -> None:
        """Note that a switch runs another program now, for whoever looks at this testbed; and
        whether entries were lost by that. Others may note something at the same time."""
        folder = RUNS / self.run_id
        with suppress(OSError), _alone(folder):  # it may be in the midst of being taken down
            self.switches.update(self.again().switches)
            before = self.switches[name]
            emptied = emptied or before.emptied
            self.switches[name] = replace(before, program=str(program), emptied=emptied)
            self.write(folder)

    def again(self) -> "RunningTestbed":
        """Return what is written of this testbed now: somebody else may have loaded a program."""
        try:
            written = read_believed(RUNS / self.run_id / FILE)
        except OSError:  # it is gone, and so is whoever could have loaded something
            return self
        return documents.decoded(RunningTestbed, written, FILE)

    def write(self, folder: Path) -> None:
        """Write this into the run's folder, whole or not at all."""
        draft = folder / f".{FILE}"
        with open_private(draft, "w") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self)).decode() + "\n")
        draft.replace(folder / FILE)

    def choose(self, names: Sequence[str]) -> dict[str, RunningSwitch]:
        """Return the switches of these names, or all of them if no names are given.

        Raises:
            InputError: there is no switch of one of the names.
        """
        for name in names:
            if name not in self.switches:
                raise InputError(
                    f"switch {name!r}: testbed {self.run_id} has {', '.join(self.switches)}"
                )
        return {name: self.switches[name] for name in names or self.switches}

    def node(self, name: str) -> Process:
        """Return a process in the namespaces of a host or a switch.

        Raises:
            InputError: there is no such node.
            RunError: the process has ended, and its namespaces with it.
        """
        process = self.nodes.get(name)
        if process is None:
            raise InputError(
                f"node {name!r}: testbed {self.run_id} has {listed(self.nodes, 'and')}"
                f"{did_you_mean(name, self.nodes)}"
            )
        if not process.is_alive():
            raise RunError(
                f"{name}: what holds its namespace (pid {process.pid}) has ended: end testbed "
                f"{self.run_id}, and bring it up again"
            )
        return process


def _port(port: Port, topology: Topology) -> RunningPort:
    """Return what is told of an end of a link."""
    node, name = topology.node(port.node), interface_name(port, topology)
    if isinstance(node, Switch):
        return RunningPort(port.node, port.number, name, format_mac(node.mac))
    interface = node.interfaces[port.number - 1]
    ip = f"{interface.ip}/{interface.prefix_bits}" if interface.address else ""
    return RunningPort(port.node, port.number, name, format_mac(interface.mac), ip)


def relays_of(testbed: RunningTestbed) -> Relays:
    """Return what serves a testbed's switches at their TCP ports."""
    return Relays(
        {
            port: testbed.switches[name].address.removeprefix(UNIX)
            for name, port in testbed.ports().items()
        }
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock of a run's folder. Raises OSError if the folder is gone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_grpc_port(what: str, first: int, switches: int) -> int:
    """Return the first TCP port of a network's switches. Raises InputError, which calls it
    ``what``, where there is no room for all."""
    most = 65536 - switches
    if not 1 <= whole(what, first, "9559") <= most:
        raise InputError(
            f"{what} {first}: the first port is 1 to {most}, as there are {switches} switches"
        )
    return first


def _look(root: Path) -> tuple[list[RunningTestbed], list[str]]:
    """Return the testbeds that are up, and a line for each run that cannot be read or believed."""
    found, doubts = [], []
    for folder in sorted(root.glob("[!.]*")):
        try:
            runner, _ = read_record(folder)
            if runner is None or not runner.is_alive():
                continue
            found.append(documents.decoded(RunningTestbed, read_believed(folder / FILE), FILE))
        except PermissionError:
            doubts.append(f"{folder} is another user's: use sudo")
        except DoubtfulError as error:
            doubts.append(str(error))
        except (OSError, InputError):
            continue  # it is no testbed's, or being taken down
    return found, doubts


def running_testbeds(root: Path = RUNS) -> list[RunningTestbed]:
    """Return the testbeds that are up, as far as they can be read."""
    found, _ = _look(root)
    return found


def find_testbed(run_id: str | None = None, root: Path = RUNS) -> RunningTestbed:
    """Return the testbed with this id, or the only one.

    Raises:
        InputError: there is none, or there are several and none was named.
    """
    found, doubts = _look(root)
    if run_id is not None:
        found = [each for each in found if each.run_id == run_id] or found
        if not found or found[0].run_id != run_id:
            raise InputError(f"run {run_id!r}: {_listed(found, doubts)}")
    if len(found) != 1:
        raise InputError(f"which testbed: {_listed(found, doubts)}")
    return found[0]


def _listed(found: list[RunningTestbed], doubts: list[str]) -> str:
    lines = "".join(f"\n  --run {each.run_id}  {each.description}" for each in found)
    said = f"up are:{lines}" if found else "no testbed is up; bring one up with 'sudo ./weft up'"
    return "\n".join([said, *doubts])
