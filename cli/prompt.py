"""The prompt of ``weft up``: Mininet's, with the testbed's own commands; and what can be done to a
testbed that stands."""

import json
import os
import re
import shlex
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from weft.base.children import check_not_killed, how_it_ended
from weft.base.errors import InputError, RunError, WeftError, refuse
from weft.base.outputs import Unfinished, communicate, kill, killed
from weft.cli.completion import candidates, examples, link_example
from weft.cli.load import load
from weft.cli.terminals import open_panes
from weft.controller.bmv2_cli.run import completions, run_command
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.client import Session
from weft.controller.inspection import Inspector
from weft.experiments.runs.folder import REPORT
from weft.interface.net import Net
from weft.interface.ways.packets import WAY_USAGE, frame_of, way_asked
from weft.switch.engine.trace.text import packets_text
from weft.topo.link_changes import LinkChange, figures_of
from weft.topo.switch_kinds import require
from weft.topo.worlds.emulated.mininet_prompt import CommandLine
from weft.topo.worlds.emulated.namespaces import in_namespace
from weft.topo.worlds.emulated.node_addresses import address_for, known_addresses, present_addresses
from weft.topo.worlds.emulated.testbeds import RunningTestbed
from weft.topo.worlds.emulated.world import EmulatedWorld

TRACED_PACKETS = 5
MOST_PACKETS = 1_000_000
_NUMBER = re.compile(r"[+-]?[0-9.]{1,20}")
TRACE_S = 10.0
TRACE_STEP_S = 0.2

IPERF_S = 3
IPERF_PORT = 5001
CONNECT_S = 5.0
"""How long iperf's client may take to reach its server: a connection is tried before, for iperf
itself would try for two minutes."""
LISTENING_S = 60.0
"""How long iperf may take until it listens."""


class Prompt(CommandLine):
    """The prompt, which reads commands until the input ends; what fails says so, and the testbed
    stays. Raises RunError once a process of the network has ended."""

    def __init__(self, net: Net, running: RunningTestbed, commands: TextIO, source: str) -> None:
        self._net = net
        self._running = running
        assert isinstance(net.backend, EmulatedWorld)
        self._world = net.backend
        print(f"{net.topology.describe()}. Run {running.run_id}.\n{examples(net.topology)}")
        super().__init__(net.mininet, commands, self._world.check_alive, source)

    def postcmd(self, stop: Any, line: str) -> Any:
        """Say what switches have said meanwhile."""
        for each in self._world.said():
            self._say(each)
        return super().postcmd(stop, line)

    @classmethod
    def words(cls) -> set[str]:
        """Return the words by which lines of the prompt begin, other than names of nodes."""
        return {name.removeprefix("do_") for name in dir(cls) if name.startswith("do_")}

    def do_link(self, line: str) -> None:
        """link ONE OTHER up|down: pull the cable between two nodes, or plug it in again. Of several
        cables between the two, name one by its ports, as links lists them: link s1:1 s2:1 down.
        link ONE OTHER delay=10ms jitter=1ms loss=1% rate=50Mbit: let it go on so, or some of it."""
        words = shlex.split(line)
        if len(words) > 2 and "=" in words[2]:
            link = self._net.link(*words[:2])
            link.change(LinkChange.of_words(words[2:], f"link {line}"))
            self._say(f"{link.name}: {figures_of(link.figures)}")
            return
        _check(
            len(words) == 3 and words[2] in ("up", "down"),
            f"link {line}",
            f"link ONE OTHER up|down, as link {link_example(self._net.topology)} down, or link ONE "
            "OTHER delay=10ms loss=1%",
        )
        one, other, state = words
        self._net.set_link(one, other, up=state == "up")
        self._say(self._said_of_link(one, other, state))

    def _said_of_link(self, one: str, other: str, state: str) -> str:
        """Return what to say of a link that has gone up or down."""
        switches = {switch.name for switch in self._net.topology.switches}
        link = self._net.topology.direction(one, other).link
        said = f"{link.name} is {state}"
        self._net.notice_loads()
        unmanaged = self._net.unmanaged
        if not self._running.controlled:
            return f"{said}; there is no controller, so nothing else changes"
        if unmanaged == switches:
            return f"{said}; the entries of your program's tables stay as they are"
        if not set(link.nodes) <= switches:
            return f"{said}; a host has no other way"
        said += f"; routes lead {'over it again' if state == 'up' else 'around it'}"
        if unmanaged:
            said += f" (not those of {', '.join(sorted(unmanaged))}, with another program)"
        return said

    def do_links(self, line: str) -> None:
        """links: all links, whether they are up, and what has been changed of them."""
        for link in self._net.topology.links:
            state = "down" if link.name in self._net.down else "up"
            changed = self._net.changed.get(link.name)
            self._say(f"{link.name} is {state}{f'; {figures_of(changed)}' if changed else ''}")

    def do_switches(self, line: str) -> None:
        """switches: the device id of every switch, and where it serves P4Runtime."""
        for each in self._running.lines():
            self._say(each)
        for name in self._world.plain():
            self._say(
                f"{name} runs its program in the plain form: its machine code is not made yet"
            )

    def do_tables(self, line: str) -> None:
        """tables SWITCH [TABLE]: the entries of all tables, or of one."""
        name, *wanted = self._words(line, "tables SWITCH [TABLE]", 1, 2)
        with self._inspector(name) as inspector:
            for table in wanted or inspector.tables:
                for entry in inspector.table(table):
                    self._say(entry)

    def do_counters(self, line: str) -> None:
        """counters SWITCH: what has been counted there, by the program's counters."""
        (name,) = self._words(line, "counters SWITCH", 1, 1)
        with self._inspector(name) as inspector:
            for cell in inspector.counters() or ["nothing has been counted"]:
                self._say(cell)

    def do_cli(self, line: str) -> None:
        """cli SWITCH COMMAND: a command of BMv2's simple_switch_CLI, as cli s1 show_tables; cli
        SWITCH help lists them."""
        name, *words = self._words(line, "cli SWITCH COMMAND, as cli s1 show_tables", 2, None)
        with closing(self._session(name)) as session:
            for answer in run_command(CommandSwitch(session), " ".join(words)):
                self._say(answer)

    def do_trace(self, line: str) -> None:
        """trace SWITCH [N] [COMMAND]: what the next packets of a switch go through, 5 if no
        number is given: those that come while the command runs; without one, within 10 s or
        until Ctrl-C. trace HOST HOST [PACKET] [--all] [--json] [--html FILE]: the way of a packet
        from one host to another through all switches, or with --all every way that it may take,
        by their tables as they are; nothing is sent. PACKET: ping, udp [PORT], tcp [PORT], or a
        frame in hexadecimal."""
        name, *rest = self._words(line, "trace SWITCH [N] [COMMAND]", 1, None)
        if name in {host.name for host in self._net.topology.hosts}:
            self._trace_way(name, rest)
            return
        self._running.choose([name])
        packets = TRACED_PACKETS
        if rest and _NUMBER.fullmatch(rest[0]):
            packets = int(number) if (number := rest.pop(0)).isdecimal() else 0
            if not 0 < packets <= MOST_PACKETS:
                raise InputError(f"trace {line}: N is 1 to {MOST_PACKETS} packets")
        if rest and rest[0] not in self.mn and not hasattr(self, f"do_{rest[0]}"):
            raise InputError(
                f"trace {line}: there is no command {' '.join(rest[:1])!r} (see help), nor such a "
                "node (see nodes)"
            )
        world = self._world
        require(world.switch_kind, ["packet trace"])
        self._say(f"making the traced form of the program of {name} (once for each program) ...")
        world.start_trace(name, packets)
        if rest:
            self.onecmd(shlex.join(rest))
        events = []
        end = time.monotonic() + (0 if rest else TRACE_S)
        with suppress(KeyboardInterrupt):
            if not rest:
                self._say(f"waiting for {packets} packets at {name} ...")
            while time.monotonic() < end:
                time.sleep(TRACE_STEP_S)
                taken = world.take_trace(name)
                events += taken["events"]
                if taken["packets"] >= packets:
                    break
        taken = world.take_trace(name, end=True)
        events += taken["events"]
        self._say(packets_text(events).rstrip() or f"no packet came to {name}")
        if taken["form"] == "plain":
            self._say("(slower than otherwise: the machine code of what traces is not made yet)")
        if taken["passed"]:
            more = "1 more packet" if taken["passed"] == 1 else f"{taken['passed']} more packets"
            self._say(f"{more} passed untraced")

    def _trace_way(self, source: str, words: list[str]) -> None:
        """Show the way of a packet from a host, or all ways that it may take."""
        asked = way_asked(words)
        _check(asked is not None, f"trace {source} {' '.join(words)}", WAY_USAGE)
        assert asked is not None
        topology = self._net.topology
        host, target = topology.host(source), topology.host(asked.target)
        frame = frame_of(topology, host, target, asked.packet)
        way = self._net.trace(frame, at=source, every=asked.every)
        if asked.page is not None:
            self._say(f"Written: {way.write(asked.page).absolute()}")
        elif asked.as_json:
            self._say(json.dumps(way.document, indent=1))
        else:
            self._say(str(way))

    def do_load(self, line: str) -> None:
        """load PROGRAM.p4 [SWITCH...]: have all switches, or some, run another program."""
        program, *names = self._words(line, "load PROGRAM.p4 [SWITCH...]", 1, None)
        standing = self._net.standing
        load(
            self._running, names, Path(program), standing.include_dirs, standing.defines, self._say
        )

    def do_loads(self, line: str) -> None:
        """loads: what each direction of all links has carried, by the counts of switches' ports or
        of the fabric's program."""
        for (source, target), each in self._net.counts().items():
            lost = f", {each.lost_packets:,} packets lost" if each.lost_packets else ""
            self._say(
                f"{source}>{target}: {each.tx_packets:,} packets, {each.tx_bytes:,} bytes{lost}"
            )

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """xterm NODE...: a terminal at each node: a window, or a pane of tmux where there is no
        display."""
        names = line.split()
        if os.environ.get("DISPLAY") or not names or not all(name in self.mn for name in names):
            super().do_xterm(line, term)
            return
        open_panes(f"{term} {line}", names, self._running.run_id)

    def do_terminal(self, line: str) -> None:
        """terminal NODE...: what xterm does."""
        self.do_xterm(line)

    def do_report(self, line: str) -> None:
        """report DIR: write what links have carried so far, and what switches hold, to a results
        folder, with a page."""
        (folder,) = self._words(line, "report DIR", 1, 1)
        self._net.report(folder)
        self._say(f"Report: {Path(folder).absolute() / REPORT}")

    def completedefault(
        self, text: str, line: str = "", _begin: int = 0, end: int = 0
    ) -> list[str]:
        """Return what may stand there, by the words before; at the beginning of a line, nodes."""
        before, _, word = line[:end].rpartition(" ")
        topology = self._net.topology
        names = candidates(topology, before.split()) if before.split() else [*topology.nodes]
        word = word or text
        # readline has what goes before `text`: it ends words at a "-", too
        return [name[len(word) - len(text) :] for name in names if name.startswith(word)]

    def complete_tables(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Return switches; behind one, its tables."""
        words = line[:end].rpartition(" ")[0].split()
        if len(words) < 2:
            return self.completedefault(text, line, begin, end)
        with suppress(WeftError), self._inspector(words[1]) as inspector:
            return [name for name in inspector.tables if name.startswith(text)]
        return []

    def complete_cli(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Return the switches, then commands, then the names of the switch's program."""
        before, _, word = line[:end].rpartition(" ")
        _, *words = before.split()
        if len(words) < 2:
            return self.completedefault(text, line, begin, end)
        name, *words = words
        with suppress(WeftError), closing(self._session(name)) as session:
            offered = completions(CommandSwitch(session).program, words, word)
            return [each[len(word) - len(text) :] for each in offered]
        return []

    def complete_load(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Return the programs and folders that begin so; then switches."""
        before, word = line[:end].rsplit(" ", 1)
        if len(before.split()) > 1:
            return self.completedefault(text, line, begin, end)
        beginning = word.rpartition("/")[2]
        with suppress(OSError):
            return [
                # readline has what goes before `text`: it ends words at a "-", too
                file.name[len(beginning) - len(text) :] + ("/" if file.is_dir() else "")
                for file in Path(word.removesuffix(beginning) or ".").iterdir()
                if file.name.startswith(beginning) and (file.is_dir() or file.suffix == ".p4")
            ]
        return []

    def do_iperf(self, line: str) -> None:
        """iperf [CLIENT SERVER]: TCP throughput between two hosts, the first and the last if none
        are named."""
        names = [host.name for host in self._net.topology.hosts]
        words = shlex.split(line) or [names[0], names[-1]]
        _check(
            len(words) == 2 and set(words) <= set(names),
            f"iperf {line}",
            f"iperf CLIENT SERVER, of {', '.join(names)}",
        )
        refuse(shutil.which("iperf") is None, "iperf is not installed: apt-get install iperf")
        client, server = (self.mn[name] for name in words)
        address = address_for(known_addresses(client), present_addresses(server))
        if address is None:
            raise InputError(f"iperf {words[0]} {words[1]}: {words[1]} has no address")
        kind = ["-V"] if ":" in address else []
        listener = server.popen(["iperf", "-s", *kind, "-p", str(IPERF_PORT)])
        try:
            _wait_until(lambda: listener.poll() is not None or _listens(server.pid, IPERF_PORT))
            if (status := listener.poll()) is not None:
                who = f"iperf at {words[1]} (pid {listener.pid})"
                raise RunError(f"{who} {how_it_ended(status)} and listens no more")
            place = (address, IPERF_PORT)
            try:
                in_namespace(client.pid, partial(_connect, place))
            except OSError as error:
                raise InputError(
                    f"iperf from {words[0]} to {words[1]}: no connection to {place[0]} within "
                    f"{CONNECT_S:g} s: {error}; see whether {words[0]} ping {words[1]} answers"
                ) from None
            arguments = ["iperf", *kind, "-p", str(IPERF_PORT), "-t", str(IPERF_S), "-c", address]
            sender = client.popen(arguments, text=True)
            text, _ = communicate(sender, timeout_s=10 * IPERF_S + LISTENING_S)
        except Unfinished as limit:
            kill(sender)
            raise InputError(f"iperf from {words[0]} to {words[1]} {limit}") from None
        finally:
            killed(listener)
        check_not_killed(f"iperf at {words[0]}", sender.pid, sender.returncode)
        rates = re.findall(r"[\d.]+ \S*bits/sec", text)
        self._say(f"{words[0]} to {words[1]}: {rates[-1] if rates else text.strip()}")

    def _words(self, line: str, usage: str, least: int, most: int | None) -> list[str]:
        words = shlex.split(line)
        enough = len(words) >= least and (most is None or len(words) <= most)
        _check(enough, f"{usage.split()[0]} {line}", usage)
        return words

    def _session(self, name: str) -> Session:
        switch = self._running.choose([name])[name]
        return Session(name, switch.device_id, switch.address, election_id=None)

    def _inspector(self, name: str) -> Inspector:
        switch = self._running.choose([name])[name]
        return Inspector(name, switch.device_id, switch.address)

    def _say(self, text: str) -> None:
        print(text, file=self.stdout, flush=True)


def _connect(place: tuple[str, int]) -> None:
    """Open a TCP connection, and close it. Raises OSError if there is none in time."""
    socket.create_connection(place, CONNECT_S).close()


def _check(is_right: bool, command: str, usage: str) -> None:
    """Raise InputError, which says what the command is, unless it is written right."""
    if not is_right:
        raise InputError(f"{command.strip()}: it is {usage}")


def _listens(pid: int, port: int) -> bool:
    """Return whether a TCP port is listened on in a process's network namespace."""
    tables = (Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    lines = [line for table in tables for line in table.splitlines()[1:]]
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines
    )


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LISTENING_S
    while not condition():
        refuse(time.monotonic() > end, f"iperf does not listen after {LISTENING_S:g} s")
        time.sleep(0.02)
