"""The command line of ``weft switch``: the options of simple_switch_grpc, and a few of its own."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from weft.base import VERSION
from weft.base.errors import InputError, refuse
from weft.base.units import parse_duration, parse_rate, parse_size
from weft.switch.architecture_names import ARCHITECTURES
from weft.switch.priority_queues import MOST_PRIORITY_QUEUES
from weft.switch.realtime.config import MOST_PORT

SWITCH = "--switch"
DEFAULT_ADDRESS = "127.0.0.1:9559"
PROGRAM_SUFFIXES = (".p4", ".json")
LEVELS = ("trace", "debug", "info", "warn", "error", "off")

DESCRIPTION = (
    "One built-in P4 switch, in place of simple_switch_grpc: the same options (those after -- may "
    "as well stand before it), ports that are interfaces of this network namespace, and a "
    "P4Runtime server. --switch begins each of several. Ctrl-C ends it."
)

WITHOUT_EFFECT = {
    "thrift_port": "there is no Thrift server: tables are reached over P4Runtime",
    "nanolog": "there are no nanomsg logs: --log-console and --log-file log",
    "notifications_addr": "there are no nanomsg notifications: digests and idle timeouts come over "
    "P4Runtime",
    "dump_packet_data": "--pcap captures packets, --trace tells what each goes through",
    "debugger": "weft debug --attach debugs what runs with --debug-socket",
    "debugger_addr": "weft debug --attach debugs what runs with --debug-socket",
    "max_port_count": "ports are what -i names, each with a number from 0 to 510",
}
"""Options that scripts for BMv2 send (P4 tutorials, ONOS, p4-utils, PTF tests), and why they do
nothing here."""

REFUSED = {
    "use_files": "packets come from interfaces alone; 'weft stf' tests programs without them",
    "packet_in": "packets come from interfaces alone, not from nanomsg",
    "restore_state": "a state of BMv2's cannot be restored",
    "load_modules": "modules of BMv2's cannot be loaded",
    "dp_grpc_server_addr": "packets come from interfaces alone, not from gRPC",
}

JSON_VERSION = "2.24"
"""The greatest version of BMv2's JSON that the engine knows."""
_FLAG = "store_true"
_MANY: dict[str, Any] = {"action": "append", "default": []}


@dataclass(frozen=True)
class TlsFiles:
    """These are the PEM files of a P4Runtime server with TLS, as BMv2's options name them."""

    certificate: Path
    key: Path
    client_ca: Path | None
    """The authority that clients' certificates are checked against, if they have any."""
    client_needed: bool
    """Whether a client must have one."""


@dataclass(frozen=True)
class SwitchOptions:
    """The options hold what the command line asks for."""

    name: str
    program: Path | None
    architecture: str | None
    """What the program must be for, if anything is said."""
    interfaces: tuple[tuple[int, str], ...]
    """Ports and their interfaces, in the order in which they were given."""
    queues: dict[int | None, dict[str, int]]
    """The link behind a port, or behind all other ports (None), in the keys of
    `weft.switch.realtime.config`."""
    device_id: int
    address: str
    cpu_port: int | None
    drop_port: int
    priority_queues: int
    bypass_qdisc: bool
    """Whether what it sends passes by the interfaces' queueing disciplines."""
    pcap: Path | None
    log_console: bool
    log_file: Path | None
    log_level: str
    log_file_bytes: int
    """The size at which the log begins a new file."""
    log_files: int
    """How many older files are kept."""
    tls: TlsFiles | None
    trace: str | None
    console: Path | None
    """The file that what would go to the terminal goes to."""
    control: int | None
    """The descriptor by which whoever started the process is told of its switches and ends
    them."""
    joinable: Path | None
    """The socket by which others join its process."""
    join: Path | None
    """The socket of the process that it joins."""
    debug_socket: Path | None
    """Where ``weft debug --attach`` finds its process."""
    seed: int
    include: tuple[Path, ...]
    defines: tuple[str, ...]
    notes: tuple[str, ...]

    def queue(self, port: int) -> dict[str, int]:
        """Return the link behind a port: its own, or that of all ports."""
        return self.queues.get(port) or self.queues.get(None, {})


_OF_ONE = {
    "the name": "name",
    "--grpc-server-addr": "address",
    "--log-file": "log_file",
    "--console-file": "console",
    "--trace": "trace",
}
"""What each switch of a process has for itself, and its attribute."""
_OF_ALL = {
    "--drop-port": "drop_port",
    "--priority-queues": "priority_queues",
    "--bypass-qdisc": "bypass_qdisc",
    "--control-fd": "control",
    "--joinable": "joinable",
    "--join": "join",
    "--debug-socket": "debug_socket",
}
"""What all switches of a process share."""


class _OptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"switch: {message}; 'weft switch --help' lists the options")


OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("-i --interface", {**_MANY, "metavar": "PORT@IFACE",
     "help": "an interface as a port; may be repeated"}),
    ("--arch", {"choices": ARCHITECTURES,
     "help": "what the program must be for [what it says itself]"}),
    ("--no-p4", {"action": _FLAG, "help": "start without a program: a client brings it"}),
    ("--device-id", {"default": "0", "metavar": "N", "help": "P4Runtime's device id [0]"}),
    ("--grpc-server-addr", {"default": DEFAULT_ADDRESS, "metavar": "HOST:PORT|unix:PATH",
     "help": f"where P4Runtime is served [{DEFAULT_ADDRESS}: this machine alone]"}),
    ("--cpu-port", {"metavar": "PORT",
     "help": "port for packets to and from the controller [none]"}),
    ("--drop-port", {"default": "511", "metavar": "PORT",
     "help": "egress port that means drop [511]"}),
    ("--queue", {**_MANY, "metavar": "[PORT:]KEY=VALUE,...",
     "help": "the link behind a port, or all: rate=10Mbit, delay=1ms, packets=64, "
     "bytes=64KiB; may be repeated [no limits]"}),
    ("--priority-queues", {"default": "1", "metavar": "N",
     "help": "queues of each port, for priorities 0 to N-1, the greatest first [1]"}),
    ("--bypass-qdisc", {"action": _FLAG,
     "help": "send past the interfaces' queueing disciplines: a little faster, but tc has no "
     "effect on it, and other programs' captures do not see it"}),
    ("--pcap", {"metavar": "DIR", "help": "capture into DIR/IFACE_in.pcap and _out.pcap [no; .]"}),
    ("--log-console", {"action": _FLAG, "help": "log to standard output"}),
    ("--log-file", {"metavar": "FILE", "help": "log to FILE.txt, as BMv2 names it"}),
    ("-L --log-level", {"default": "trace", "choices": LEVELS, "help": "[trace]"}),
    ("--trace", {"nargs": "?", "const": "-", "metavar": "FILE",
     "help": "write what every packet goes through; --trace=X.jsonl: as JSON lines [no; to "
     "standard output]"}),
    ("--switch", {"metavar": "NAME",
     "help": "begin the next one of several switches of one process: what follows is its own, what "
     "stands before the first one is for all"}),
    ("--console-file", {"metavar": "FILE",
     "help": "write to FILE what would go to the terminal"}),
    ("--control-fd", {"metavar": "N",
     "help": "one end of a pair of sockets: 'ready NAME' is said there of each switch, and 'stop "
     "NAME' ends it; its end is the end of all"}),
    ("--joinable", {"metavar": "SOCKET",
     "help": "let others join its process by a Unix socket, which is its owner's alone"}),
    ("--join", {"metavar": "SOCKET",
     "help": "run in the process of another weft switch, started with --joinable SOCKET"}),
    ("--debug-socket", {"metavar": "SOCKET",
     "help": "let weft debug --attach debug it by a Unix socket, which is its owner's alone"}),
    ("--seed", {"default": "0", "metavar": "N", "help": "seed of random() [0]"}),
    ("-I", {**_MANY, "metavar": "DIR", "help": "of a .p4: folder of includes"}),
    ("-D", {**_MANY, "metavar": "NAME[=VALUE]", "help": "of a .p4: macro"}),
    ("--log-file-max-size", {"default": str(5 << 20), "metavar": "BYTES",
     "help": "size of a log file before the next one begins [5242880]"}),
    ("--log-file-max-files", {"default": "3", "metavar": "N",
     "help": "older log files to keep [3]"}),
    ("--grpc-server-ssl", {"action": _FLAG, "help": "serve P4Runtime with TLS, which needs:"}),
    ("--grpc-server-cert", {"metavar": "PEM", "help": "the server's certificate"}),
    ("--grpc-server-key", {"metavar": "PEM", "help": "its private key"}),
    ("--grpc-server-cacert", {"metavar": "PEM",
     "help": "what clients' certificates are checked against"}),
    ("--grpc-server-with-client-auth", {"action": _FLAG, "help": "clients need certificates"}),
    ("-v --version", {"action": "version", "version": f"weft {VERSION}"}),
    ("--json-version", {"action": "version", "version": JSON_VERSION,
     "help": "greatest version of BMv2's JSON that is known"}),
    ("--log-flush", {"action": _FLAG, "help": argparse.SUPPRESS}),
    ("--enable-swap", {"action": _FLAG, "help": argparse.SUPPRESS}),
    ("--debugger", {"action": "store_const", "const": "", "help": argparse.SUPPRESS}),
)  # fmt: skip
"""The options besides `WITHOUT_EFFECT` and `REFUSED`: their flags and what argparse takes."""


def _parser() -> argparse.ArgumentParser:
    parser = _OptionParser("weft switch", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("program", nargs="*", metavar="PROGRAM.p4|PROGRAM.json")
    for flags, meaning in OPTIONS:
        parser.add_argument(*flags.split(), **meaning)
    for name in sorted({*WITHOUT_EFFECT, *REFUSED} - {"debugger"}):
        parser.add_argument(f"--{name.replace('_', '-')}", help=argparse.SUPPRESS)
    return parser


def parse_switches(arguments: Sequence[str]) -> tuple[SwitchOptions, ...]:
    """Return what a command line asks of each of its switches: of one, or of those that
    ``--switch`` begins; raises `InputError`."""
    parts: list[list[str]] = [[]]
    for word in arguments:
        if word == SWITCH or word.startswith(f"{SWITCH}="):
            parts.append([])
        parts[-1].append(word)
    common, *own = parts
    if not own:
        return (parse_options(common),)
    switches = []
    for words in own:
        try:
            switches.append(parse_options([*common, *words]))
        except InputError as error:
            raise InputError(f"{' '.join(words[:2])}: {error}") from None
    _check_together(switches)
    return tuple(switches)


def _check_together(switches: Sequence[SwitchOptions]) -> None:
    """Raise InputError for what switches of one process may not share, or have to."""
    for what, key in _OF_ONE.items():
        first: dict[Any, str] = {}
        for each in switches:
            value = getattr(each, key)
            if value is None or value == "-":
                continue
            if value in first:
                raise InputError(
                    f"{SWITCH} {each.name}: {what} {value} is that of switch {first[value]}; each "
                    "has its own"
                )
            first[value] = each.name
    for what, key in _OF_ALL.items():
        values = {getattr(each, key) for each in switches}
        refuse(
            len(values) > 1,
            f"{what} is the same for all switches of a process: say it before the first {SWITCH}",
        )


def parse_options(arguments: Sequence[str]) -> SwitchOptions:
    """Return what a command line, with or without ``--``, asks of one switch; raises
    `InputError`."""
    words = ["--trace=-" if word == "--trace" else word for word in arguments if word != "--"]
    given = _parser().parse_intermixed_args(_pcap_joined(words))
    for name, why in REFUSED.items():
        if getattr(given, name) is not None:
            raise InputError(f"--{name.replace('_', '-')}: {why}")
    notes = tuple(
        f"--{name.replace('_', '-')} does nothing: {why}"
        for name, why in WITHOUT_EFFECT.items()
        if getattr(given, name) is not None
    )
    cpu_port = None if given.cpu_port is None else _whole(given.cpu_port, "--cpu-port", 511)
    interfaces = tuple(_interface(text) for text in given.interface)
    _check_ports(interfaces, cpu_port)
    device_id = _whole(given.device_id, "--device-id", (1 << 64) - 1)
    refuse(given.switch == "", f"{SWITCH}: a switch has a name, like s1")
    for name, value in (("--joinable", given.joinable), ("--control-fd", given.control_fd)):
        refuse(
            given.join is not None and value is not None,
            f"--join: {name} is of the process that is joined",
        )
    return SwitchOptions(
        name=f"switch {device_id}" if given.switch is None else given.switch,
        program=_program(given),
        architecture=given.arch,
        interfaces=interfaces,
        queues=_queues(given.queue, {port for port, _ in interfaces}),
        device_id=device_id,
        address=_address(given.grpc_server_addr),
        cpu_port=cpu_port or None,
        drop_port=_whole(given.drop_port, "--drop-port", 511),
        priority_queues=_priority_queues(given.priority_queues),
        bypass_qdisc=given.bypass_qdisc,
        pcap=None if given.pcap is None else Path(given.pcap),
        log_console=given.log_console,
        log_file=None if given.log_file is None else Path(f"{given.log_file}.txt"),
        log_level=given.log_level,
        log_file_bytes=_whole(given.log_file_max_size, "--log-file-max-size", 1 << 40),
        log_files=_whole(given.log_file_max_files, "--log-file-max-files", 1000),
        tls=_tls(given),
        trace=given.trace,
        console=None if given.console_file is None else Path(given.console_file),
        control=None
        if given.control_fd is None
        else _whole(given.control_fd, "--control-fd", 65535),
        joinable=None if given.joinable is None else Path(given.joinable),
        join=None if given.join is None else Path(given.join),
        debug_socket=None if given.debug_socket is None else Path(given.debug_socket).absolute(),
        seed=_whole(given.seed, "--seed", (1 << 63) - 1),
        include=tuple(map(Path, given.I)),
        defines=tuple(given.D),
        notes=notes,
    )


def _pcap_joined(arguments: list[str]) -> list[str]:
    """Join ``--pcap`` with its folder; if it stands alone, that is the current folder."""
    joined: list[str] = []
    for word in arguments:
        is_folder = not word.startswith("-") and not word.endswith(PROGRAM_SUFFIXES)
        if is_folder and joined[-1:] == ["--pcap"]:
            joined[-1] = f"--pcap={word}"
        else:
            joined.append(word)
    return ["--pcap=." if word == "--pcap" else word for word in joined]


def _tls(given: Any) -> TlsFiles | None:
    """Return the files of TLS, by BMv2's rules: each of its options needs --grpc-server-ssl, which
    needs a certificate and its key."""
    names = ("cert", "key", "cacert", "with_client_auth")
    values = {name: getattr(given, f"grpc_server_{name}") for name in names}
    if not given.grpc_server_ssl:
        for name, value in values.items():
            option = f"--grpc-server-{name.replace('_', '-')}"
            refuse(value, f"{option} is for TLS: say --grpc-server-ssl as well")
        return None
    needed = ("cert", "key", "cacert") if values["with_client_auth"] else ("cert", "key")
    for name in needed:
        if not values[name]:
            raise InputError(f"--grpc-server-ssl needs --grpc-server-{name} PEM")
    client_ca = Path(values["cacert"]) if values["cacert"] else None
    return TlsFiles(
        Path(values["cert"]), Path(values["key"]), client_ca, values["with_client_auth"]
    )


def _program(given: Any) -> Path | None:
    if len(given.program) > 1:
        raise InputError(f"one program, not {len(given.program)}: {', '.join(given.program)}")
    if given.no_p4:
        return None
    if not given.program:
        raise InputError(
            "name a program, PROGRAM.p4 or PROGRAM.json, or say --no-p4 to wait for a client's"
        )
    program = Path(given.program[0])
    check_program(program)
    return program


def check_program(program: Path) -> None:
    """Raise InputError for a program that is no regular file."""
    why = "it is no regular file" if program.exists() else "there is no such file"
    if not program.is_file():
        raise InputError(f"program {str(program)!r}: {why}")


def _whole(text: str, what: str, most: int) -> int:
    refuse(
        not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) > most,
        f"{what} {text!r}: write a whole number, 0 to {most}",
    )
    return int(text)


def _priority_queues(text: str) -> int:
    found = _whole(text, "--priority-queues", MOST_PRIORITY_QUEUES)
    refuse(
        found == 0,
        f"--priority-queues {text!r}: a port has 1 to {MOST_PRIORITY_QUEUES} queues",
    )
    return found


def _interface(text: str) -> tuple[int, str]:
    port, at, name = text.partition("@")
    refuse(not at or not name, f"--interface {text!r}: write PORT@IFACE, like 1@veth1")
    return _whole(port, f"--interface {text!r}: port", MOST_PORT), name


def _check_ports(interfaces: Sequence[tuple[int, str]], cpu_port: int | None) -> None:
    given = ", ".join(f"{port}@{name}" for port, name in interfaces)
    for place, what in ((0, "port"), (1, "interface")):
        values = [pair[place] for pair in interfaces]
        for value in values:
            refuse(values.count(value) > 1, f"{what} {value} is given twice: {given}")
    refuse(
        cpu_port and any(port == cpu_port for port, _ in interfaces),
        f"--cpu-port {cpu_port} has an interface: the CPU port leads to the controller alone",
    )


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text.startswith("unix:") and len(text) > 5:
        return text
    refuse(
        not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535,
        f"--grpc-server-addr {text!r}: write HOST:PORT, like 127.0.0.1:50051, or unix:PATH",
    )
    return text


def _queues(texts: Sequence[str], ports: set[int]) -> dict[int | None, dict[str, int]]:
    queues: dict[int | None, dict[str, int]] = {}
    for text in texts:
        head, colon, rest = text.partition(":")
        port: int | None = None
        if colon and head != "*":
            port = _whole(head, f"--queue {text!r}: port", MOST_PORT)
            known = ", ".join(map(str, sorted(ports))) or "none"
            refuse(
                port not in ports,
                f"--queue {text!r}: there is no port {port}; ports are: {known}",
            )
        refuse(port in queues, f"--queue {text!r}: the queue of this port is given twice")
        queues[port] = _queue(text, rest if colon else head)
    return queues


def _queue(whole: str, text: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        figure = _FIGURES.get(key)
        if figure is None or not equals or figure[0] in values:
            raise InputError(
                f"--queue {whole!r}: {part!r} is none of rate=10Mbit, delay=1ms, packets=64, "
                "bytes=64KiB, each once, with commas"
            )
        name, parse = figure
        values[name] = parse(value, f"--queue {whole!r}: {key}")
    return values


_FIGURES: dict[str, tuple[str, Callable[[str, str], int]]] = {
    "rate": ("rate_bps", parse_rate),
    "delay": ("delay_ns", parse_duration),
    "bytes": ("queue_bytes", parse_size),
    "packets": ("queue_packets", partial(_whole, most=1 << 20)),
}
"""What ``--queue`` says of a link: the configuration's key for it, and how it is read."""
