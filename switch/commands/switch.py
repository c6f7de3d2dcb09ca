"""``weft switch``: one built-in switch on interfaces of this namespace, until it is told to end.

It writes traces while it runs: a line for each step that a packet goes through.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.base import files, signals
from weft.base.command_line import macros
from weft.base.errors import Ended, InputError, MachineError, RunError, WeftError
from weft.base.units import format_duration, format_rate, format_size
from weft.switch.commands.stf import load_program
from weft.switch.commands.switch_options import SwitchOptions, TlsFiles, parse_options
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.trace.text import json_lines, log_line
from weft.switch.realtime.config import ProcessConfig, config_of

if TYPE_CHECKING:
    from weft.switch.engine.trace.decoder import Event
    from weft.switch.p4runtime.device import Device
    from weft.switch.p4runtime.server import Credentials
    from weft.switch.realtime.process import SwitchProcess

STEP_S = 0.1
"""The time between two looks at a trace."""

LOG_LEVEL = 5
"""The log level of BMv2's "trace", which Python's logging does not have."""

_LEVELS = {"trace": LOG_LEVEL, "debug": 10, "info": 20, "warn": 30, "error": 40, "off": 100}

_OF_EVENTS = {"message": _LEVELS["info"], "assertion_failed": _LEVELS["error"]}
"""The levels at which events of traces are logged; of the others the level of packets' ways."""
_LOGGED = ("log_msg", "assert", "assume")

MOST_PEM_BYTES = 1 << 20
"""The most bytes of a certificate or a key."""

MOST_P4INFO_BYTES = 64 << 20
P4INFO_ENDINGS = (".p4info.txtpb", ".p4info.txt")

_log = logging.getLogger("weft.command")
_packet_log = logging.getLogger("weft.switch.packets")


class TraceLines:
    """A switch's trace as lines in a file, on standard output or in the log, from a thread of its
    own.

    ``file`` is None for no file, ``-`` for standard output, or a name; if that ends in .jsonl, JSON
    lines are written. Raises ``InputError`` for a file that cannot be written.
    """

    def __init__(self, process: SwitchProcess, file: str | None, *, logged: bool) -> None:
        self._process = process
        self._name = process.config.switches[0].name
        self._logged = logged
        self._json = file is not None and Path(file).suffix == ".jsonl"
        self._file = _open(file)
        self._ended = threading.Event()
        self._passed = 0
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
        if self._file is not None:
            process.traces.start(self._name)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    def _run(self) -> None:
        """Write until the end. A trace that fails says so and ends, while the switch goes on."""
        try:
            self._follow()
        except (WeftError, OSError) as error:
            print(f"weft: the trace ends: {error}", file=sys.stderr)

    def _follow(self) -> None:
        """Follow the switch until the end. If there is only a log, the trace begins once a program
        runs, so that the switch is ready before."""
        control = self._process.controls[0]
        if self._file is None:
            while not control.program_loaded:
                if self._ended.wait(STEP_S):
                    return
            if not _packet_log.isEnabledFor(_LEVELS["debug"]):
                self._await_messages()
                if self._ended.is_set():
                    return
            self._process.traces.start(self._name)
            if _packet_log.isEnabledFor(_LEVELS["debug"]):
                _packet_log.info("packets are logged from here on")
        while not self._ended.wait(STEP_S):
            self.write()

    def _await_messages(self) -> None:
        """Wait until a program runs that calls log_msg, or for the end: of others nothing would be
        logged at this level, and a trace slows a switch."""
        without: list[Any] = []
        while not self._ended.wait(STEP_S):
            now = self._process.controls[0].pipelines
            if any(each not in without and _is_logged(each.program.document) for each in now):
                return
            without = now

    def write(self) -> None:
        """Write what has happened since the last time."""
        taken = self._process.traces.take(self._name)
        events: list[Event] = taken["events"]
        missed = taken["passed"] - self._passed
        self._passed = taken["passed"]
        if self._logged:
            step = LOG_LEVEL if _packet_log.isEnabledFor(LOG_LEVEL) else _LEVELS["debug"]
            for event in events:
                level = _OF_EVENTS.get(event["event"], step)
                if _packet_log.isEnabledFor(level):
                    _packet_log.log(level, log_line(event))
            if missed:
                _packet_log.warning("%d packets came too fast to be traced", missed)
        if self._file is not None:
            if self._json:
                self._file.write(json_lines(events))
            else:
                self._file.writelines(f"{log_line(event)}\n" for event in events)
                if missed:
                    self._file.write(f"{missed} packets came too fast to be traced\n")
            self._file.flush()

    def close(self) -> None:
        """Write what is left, and end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._file is not None:
            self.write()
            if self._file is not sys.stdout:
                self._file.close()


def _open(file: str | None) -> TextIO | None:
    if file is None:
        return None
    if file == "-":
        return sys.stdout
    with files.told_as_input(f"cannot write the trace {file!r}"):
        return open(files.create(Path(file)), "w", encoding="utf-8")


def run_switch(arguments: Sequence[str]) -> None:
    """Run a switch until Ctrl-C or another signal ends it; raises `WeftError`."""
    options = parse_options(arguments)
    _set_up_log(options)
    for note in options.notes:
        print(f"weft: note: {note}", file=sys.stderr)
    try:
        _serve(options, _config(options))
    except Ended:
        signals.acknowledged()
        _say("ended")


def _set_up_log(options: SwitchOptions) -> None:
    """Have what is said go to the log file too, and what the server logs to console and file."""
    handlers: list[logging.Handler] = []
    if options.log_console:
        handlers.append(logging.StreamHandler(sys.stdout))
    if options.log_file is not None:
        with files.told_as_input(f"cannot write the log {str(options.log_file)!r}"):
            handlers.append(_log_file(options.log_file, options))
        _log.addHandler(handlers[-1])
    _log.addHandler(logging.NullHandler())  # without any, warnings would go to standard error
    logging.addLevelName(LOG_LEVEL, "TRACE")
    server = logging.getLogger("weft.switch")
    for handler in handlers:
        handler.setFormatter(logging.Formatter("[%(asctime)s] [%(levelname)s] %(message)s"))
        server.addHandler(handler)
    for logger in (_log, server):
        logger.propagate = False
        logger.setLevel(_LEVELS[options.log_level])


class _LogFile(RotatingFileHandler):
    """A log file takes the place of what was there before; no link is followed."""

    def _open(self) -> TextIOWrapper:
        return open(files.create(Path(self.baseFilename)), "w", encoding="utf-8")


def _log_file(path: Path, options: SwitchOptions) -> logging.Handler:
    """Return a log that begins a new file when one is full, and names older ones NAME.1.txt as BMv2
    does."""
    handler = _LogFile(path, maxBytes=options.log_file_bytes, backupCount=max(options.log_files, 1))
    handler.namer = lambda name: re.sub(r"\.txt(\.\d+)$", r"\1.txt", name)
    return handler


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


def _config(options: SwitchOptions) -> ProcessConfig:
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
    switch = {
        "name": f"switch {options.device_id}",
        "device_id": options.device_id,
        "address": options.address,
        "seed": options.seed,
        "ports": ports,
        "cpu_port": options.cpu_port,
        "drop_port": options.drop_port,
    }
    document = {
        "switches": [switch],
        "drop_port": options.drop_port,
        "bypass_qdisc": options.bypass_qdisc,
        "priority_queues": options.priority_queues,
        "at_once": True,
    }
    return config_of(document, "the command line")


def _serve(options: SwitchOptions, config: ProcessConfig) -> None:
    """Bring the switch up, say so, wait for a signal or a failed packet loop, and take it down."""
    from weft.switch.p4runtime.server import serve
    from weft.switch.realtime.link_states import LinkStates
    from weft.switch.realtime.process import SwitchProcess

    credentials = _credentials(options.tls)
    program = options.program
    text = (
        None if program is None else load_program(program, options.include, macros(options.defines))
    )
    failed = threading.Event()
    process = SwitchProcess(config, on_failure=failed.set)
    process.say, process.note = _warn, _note
    process.start()
    with ExitStack() as at_end:
        at_end.callback(process.stop)
        at_end.callback(_end_captures, process)
        at_end.callback(_tell_send_errors, process)
        logged = _logs_packets(options)
        wanted = logged or options.trace is not None
        trace = TraceLines(process, options.trace, logged=logged) if wanted else None
        server = serve(process.controls[0], options.device_id, options.address, credentials)
        at_end.callback(server.stop)
        at_end.callback(LinkStates(process, [server.device.set_port_up]).close)
        if trace is not None:
            at_end.callback(trace.close)
        _say(f"P4Runtime: device {options.device_id} on {server.address}")
        for line in _ports(config):
            _say(line)
        if text is not None and program is not None:
            _load(server.device, text, _p4info(options), program)
        else:
            _say("program: none yet: a client's SetForwardingPipelineConfig brings one")
        if trace is not None:
            trace.start()
        _say("ready: Ctrl-C ends it")
        failed.wait()
        raise RunError(f"the packet loop failed: {process.failure!r}")


def _end_captures(process: SwitchProcess) -> None:
    for capture in process.end_captures():
        if capture["lost"]:
            _say(f"capture {capture['path']} misses {capture['lost']} packets")


def _tell_send_errors(process: SwitchProcess) -> None:
    for number, (_, port, interface) in enumerate(process.sockets.ports):
        if errors := process.sockets.send_errors(number):
            _say(
                f"port {port}: {errors} packets were lost at interface {interface}, which was "
                "down, or whose queueing discipline was full"
            )


def _logs_packets(options: SwitchOptions) -> bool:
    """Return whether there is a log whose level, as with BMv2, includes what log_msg says; up to
    debug it has every packet's way."""
    logs = options.log_console or options.log_file is not None
    return logs and _LEVELS[options.log_level] <= _LEVELS["info"]


def _is_logged(part: Any) -> bool:
    """Return whether BMv2's JSON, or a part of it, calls what is logged."""
    if isinstance(part, dict):
        return part.get("op") in _LOGGED or any(map(_is_logged, part.values()))
    return isinstance(part, list) and any(map(_is_logged, part))


def _warn(line: str) -> None:
    _log.warning(line)
    print(f"weft: {line}", file=sys.stderr, flush=True)


def _note(line: str) -> None:
    _log.info(line)
    print(f"weft: note: {line}", file=sys.stderr, flush=True)


def _say(line: str) -> None:
    _log.info(line)
    print(line, flush=True)


def _ports(config: ProcessConfig) -> list[str]:
    (switch,) = config.switches
    lines = []
    for port in switch.ports:
        link = [format_rate(port.rate_bps)] if port.rate_bps else []
        link += [f"delay {format_duration(port.delay_ns)}"] if port.delay_ns else []
        if port.queue_packets < 1 << 20:
            link.append(f"queue of {port.queue_packets} packets")
        if port.queue_bytes < 1 << 30:
            link.append(f"queue of {format_size(port.queue_bytes)}")
        lines.append(", ".join([f"port {port.number}: {port.interface}", *link]))
    return lines or ["ports: none (-i PORT@IFACE gives it one)"]


def _load(device: Device, text: str, p4info: str | None, program: Path) -> None:
    """Load the program while the requests of clients wait, so that they find it loaded.

    With its P4Info, clients find tables and all else as if one of them had loaded the program.
    """
    started = time.monotonic()
    with device.lock:
        if p4info is None or not _set_config(device, text, p4info):
            try:
                device.switch.load_program(text, load="save")
            except ProgramError as error:
                raise InputError(f"{program}: {error}") from None
            device.switch.commit_program()
    pipeline = device.switch.pipelines[0]
    form = "as machine code" if pipeline.compiled else "in the plain form"
    _say(f"program: {program}, loaded in {time.monotonic() - started:.1f} s, runs {form}")


def _set_config(device: Device, text: str, p4info: str) -> bool:
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
        _say(f"the P4Info beside the program is not its own: {error}")
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
