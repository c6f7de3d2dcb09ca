"""Switches and hosts for Mininet scripts that exist: the classes of BMv2's mininet/p4_mininet.py
and of the P4 tutorials' utils, with the built-in switch behind them, or BMv2.

A script runs with whatever Python has Mininet, so nothing but that and light parts of Weft is
imported here; the switches of a script are one process of ``weft switch``, in the Python of Weft.
"""

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from weft.base.errors import InputError, did_you_mean
from weft.interface.mininet_bmv2 import Bmv2Process, compiled_for_bmv2
from weft.switch.commands.switch_group import SwitchGroup
from weft.topo.worlds.emulated.mininet_classes import Host, Switch, info

KINDS = ("weft", "bmv2")
FIRST_GRPC_PORT = 50051
FIRST_THRIFT_PORT = 9090
MOST_TCP_PORT = 65535
OWN = (
    "sw_path", "json_path", "thrift_port", "pcap_dump", "log_console", "log_file", "verbose",
    "device_id", "enable_debugger", "program", "grpc_port", "cpu_port", "priority_queues",
    "start_controller", "switch",
)  # fmt: skip
"""The arguments of a switch beside Mininet's own, any of which it may have."""
MININETS = frozenset((
    "dpid", "opts", "listenPort", "inNamespace", "ip", "mac", "ports", "cls", "isSwitch", "cores",
    "batch", "protocols", "failMode", "datapath", "privateDirs",
))  # fmt: skip


class P4Host(Host):
    """A host whose interface is eth0, with no offloads, which P4 switches cannot undo, and no
    IPv6."""

    def config(self, **params: Any) -> Any:
        """Configure the host, as Mininet has its interfaces."""
        configured = super().config(**params)
        self.defaultIntf().rename("eth0")
        for offload in ("rx", "tx", "sg"):
            self.cmd(f"ethtool --offload eth0 {offload} off")
        for where in ("all", "default", "lo"):
            self.cmd(f"sysctl -w net.ipv6.conf.{where}.disable_ipv6=1")
        return configured

    def describe(self, sw_addr: str | None = None, sw_mac: str | None = None) -> None:
        """Print the host's interface and addresses, and those of its gateway, if they are given."""
        interface = self.defaultIntf()
        print(f"{self.name}: {interface.name}\t{interface.IP()}\t{interface.MAC()}")
        if sw_addr is not None or sw_mac is not None:
            print(f"{self.name}: gateway\t{sw_addr}\t{sw_mac}")


class P4Switch(Switch):
    """A P4 switch of a Mininet script: the built-in one, or BMv2.

    The first switch that is started brings up all that the script has made by then, in one process.
    That listens on loopback alone, and ends with its last switch or with the script. Raises
    ``InputError`` for arguments that make no sense, and RunError if it does not start.

    Args:
        name: the switch's name.
        sw_path: the program that BMv2 is; the built-in switch does not need it.
        json_path: the compiled program; none until a P4Runtime client brings it.
        program: the same, or P4 source, which is compiled.
        grpc_port: the port of 127.0.0.1 where P4Runtime is served, by default from 50051 on.
        thrift_port: BMv2's; the built-in switch has no Thrift server.
        pcap_dump: True or a folder for captures of each interface.
        log_console: log packets' ways and what log_msg says.
        log_file: what the process says and logs of this switch; by default /tmp/p4s.NAME.log.
        verbose: print the command that starts the switches.
        device_id: P4Runtime's device id, by default from 0 on.
        cpu_port: the port to the controller.
        priority_queues: the queues of each port.
        enable_debugger: BMv2's.
        start_controller: of no effect: P4Runtime clients may connect at once.
        switch: ``weft`` or ``bmv2``.
    """

    kind = "weft"
    executable = "simple_switch"
    _numbers: ClassVar[dict[str, set[int]]] = {}
    """The device ids and TCP ports of all switches so far."""
    _made: ClassVar[list["P4Switch"]] = []
    """Those that are yet to be started."""

    def __init__(
        self,
        name: str,
        sw_path: str | None = None,
        json_path: str | Path | None = None,
        thrift_port: int | None = None,
        pcap_dump: bool | str = False,
        log_console: bool = False,
        log_file: str | None = None,
        verbose: bool = False,
        device_id: int | None = None,
        enable_debugger: bool = False,
        *,
        program: str | Path | None = None,
        grpc_port: int | None = None,
        cpu_port: int | None = None,
        priority_queues: int | None = None,
        start_controller: bool = True,
        switch: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.kind = switch or self.kind
        if self.kind not in KINDS:
            raise InputError(f"switch {name}: switch={switch!r} is none of: {', '.join(KINDS)}")
        for given in kwargs.keys() - MININETS:
            if near := did_you_mean(given, OWN):
                raise InputError(
                    f"switch {name}: there is no argument {given!r}{near}; beside Mininet's own "
                    f"there are {', '.join(OWN)}"
                )
        program = _chosen(name, program, json_path)
        grpc_port = self._number(name, "grpc_port", grpc_port, FIRST_GRPC_PORT, MOST_TCP_PORT)
        thrift_port = self._number(
            name, "thrift_port", thrift_port, FIRST_THRIFT_PORT, MOST_TCP_PORT
        )
        device_id = self._number(name, "device_id", device_id, 0, (1 << 64) - 1)
        super().__init__(name, **kwargs)
        self.sw_path = sw_path or self.executable
        self.json_path = self.program = program
        self.grpc_port, self.thrift_port, self.device_id = grpc_port, thrift_port, device_id
        self.cpu_port = cpu_port
        self.priority_queues = priority_queues
        self.pcap_dump = pcap_dump
        self.log_console = log_console
        self.log_file = log_file or f"/tmp/p4s.{name}.log"
        self.verbose = verbose
        self.enable_debugger = enable_debugger
        self._process: SwitchGroup | Bmv2Process | None = None
        self._started_with: dict[int, str] = {}
        """The ports with which it was started."""
        self._made.append(self)

    @classmethod
    def _number(cls, name: str, what: str, given: int | None, first: int, most: int) -> int:
        used = cls._numbers.setdefault(what, set())
        number = next(each for each in count(first) if each not in used) if given is None else given
        if not isinstance(number, int) or not 0 <= number <= most:
            raise InputError(f"switch {name}: {what}={given!r}: a whole number, 0 to {most}")
        used.add(number)
        return number

    @classmethod
    def setup(cls) -> None:
        """Do nothing: Mininet asks this of each class of switches."""

    def port_interfaces(self) -> dict[int, str]:
        """Return the interfaces of its ports: those that have no address of their own."""
        return {number: each.name for number, each in self.intfs.items() if not each.IP()}

    def command_line(self) -> list[str]:
        """Return the options that it is started with, which are simple_switch_grpc's."""
        words = ["--device-id", str(self.device_id)]
        for number, interface in self.port_interfaces().items():
            words += ["-i", f"{number}@{interface}"]
        if self.pcap_dump:
            words.append(f"--pcap={'.' if self.pcap_dump is True else self.pcap_dump}")
        if self.log_console:
            words.append("--log-console")
        if self.enable_debugger:
            words.append("--debugger")
        return words

    def _command_line_of_target(self) -> list[str]:
        """Return the options behind ``--``, for the target with P4Runtime."""
        words = ["--grpc-server-addr", f"127.0.0.1:{self.grpc_port}"]
        for option, value in (
            ("--cpu-port", self.cpu_port), ("--priority-queues", self.priority_queues),
        ):  # fmt: skip
            if value is not None:
                words += [option, str(value)]
        return words

    def start(self, controllers: Iterable[Any]) -> None:
        """Start the switch, with all others that are yet to be started; it takes packets and
        P4Runtime clients when this returns."""
        if self._process is not None and self._started_with == self.port_interfaces():
            self._leave_waiting()
            return
        self._end()
        if self.kind == "bmv2":
            self._leave_waiting()
            self._start_bmv2()
            return
        together = [each for each in self._made if each.goes_with(self)]
        if self not in together:
            together.append(self)
        group = SwitchGroup(
            {each.name: [*each.command_line(), *each.of_weft()] for each in together},
            self.pid if self.inNamespace else None,
        )
        info(f"Starting P4 switches {', '.join(each.name for each in together)}.\n")
        if self.verbose:
            info(f"{group}\n")
        group.wait_until_ready()
        for each in together:
            each._process, each._started_with = group, each.port_interfaces()
        self._leave_waiting()

    def goes_with(self, other: "P4Switch") -> bool:
        """Return whether it can be in one process with another switch, and is not started yet."""
        return (
            self._process is None
            and self.kind == other.kind == "weft"
            and bool(self.shell)
            and not self.inNamespace
            and not other.inNamespace
            and self.priority_queues == other.priority_queues
        )

    def of_weft(self) -> list[str]:
        """Return the options of the built-in switch."""
        program = ["--no-p4"] if self.program is None else [str(self.program)]
        return [*self._command_line_of_target(), "--console-file", self.log_file, *program]

    def _start_bmv2(self) -> None:
        program = None
        if self.program is not None:
            program = compiled_for_bmv2(self.program, self.log_file)
        words = [*self.command_line(), *(["--no-p4"] if program is None else [str(program)])]
        with_grpc = "grpc" in self.sw_path
        target = ["--", *self._command_line_of_target()] if with_grpc else []
        self._process = Bmv2Process(
            self.sw_path,
            words,
            target,
            thrift_port=self.thrift_port,
            port=self.grpc_port if with_grpc else self.thrift_port,
            log_file=self.log_file,
            namespace_pid=self.pid if self.inNamespace else None,
        )
        info(f"Starting P4 switch {self.name}.\n")
        if self.verbose:
            info(f"{self._process}\n")
        self._process.wait_until_ready()
        self._started_with = self.port_interfaces()

    def stop(self, deleteIntfs: bool = True) -> None:
        """End the switch."""
        self._end()
        self._leave_waiting()
        super().stop(deleteIntfs)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop(self.name)

    def _leave_waiting(self) -> None:
        if self in self._made:
            self._made.remove(self)

    def attach(self, intf: Any) -> None:
        """Refuse: ports are opened when the switch starts."""
        raise InputError(f"switch {self.name}: stop it before {intf} is attached, then start it")

    detach = attach


class P4RuntimeSwitch(P4Switch):
    """A P4 switch with P4Runtime: the built-in switch always has it, BMv2 in this class."""

    executable = "simple_switch_grpc"


class Bmv2Switch(P4RuntimeSwitch):
    """BMv2's simple_switch_grpc, for ``mn --switch bmv2``."""

    kind = "bmv2"


def _chosen(name: str, program: str | Path | None, json_path: str | Path | None) -> Path | None:
    """Return the program of a switch, which may have both names."""
    if program is not None and json_path is not None:
        raise InputError(f"switch {name}: program and json_path are one thing: give one of them")
    chosen = json_path if program is None else program
    if chosen is None:
        return None
    if not isinstance(chosen, str | Path) or not Path(chosen).is_file():
        raise InputError(f"switch {name}: program {str(chosen)!r}: there is no such file")
    return Path(chosen)


switches = {"weft": P4RuntimeSwitch, "bmv2": Bmv2Switch}
"""What ``mn --custom FILE --switch NAME,program=FILE.p4`` knows them by."""
hosts = {"p4": P4Host}
"""The same of hosts: ``mn --host p4``."""
