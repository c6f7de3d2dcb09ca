"""Mininet's prompt on a network that a run has brought up."""

import logging
import os
import select
import shlex
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from weft.base.children import how_it_ended, last_words, run_tool
from weft.base.errors import InputError, RunError, WeftError, refuse
from weft.base.signals import watched
from weft.base.streams import raw
from weft.topo.worlds.emulated.mininet_classes import CLI, lg
from weft.topo.worlds.emulated.mininet_nodes import SHELL_CHECK_MS
from weft.topo.worlds.emulated.node_addresses import address_for, known_addresses, present_addresses
from weft.topo.worlds.emulated.testbeds import read_script

MOST_TOLD = 20
"""How many of the commands that failed are listed at the end."""

REFUSED = {
    "dpctl": "speaks OpenFlow; see 'tables SWITCH' and 'counters SWITCH'",
    "switch": "cannot stop a P4 switch; see 'link ONE OTHER down'",
    "wait": "waits for OpenFlow; the switches here are connected",
    "iperfudp": "is not here; try 'HOST iperf -s -u &' and 'HOST iperf -u -c HOST'",
}
"""Mininet's commands that are refused at this prompt, each with the reason."""

WINDOWS = {"xterm": "xterm", "gterm": "gnome-terminal"}
"""The programs of Mininet's commands that open terminal windows."""


def check_command(node: str, command: str) -> None:
    """Raise InputError for a command that is no whole one for a shell: the shell would wait for its
    other half, and a file of commands has nobody who could end that."""
    told = run_tool(["bash", "-n", "-c", command], environment={**os.environ, "LC_ALL": "C"})
    if told.returncode:
        first, *_ = [*told.stderr.strip().splitlines(), last_words(told)]
        _, _, reason = first.partition("line 1: ")
        raise InputError(f"{node} {command}: {reason or first}")


class _Complaints(logging.Handler):
    """A log handler that tells a function what Mininet's own commands say to be wrong."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a message on."""
        self._tell(record.getMessage().strip())


class CommandsFailed(RunError):
    """Commands that nobody typed have failed; the status is that of the first."""

    def __init__(self, told: str, status: int) -> None:
        super().__init__(told)
        self.exit_status = status


def _told_failures(failed: dict[str, str]) -> str:
    """Return what to say at the end of commands of which some have failed; by their places."""
    lines = [f"  {place}: {what}" for place, what in failed.items()]
    more = [f"  and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else []
    count = "1 command" if len(lines) == 1 else f"{len(lines)} commands"
    return "\n".join([f"{count} failed:", *lines[:MOST_TOLD], *more])


MOST_PING_S = 3600
PING_S = "5"
"""How long the prompt's own pings wait for an answer, in seconds; ping alone would wait 10."""


def _patience(line: str, command: str) -> str:
    """Return how many seconds pings wait: what the words behind a command say, or `PING_S`."""
    try:
        seconds = float(line.strip() or PING_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_PING_S:
        raise InputError(
            f"{command} {line.strip()}: it is {command} [SECONDS], how long a ping waits for its "
            f"answer, up to {MOST_PING_S}"
        )
    return f"{seconds:g}"


class CommandLine(CLI):
    """Mininet's prompt without the commands that would reach beyond the run: those that kill by
    name, open windows, or speak to other kinds of switch. Whatever goes wrong in a command ends
    only that command."""

    prompt = "weft> "
    identchars = f"{CLI.identchars}.-"
    """What a word at the beginning of a line is made of: names of nodes may have dots and
    hyphens."""
    _line = ""
    helpStr = (
        "A node's name and a command run it there; in what follows, names of hosts stand for\n"
        "their addresses:\n"
        "  weft> h0 ping -c 3 h1\n"
        "  weft> leaf0 ip -s link\n"
        "What needs every key as it is pressed, such as an editor: noecho h0 vi notes\n\n"
    )

    def __init__(
        self, network: Any, stdin: TextIO, check: Callable[[], None], source: str = "standard input"
    ) -> None:
        """Read commands from a file or a terminal until the input ends, or until `check` raises
        RunError.

        `check` is called while a line is waited for, during a command, and after it. Call this in
        the main thread. `source` is what errors call the file.
        """
        self._check = check
        self._place: list[Any] = [source, 0]
        self._failed: dict[str, str] = {}
        self._status = 0
        """That of the first command that failed."""
        lg.handlers[0].setStream(sys.stdout)  # where everything else of the prompt goes
        lg.propagate = False  # and nowhere else, whoever gives the root logger a handler
        self.use_rawinput = stdin.isatty()
        complaints = _Complaints(self.fail)
        lg.addHandler(complaints)
        try:
            with watched(check):
                super().__init__(network, stdin=stdin)
        except RunError:
            print(flush=True)  # behind the prompt
            raise
        finally:
            lg.removeHandler(complaints)

    def check_commands(self) -> None:
        """Raise CommandsFailed, with the lines, if commands that nobody typed have failed."""
        if self._failed and not self.isatty():
            raise CommandsFailed(_told_failures(self._failed), self._status)

    def fail(self, why: str, status: int = 1) -> None:
        """Note that the command of the line that runs has failed. The next line is read all the
        same."""
        self._note(f"{self._line}: {why}", status)

    def _note(self, what: str, status: int = 1) -> None:
        source, number = self._place
        self._failed.setdefault(f"{source}:{number}", what)
        self._status = self._status or status

    def get_names(self) -> list[str]:
        """Return the names that help and completion offer: all except those of refused commands."""
        return [name for name in super().get_names() if name.removeprefix("do_") not in REFUSED]

    def completenames(self, text: str, *_ignored: Any) -> list[str]:
        """Return the commands and nodes that begin with the text."""
        return [*super().completenames(text), *self.completedefault(text)]

    def completedefault(self, text: str, *_ignored: Any) -> list[str]:
        """Return the nodes that begin with the text."""
        return [node.name for node in self.mn.values() if node.name.startswith(text)]

    def precmd(self, line: str) -> str:
        """Show the line that was read, if nobody typed it."""
        if not self.isatty() and line != "EOF":
            print(line, flush=True)
        self._place[1] += 1
        self._line = line.strip()
        return line

    def onecmd(self, line: str) -> Any:
        """Run one line; a line that starts with # is a comment.

        If the command fails, the failure is shown and the next line is read, unless the network is
        broken.
        """
        if line.lstrip().startswith("#"):
            return None
        try:
            name = self.parseline(line)[0]
            if name in REFUSED:
                raise InputError(f"{name}: {REFUSED.get(name)}")
            return super().onecmd(line)
        except WeftError as error:
            self._check()
            print(error, file=self.stdout)
            self._note(str(error).splitlines()[0])
        except Exception as error:  # of Mininet's commands, or of shlex at a wrong quote
            self._check()
            what = str(error) or type(error).__name__
            print(f"{line.strip()!r}: {what}", file=self.stdout)
            self.fail(what)
        return None

    def postcmd(self, stop: Any, line: str) -> Any:
        """Return whether this was the last command; raise RunError if the network is broken."""
        self._check()
        return stop

    def default(self, line: str) -> None:
        """Run a command on the node whose name the line begins with."""
        name, command, line = self.parseline(line)
        refuse(
            name not in self.mn,
            f"{line!r}: there is no such command (see help), nor node (see nodes)",
        )
        if not command:
            raise InputError(f"{name}: write a command behind it, as {name} ip addr")
        check_command(name, command)
        node = self.mn[name]
        program, *_ = words = command.split(" ")
        wants_ipv6 = "-6" in words or program.endswith("6")  # ping6
        node.sendCmd(" ".join(self._address(word, node, wants_ipv6) for word in words))
        self.waitForNode(node)
        if not self.isatty() and (status := node.cmd("echo $?").strip()) != "0":
            self.fail(f"status {status}", int(status) if status.isdecimal() else 1)

    def _address(self, word: str, node: Any, wants_ipv6: bool) -> str:
        """Return a host's address for its name, of a kind that the node has, too, which sends; and
        any other word as it is."""
        if word not in self.mn or not self.mn[word].intfs:
            return word
        own = known_addresses(node)
        return address_for(own, present_addresses(self.mn[word]), wants_ipv6) or word

    def waitForNode(self, node: Any) -> None:
        """Show what a node's command prints until it ends. What is typed meanwhile goes to the
        command, but the lines of a file are commands for the prompt."""
        said = select.poll()
        said.register(node.stdout, select.POLLIN)
        screen = raw(self.stdout)  # a program on a node may do with the terminal what it likes
        typed = self.stdin.fileno() if self.isatty() else None
        if typed is not None:
            said.register(typed, select.POLLIN)
            _take_keys_as_they_come(typed)
        while node.waiting:
            try:
                ready = [descriptor for descriptor, _ in said.poll(SHELL_CHECK_MS)]
                if not ready:
                    node.check_shell()
                if typed in ready:
                    node.write(os.read(typed, 1024).decode(errors="replace"))
                if node.stdout.fileno() in ready:
                    screen.write(node.monitor())
                    screen.flush()
            except KeyboardInterrupt:
                node.sendInt()

    def do_source(self, line: str) -> Any:
        """source FILE: run the commands in a file."""
        words = shlex.split(line)
        if len(words) != 1:
            raise InputError(f"{f'source {line}'.strip()}: it is source FILE")
        text = read_script(Path(words[0]), f"source {words[0]!r}")
        outer = self._place, self._line
        try:
            for number, command in enumerate(text.splitlines(), 1):
                self._place, self._line = [words[0], number], command.strip()
                if self.onecmd(command):
                    return True
        finally:
            self._place, self._line = outer
        return None

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression; names of nodes stand for the nodes: py h1.cmd('ls')"""
        result = eval(line, vars(sys.modules[CLI.__module__]), self.getLocals())
        if result:
            print(result if isinstance(result, str) else repr(result), file=self.stdout)

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """xterm NODE...: a terminal window at each node."""
        self._check_window(f"{term} {line}", WINDOWS[term], line.split())
        super().do_xterm(line, term)

    def do_x(self, line: str) -> None:
        """x NODE [COMMAND]: a program with windows on a node."""
        words = line.split()
        self._check_window(f"x {line}", words[1] if len(words) > 1 else None, words[:1])
        super().do_x(line)

    def _check_window(self, line: str, program: str | None, nodes: list[str]) -> None:
        """Raise InputError if no window can be opened; nodes that there are not are Mininet's to
        complain of."""
        if not nodes or not all(name in self.mn for name in nodes):
            return
        if not os.environ.get("DISPLAY"):
            raise InputError(
                f"{line}: there is no display for a window (DISPLAY is not set): type what is to "
                f"be run behind the node's name, as {nodes[0]} ip addr"
            )
        refuse(
            program is not None and shutil.which(program) is None,
            f"{line}: {program} is not installed",
        )

    def do_px(self, line: str) -> None:
        """Execute a Python statement; names of nodes stand for the nodes: px print(h1.cmd('ls'))"""
        exec(line, vars(sys.modules[CLI.__module__]), self.getLocals())

    def do_sh(self, line: str) -> None:
        """Run a command of a shell on the machine itself: sh COMMAND"""
        if status := subprocess.call(line, shell=True):
            self.fail(how_it_ended(status), status if status > 0 else 128 - status)

    def do_pingall(self, line: str) -> None:
        """Ping between all hosts, by IPv4, or by IPv6 where two have nothing else in common; with a
        number, wait so many seconds for each answer, not 5."""
        self._fail_if_lost(self.mn.pingAll(_patience(line, "pingall")))

    def do_pingpair(self, _line: str) -> None:
        """Ping between the first two hosts."""
        self._fail_if_lost(self.mn.ping(self.mn.hosts[:2], timeout=PING_S))

    def do_pingallfull(self, line: str) -> None:
        """Ping between all hosts, and show times; with a number, as pingall."""
        self._fail_if_silent(self.mn.pingFull(timeout=_patience(line, "pingallfull")))

    def do_pingpairfull(self, _line: str) -> None:
        """Ping between the first two hosts, and show times."""
        self._fail_if_silent(self.mn.pingFull(self.mn.hosts[:2], timeout=PING_S))

    def _fail_if_silent(self, outputs: Sequence[Any]) -> None:
        silent = [1 for _, _, (_, received, *_) in outputs if not received]
        self._fail_if_lost(100 * len(silent) / len(outputs) if outputs else 0)

    def _fail_if_lost(self, percent: float) -> None:
        if percent:
            self.fail(f"{percent:g} % of the pings were lost")


def _take_keys_as_they_come(terminal: int) -> None:
    """Let what is typed at a terminal be read at once, and not line by line."""
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ICANON
    attributes[6][termios.VMIN] = 1
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
