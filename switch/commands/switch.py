"""``weft switch``: built-in switches on interfaces of this namespace, until they are to end."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.base import files, signals
from weft.base.command_line import macros
from weft.base.errors import Ended, InputError, MachineError, RunError
from weft.base.units import format_duration, format_rate, format_size
from weft.switch.commands.joining import Joinable, join
from weft.switch.commands.switch_control import ControlSocket
from weft.switch.commands.switch_log import ProcessLog, SwitchLog, TraceLines
from weft.switch.commands.switch_options import SwitchOptions, TlsFiles, parse_switches
from weft.switch.engine.program.errors import ProgramError
from weft.switch.realtime.config import PortConfig, ProcessConfig, config_of

if TYPE_CHECKING:
    from weft.switch.p4runtime.device import Device
    from weft.switch.p4runtime.server import Credentials, P4RuntimeServer
    from weft.switch.realtime.process import SwitchProcess

MOST_PEM_BYTES = 1 << 20
"""The most bytes of a certificate or a key."""

MOST_P4INFO_BYTES = 64 << 20
P4INFO_ENDINGS = (".p4info.txtpb", ".p4info.txt")


@dataclass(frozen=True)
class _Switch:
    """One of the process's switches, as asked for; ``text`` is its program in BMv2's JSON."""

    number: int
    options: SwitchOptions
    log: SwitchLog
    credentials: Credentials | None
    text: str | None

    def trace(self, process: SwitchProcess) -> TraceLines | None:
        """Return its trace, or None if it is neither traced nor logged."""
        wanted = self.log.logs_packets or self.options.trace is not None
        return TraceLines(process, self.number, self.options.trace, self.log) if wanted else None

    def serve(self, process: SwitchProcess) -> P4RuntimeServer:
        """Listen for P4Runtime."""
        from weft.switch.p4runtime.server import serve

        options = self.options
        control, address = process.controls[self.number], options.address
        if options.join is not None and address.startswith("unix:"):
            # gRPC removes the socket in a thread that may be in the folder of another switch.
            address = f"unix:{Path(address.removeprefix('unix:')).absolute()}"
        return serve(control, options.device_id, address, self.credentials)

    def load(self, server: P4RuntimeServer, ports: Sequence[PortConfig]) -> None:
        """Load its program, and say how it is."""
        self.log.say(f"P4Runtime: device {self.options.device_id} on {server.address}")
        for line in _ports(ports):
            self.log.say(line)
        if self.text is None or self.options.program is None:
            self.log.say("program: none yet: a client's SetForwardingPipelineConfig brings one")
            return
        started = time.monotonic()
        _load(server.device, self.text, _p4info(self.options), self.options.program, self.log)
        took_s = time.monotonic() - started
        pipeline = server.device.switch.pipelines[0]
        form = "as machine code" if pipeline.compiled else "in the plain form"
        program = self.options.program
        self.log.say(f"program: {program}, loaded in {took_s:.1f} s, runs {form}")


def run_switch(arguments: Sequence[str]) -> None:
    """Run switches until Ctrl-C or another signal ends them; raises `WeftError`."""
    asked = parse_switches(arguments)
    if asked[0].join is not None:
        try:
            return join(asked[0].join, arguments)
        except Ended:
            return signals.acknowledged()
    with ExitStack() as at_end:
        if asked[0].joinable is not None:
            at_end.callback(Joinable(asked[0].joinable, _host).close)
        _run_asked(asked, (sys.stdout, sys.stderr), threading.Event())


def _host(arguments: Sequence[str], out: TextIO, errors: TextIO, ended: threading.Event) -> None:
    """Run the switches of a command line that has joined this process."""
    _run_asked(parse_switches(arguments), (out, errors), ended)


def _run_asked(
    asked: Sequence[SwitchOptions], console: tuple[TextIO, TextIO], ended: threading.Event
) -> None:
    """Run switches until a signal, or the event, ends them; raises `WeftError`."""
    logs = [SwitchLog(each, shares_console=len(asked) > 1, console=console) for each in asked]
    for options, log in zip(asked, logs, strict=True):
        for note in options.notes:
            log.note(note)
    try:
        config = _config(asked)
        switches = [
            _Switch(number, options, log, _credentials(options.tls), _program_text(options))
            for number, (options, log) in enumerate(zip(asked, logs, strict=True))
        ]
        _run(switches, config, ended)
    except Ended:
        signals.acknowledged()
    for log in logs:
        log.say("ended")


def _program_text(options: SwitchOptions) -> str | None:
    if options.program is None:
        return None
    from weft.switch.commands.stf import load_program
    from weft.switch.engine.architectures.registry import architecture_in

    text = load_program(options.program, options.include, macros(options.defines))
    if options.architecture is not None and options.architecture != architecture_in(text):
        raise InputError(
            f"--arch {options.architecture!r}: {options.program} is for {architecture_in(text)}"
        )
    return text


def _credentials(tls: TlsFiles | None) -> Credentials | None:
    """Return what the server shows and asks for; raises `InputError` for a file that it cannot
    read."""
    from weft.switch.p4runtime.server import Credentials

    if tls is None:
        return None

    def read(path: Path, option: str) -> bytes:
        with files.told_as_input(f"--grpc-server-{option} {str(path)!r} cannot be read"):
            return files.read_bounded(path, MOST_PEM_BYTES, endings=None)

    return Credentials(
        certificate=read(tls.certificate, "cert"),
        key=read(tls.key, "key"),
        client_ca=read(tls.client_ca, "cacert") if tls.client_ca is not None else None,
        client_needed=tls.client_needed,
    )


def _config(switches: Sequence[SwitchOptions]) -> ProcessConfig:
    shared = switches[0]
    document = {
        "switches": [
            {
                "name": options.name,
                "device_id": options.device_id,
                "address": options.address,
                "seed": options.seed,
                "ports": _port_configs(options),
                "cpu_port": options.cpu_port,
            }
            for options in switches
        ],
        "drop_port": shared.drop_port,
        "bypass_qdisc": shared.bypass_qdisc,
        "priority_queues": shared.priority_queues,
        "at_once": True,
    }
    return config_of(document, "the command line")


def _port_configs(options: SwitchOptions) -> list[dict[str, Any]]:
    captures = options.pcap
    if captures is not None and not captures.is_dir():
        raise InputError(f"--pcap {str(captures)!r}: there is no such folder")
    present = [name for _, name in socket.if_nameindex()]
    ports = []
    for number, interface in options.interfaces:
        if interface not in present:
            raise MachineError(
                f"port {number}: there is no interface {interface!r} in this network namespace; "
                f"it has: {', '.join(present)}"
            )
        port: dict[str, Any] = {
            "port": number, "interface": interface, **options.queue(number),
        }  # fmt: skip
        if captures is not None:
            port["pcap_in"] = str(captures / f"{interface}_in.pcap")
            port["pcap_out"] = str(captures / f"{interface}_out.pcap")
        ports.append(port)
    return ports


def _run(switches: Sequence[_Switch], config: ProcessConfig, ended: threading.Event) -> None:
    """Bring the switches up, say when each is ready, wait until a signal or whoever started them
    ends them, ``ended`` is set or the packet loop fails, and take them down."""
    from weft.switch.realtime.link_states import LinkStates
    from weft.switch.realtime.process import SwitchProcess
    from weft.switch.realtime.statistics import StatisticsSocket

    logs = [switch.log for switch in switches]
    told = ProcessLog(logs)
    process = SwitchProcess(config, on_failure=ended.set)
    process.say, process.note = told.warn, told.note
    process.start()
    with ExitStack() as at_end:
        at_end.callback(told.close)
        at_end.callback(process.stop)
        at_end.callback(_end_captures, process, told)
        at_end.callback(_tell_losses, process, logs)
        traces = [switch.trace(process) for switch in switches]
        servers = []
        for switch in switches:
            servers.append(switch.serve(process))
            at_end.callback(servers[-1].stop)
        links = LinkStates(process, [server.device.set_port_up for server in servers])
        at_end.callback(links.close)
        for trace in traces:
            if trace is not None:
                at_end.callback(trace.close)

        def stop(number: int) -> None:
            links.leave(number)
            servers[number].stop()
            process.close_ports(number)

        if (debugged := switches[0].options.debug_socket) is not None:
            if debugged.exists() and not debugged.is_socket():
                raise InputError(f"--debug-socket {str(debugged)!r}: something else is there")
            at_end.callback(StatisticsSocket(process, str(debugged)).close)
        control = ControlSocket(
            switches[0].options.control,
            {switch.options.name: partial(stop, switch.number) for switch in switches},
            ended.set,
        )
        at_end.callback(control.close)
        for switch, server, trace in zip(switches, servers, traces, strict=True):
            switch.load(server, config.switches[switch.number].ports)
            if trace is not None:
                trace.start()
            switch.log.say("ready: Ctrl-C ends it")
            control.tell(f"ready {switch.options.name}")
        ended.wait()
        if process.failure is not None:
            raise RunError(f"the packet loop failed: {process.failure!r}")


def _end_captures(process: SwitchProcess, told: ProcessLog) -> None:
    for capture in process.end_captures():
        if capture["lost"]:
            told.say(f"capture {capture['path']} misses {capture['lost']} packets")


def _tell_losses(process: SwitchProcess, logs: Sequence[SwitchLog]) -> None:
    for number, (switch, port, interface) in enumerate(process.sockets.ports):
        if errors := process.sockets.send_errors(number):
            logs[switch].say(
                f"port {port}: {errors} packets were lost at interface {interface}, which was "
                "down, or whose queueing discipline was full"
            )
        if drops := process.dataplane.statistics(switch, port).queue_drops:
            logs[switch].say(f"port {port}: {drops} packets found its queue full")


def _ports(ports: Sequence[PortConfig]) -> list[str]:
    lines = []
    for port in ports:
        link = [format_rate(port.rate_bps)] if port.rate_bps else []
        link += [f"delay {format_duration(port.delay_ns)}"] if port.delay_ns else []
        if port.queue_packets < 1 << 20:
            link.append(f"queue of {port.queue_packets} packets")
        if port.queue_bytes < 1 << 30:
            link.append(f"queue of {format_size(port.queue_bytes)}")
        lines.append(", ".join([f"port {port.number}: {port.interface}", *link]))
    return lines or ["ports: none (-i PORT@IFACE gives it one)"]


def _load(device: Device, text: str, p4info: str | None, program: Path, log: SwitchLog) -> None:
    """Load the program while the requests of clients wait, so that they find it loaded.

    With its P4Info, clients find tables and all else as if one of them had loaded the program.
    """
    with device.lock:
        if p4info is None or not _set_config(device, text, p4info, log):
            try:
                device.switch.load_program(text, load="save")
            except ProgramError as error:
                raise InputError(f"{program}: {error}") from None
            device.switch.commit_program()


def _set_config(device: Device, text: str, p4info: str, log: SwitchLog) -> bool:
    """Load a program with its P4Info, and return whether the two belong together."""
    from google.protobuf import text_format

    from weft.switch.messages import p4runtime_pb2
    from weft.switch.p4runtime.configs import set_config
    from weft.switch.p4runtime.refusals import Refusal

    request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
    request.action = request.VERIFY_AND_COMMIT
    request.config.p4_device_config = text.encode()
    try:
        text_format.Parse(p4info, request.config.p4info)
        set_config(device, request)
    except (text_format.ParseError, Refusal) as error:
        log.say(f"the P4Info beside the program is not its own: {error}")
        return False
    return True


def _p4info(options: SwitchOptions) -> str | None:
    """Return the P4Info that the compiler makes of a .p4, or that stands in a file beside a
    .json."""
    from weft.switch.compiler import compile_cached

    program = options.program
    if program is None:
        return None
    if program.suffix == ".p4":
        return compile_cached(
            program, include_dirs=options.include, defines=macros(options.defines)
        ).p4info.read_text("utf-8")
    for ending in P4INFO_ENDINGS:
        beside = program.with_name(program.stem + ending)
        what = f"P4Info {str(beside)!r} beside the program cannot be read"
        with files.told_as_input(what), suppress(FileNotFoundError):
            return files.read_text(
                beside, MOST_P4INFO_BYTES, errors="replace", endings=P4INFO_ENDINGS
            )
    return None
