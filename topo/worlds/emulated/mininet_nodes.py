"""The one module that touches Mininet: its nodes' shells belong to a run, and its links are made in
a batch.

Mininet keeps nodes, interfaces and links, and gives each node a shell in its namespace, so that its
own command line and scripts work on the network. What it would do to the machine itself (raise
sysctls, look for interfaces among the machine's own) is bypassed.
"""

import logging
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from weft.base.children import DIE_WITH_PARENT, how_it_ended, last_words, run_tool
from weft.base.errors import InputError, MachineError, RunError, WeftError, refuse
from weft.base.limits import allow_files
from weft.base.outputs import MOST_OUTPUT_BYTES
from weft.base.signals import watched
from weft.base.streams import raw
from weft.base.units import format_size
from weft.topo.worlds.emulated.node_addresses import (
    Address,
    address_for,
    addresses_in,
    known_addresses,
    present_addresses,
)
from weft.topo.worlds.emulated.pings import PingingNode, side_by_side
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.testbeds import read_script

SHELL_CHECK_MS = 500
"""The time between two looks at whether a shell that prints nothing still runs."""
STATUS_DEADLINE_S = 5.0
"""How long a shell that no longer holds its namespace may take to end."""
END_DEADLINE_S = 10.0
"""How long all shells together may take to end once they have been killed."""
MOST_TOLD = 20
"""How many of the commands that failed are listed at the end."""
PROMPT = chr(127)
"""What a shell prints when it waits for a command."""
FILES_PER_NODE = 4
OTHER_FILES = 512
"""The runner may open `FILES_PER_NODE` files for each node (a terminal's two ends and pipes) and
`OTHER_FILES` for everything else."""


@contextmanager
def _distutils_for_mininet() -> Iterator[None]:
    """Lend Mininet 2.3 the one name that it takes from distutils, which Python 3.12 no longer has.

    Mininet compares Open vSwitch's versions with it, and nothing here uses Open vSwitch. The name
    is taken away again afterwards, so that nobody else takes it for distutils.
    """
    if sys.version_info < (3, 12) or "distutils" in sys.modules:
        yield
        return
    package, version = ModuleType("distutils"), ModuleType("distutils.version")
    version.StrictVersion = str
    sys.modules.update({"distutils": package, "distutils.version": version})
    try:
        yield
    finally:
        del sys.modules["distutils"], sys.modules["distutils.version"]


try:
    with _distutils_for_mininet():
        from mininet.cli import CLI
        from mininet.link import Intf, Link
        from mininet.log import lg
        from mininet.net import Mininet
        from mininet.node import Node, Switch
except ImportError as error:
    raise MachineError(
        f"Mininet cannot be imported by {sys.executable} ({error}): install Debian's or Ubuntu's "
        "package with `apt-get install mininet`, and use a virtual environment of /usr/bin/python3 "
        "with --system-site-packages"
    ) from error


class RunNode(Node):
    """A Mininet node with a namespace of its own, whose processes end with the run.

    Its shell is started when the node is made, and waited for by `await_shell`: those of many nodes
    start side by side.
    """

    isSetup = True
    starting = False

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell, as Mininet does, but do not wait for it."""
        self.starting = True
        super().startShell(mnopts)

    def await_shell(self) -> None:
        """Wait until the shell, and the node's namespace with it, is there; set it up as Mininet
        does."""
        self.starting = False
        while not self.read().endswith(PROMPT):
            continue
        self.cmd("unset HISTFILE; stty -echo; set +m")

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the node's shell and return what it printed; nothing while the shell
        starts."""
        return "" if self.starting else super().cmd(*args, **kwargs)

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        run: RunRecord = self.params["run"]
        params["env"] = {**params.get("env", os.environ), **run.environment()}
        what = f"command of {self.name}" if self.shell else f"shell of {self.name}"
        # `mn -c`, on the same machine, kills whatever has "mininet:" in its command line.
        cmd = [f"weft:{self.name}" if word == f"mininet:{self.name}" else word for word in cmd]
        cmd = [*DIE_WITH_PARENT, *self.entry(), *cmd]

        def start() -> Any:
            if self.shell:
                self.check_namespace()
            return super(RunNode, self)._popen(cmd, **params)

        return run.start(start, what)

    def entry(self) -> list[str]:
        """Return the command that lets the shell, which has namespaces of its own, see the /proc of
        the run's PID namespace; what the shell runs, and commands beside it, see that already."""
        run: RunRecord = self.params["run"]
        if self.shell or run.pid_namespace is None:
            return []
        return ["mnexec", "-a", str(run.pid_namespace.pid)]

    def read(self, size: int = 1024) -> str:
        """Return what the shell has printed, once it has printed something; raise RunError if it
        has ended. A shell that starts is not read yet."""
        if self.starting:
            return PROMPT
        said = select.poll()
        said.register(self.stdout, select.POLLIN)
        while not self.readbuf and not said.poll(SHELL_CHECK_MS):
            self.check_shell()
        return str(super().read(size))

    def waitOutput(self, verbose: bool = False, findPid: bool = True) -> str:
        """Return what the shell's command prints until it ends. Raises RunError, and ends it, once
        that is more than is kept."""
        said: list[str] = []
        left = MOST_OUTPUT_BYTES
        while self.waiting:
            said.append(self.monitor(findPid=findPid))
            left -= len(said[-1])
            if verbose:
                lg.info(said[-1])
            if left < 0:
                self._interrupt()
                raise RunError(
                    f"{self.name}: {self.lastCmd!r} printed more than "
                    f"{format_size(MOST_OUTPUT_BYTES)}, and was interrupted; let it write to a file"
                )
        return "".join(said)

    def _interrupt(self) -> None:
        """End the shell's command by Ctrl-C, or with its shell if it does not heed that."""
        self.sendInt()
        end = time.monotonic() + STATUS_DEADLINE_S
        while self.waiting and time.monotonic() < end:
            self.monitor(timeoutms=SHELL_CHECK_MS)
        if self.waiting:
            os.killpg(self.shell.pid, signal.SIGKILL)

    def check_shell(self) -> None:
        """Raise RunError if the shell, which holds the node's namespace, has ended."""
        status = self.shell.poll()
        if status is not None:
            self.waiting = False
            raise RunError(
                f"{self.name}: its shell (pid {self.shell.pid}) {how_it_ended(status)}, and its "
                "network namespace with it: end this network, and bring it up again"
            )

    def check_namespace(self) -> None:
        """Raise RunError if the namespace that the shell has been holding is gone."""
        if os.path.exists(f"/proc/{self.pid}/ns/net"):
            return
        try:  # what it held goes some time before its status is known
            how = how_it_ended(self.shell.wait(STATUS_DEADLINE_S))
        except subprocess.TimeoutExpired:
            how = "has ended"
        raise RunError(f"the shell that holds the namespace of {self.name} (pid {self.pid}) {how}")


class SwitchNode(RunNode, Switch):
    """Be a P4 switch's Mininet node, which shares the run's namespace and opens a shell at its
    first use."""

    def startShell(self, mnopts: str | None = None) -> None:
        """Note the namespace only; see :meth:`open_shell`."""
        self.pid = self.params["namespace_pid"]

    def check_namespace(self) -> None:
        """Raise RunError if the namespace that all switches share is gone."""
        if not os.path.exists(f"/proc/{self.pid}/ns/net"):
            raise RunError(
                f"{self.name}: the shell that holds the namespace of all switches (pid {self.pid}) "
                "has ended: end this network, and bring it up again"
            )

    def entry(self) -> list[str]:
        """Return nothing: a switch's shell enters the run's namespaces, and so sees all that they
        show."""
        return []

    def open_shell(self) -> None:
        """Start the node's shell in the run's namespace, if it has none yet."""
        if not self.shell:
            Node.startShell(self, f"-cda{self.params['namespace_pid']}")

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the switch's shell and return what it printed."""
        self.open_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        """Start a command in the switch's shell."""
        self.open_shell()
        return super().sendCmd(*args, **kwargs)


class MadeInterface(Intf):
    """Be an interface that is configured already, so that Mininet only keeps account of it."""

    addresses: Sequence[Address] = ()
    """Those that are known, with their subnets."""

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """Do nothing, since nothing is left to configure."""
        return {}

    def note(self, addresses: Sequence[Address]) -> None:
        """Note the addresses that the interface has."""
        self.addresses = addresses
        four = next((each for each in addresses if each.version == 4), None)
        self.ip = None if four is None else str(four.ip)
        self.prefixLen = None if four is None else four.network.prefixlen

    def updateIP(self) -> str | None:
        """Note the addresses that the interface has now, and return the one of IPv4."""
        said, _, _ = self.node.pexec(["ip", "-o", "address", "show", "dev", self.name])
        self.note(addresses_in(said))
        return self.ip

    def IP(self) -> str | None:
        """Return the address of IPv4, or, if there is none, that of IPv6."""
        return self.ip or next((str(each.ip) for each in self.addresses), None)


class MadeLink(Link):
    """Be a link whose veth pair has been created already."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_parameters: Any) -> None:
        """Do nothing, since nothing is left to make."""


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
    """Tell a function what Mininet's own commands say to be wrong, which they do by its log."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a message on."""
        self._tell(record.getMessage().strip())


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
    """Be Mininet's prompt without the commands that would reach beyond the run: those that kill by
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
        """Raise RunError, with the lines, if commands that nobody typed have failed."""
        if self._failed and not self.isatty():
            raise RunError(_told_failures(self._failed))

    def fail(self, why: str) -> None:
        """Note that the command of the line that runs has failed. The next line is read all the
        same."""
        self._note(f"{self._line}: {why}")

    def _note(self, what: str) -> None:
        source, number = self._place
        self._failed.setdefault(f"{source}:{number}", what)

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
        refuse(
            not command,
            f"{name}: write a command behind it, as {name} ip addr",
        )
        check_command(name, command)
        node = self.mn[name]
        program, *_ = words = command.split(" ")
        wants_ipv6 = "-6" in words or program.endswith("6")  # ping6
        node.sendCmd(" ".join(self._address(word, node, wants_ipv6) for word in words))
        self.waitForNode(node)
        if not self.isatty() and (status := node.cmd("echo $?").strip()) != "0":
            self.fail(f"status {status}")

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
        refuse(
            not os.environ.get("DISPLAY"),
            f"{line}: there is no display for a window (DISPLAY is not set): type what is to be "
            f"run behind the node's name, as {nodes[0]} ip addr",
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
            self.fail(how_it_ended(status))

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


_FIXED = (
    "the network stays what it was brought up as: describe it in weft.Network or a network file "
    "(docs/python.md), and bring that up"
)
_STAYS = "it would end before the block of weft.up does; leave the block"
REFUSED_OF_NETWORK = {
    **dict.fromkeys(("addHost", "addSwitch", "addLink"), _FIXED),
    **dict.fromkeys(("delHost", "delSwitch", "delNode", "__delitem__"), _FIXED),
    **dict.fromkeys(
        ("delLink", "delLinkBetween"), f"to let a link fail, use configLinkStatus; {_FIXED}"
    ),
    "buildFromTopo": _FIXED,
    "addNAT": "hosts reach one another alone, and not the machine's own network, in whose files "
    "and iptables Mininet's NAT would write; what a host needs from outside, put there as a file",
    **dict.fromkeys(
        ("addController", "delController"),
        "the switches speak P4Runtime, not OpenFlow: use net.switch(NAME), or any client at its "
        "address",
    ),
    **dict.fromkeys(("stop", "run", "interact"), _STAYS),
    **dict.fromkeys(
        ("startTerms", "stopXterms"), "it opens windows, and kills by name: use weft up, or cmd"
    ),
}
"""What a network under a run does not do of Mininet's, and what to do instead."""


class RunMininet(Mininet):
    """Be Mininet's object of a network that a run has brought up.

    What asks something of the network or its nodes works as it does in any Mininet network. What
    would make or remove a part of it is refused (`REFUSED_OF_NETWORK`): a node or link that Mininet
    alone knew would be none for the switches, the controller and the clean-up.
    """

    run_record: RunRecord
    set_link: Callable[[str, str, bool], None]
    """Let the link between two nodes come back (True) or fail (False)."""

    def build(self) -> None:
        """Do nothing, since all is there."""

    def start(self) -> None:
        """Do nothing, since all switches run."""

    def configLinkStatus(self, src: Any, dst: Any, status: str) -> None:
        """Let the link between two nodes fail (``down``) or come back (``up``)."""
        refuse(
            status not in ("up", "down"),
            f"configLinkStatus({src}, {dst}, {status!r}): the status is 'up' or 'down'",
        )
        self.set_link(str(src), str(dst), status == "up")

    def ping(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Ping between some hosts, or all, as Mininet does, but side by side."""
        with self._pinging(hosts, timeout) as nodes:
            return super().ping(nodes, timeout)

    def pingFull(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Return times, too, as Mininet does, of pings that go side by side."""
        with self._pinging(hosts, timeout) as nodes:
            found = super().pingFull(nodes, timeout)
        return [(source.node, target.node, told) for source, target, told in found]

    @contextmanager
    def _pinging(self, hosts: Any, timeout: Any) -> Iterator[list[PingingNode]]:
        if not hosts:
            lg.output("*** Ping: testing ping reachability\n")  # as it says where none are named
        with side_by_side(hosts or self.hosts, timeout) as nodes:
            yield nodes

    def iperf(self, *arguments: Any, **options: Any) -> Any:
        """Measure a throughput, as Mininet does, where that kills no other network's iperf."""
        refuse(
            self.run_record.pid_namespace is None,
            "net.mininet.iperf: it kills by name, and this kernel makes no PID namespaces; use "
            "net.host(NAME).run('iperf', ...)",
        )
        return super().iperf(*arguments, **options)


def _refusing(name: str, why: str) -> Callable[..., None]:
    """Return a method that raises InputError, with the reason."""

    def refused(*_arguments: Any, **_options: Any) -> None:
        raise InputError(f"net.mininet.{name}: {why}")

    refused.__name__ = name
    return refused


for _name, _why in REFUSED_OF_NETWORK.items():
    setattr(RunMininet, _name, _refusing(_name, _why))


class MininetNetwork:
    """A Mininet network under a run, and give typed access to the little of it that the world
    needs."""

    def __init__(
        self, run: RunRecord, nodes: int, set_link: Callable[[str, str, bool], None]
    ) -> None:
        """Prepare for so many nodes with shells; nothing but this process's own limits is raised.

        ``set_link`` lets the link between two nodes come back (True) or fail (False).
        """
        Mininet.inited = True  # its initialisation raises limits and sysctls of the machine
        allow_files(nodes * FILES_PER_NODE + OTHER_FILES, 0, "the network")
        self._run = run
        self.net: Any = RunMininet(build=False, controller=None, link=MadeLink, intf=MadeInterface)
        self.net.run_record, self.net.set_link = run, set_link
        self._holder: Any = None

    def add_run_namespace(self) -> int:
        """Make the namespace of the switches; return the id of a process that holds it."""
        self._holder = RunNode("switches", run=self._run)
        self._holder.await_shell()
        return int(self._holder.pid)

    def await_hosts(self) -> None:
        """Wait until the namespaces of all hosts are there."""
        for host in self.net.hosts:
            host.await_shell()

    def add_host(self, name: str) -> int:
        """Make a host in a namespace of its own, which is there when it has been waited for;
        returns the id of a process that holds it."""
        return int(Mininet.addHost(self.net, name, cls=RunNode, run=self._run).pid)

    def check_namespaces(self) -> None:
        """Raise RunError, which names the shell, if a shell that holds a namespace has ended."""
        for node in [*filter(None, [self._holder]), *self.net.hosts]:
            node.check_namespace()

    def add_switch(self, name: str, device_id: int) -> None:
        """Add a switch's node, in the run's namespace."""
        Mininet.addSwitch(
            self.net,
            name,
            cls=SwitchNode,
            run=self._run,
            inNamespace=True,
            namespace_pid=int(self._holder.pid),
            dpid=f"{device_id:x}",
        )

    def add_link(self, a: str, b: str, ports: tuple[int, int], names: tuple[str, str]) -> None:
        """Note a link that has been made, by the nodes, ports and interface names of its ends."""
        numbers, (one, other) = {"port1": ports[0], "port2": ports[1]}, names
        Mininet.addLink(self.net, a, b, intfName1=one, intfName2=other, **numbers)

    def set_address(self, host: str, name: str, addresses: Sequence[Address], mac: str) -> None:
        """Note the addresses of a host's interface."""
        interface = self.net[host].intf(name)
        interface.note(addresses)
        interface.mac = mac

    def stop(self) -> None:
        """End all shells. The namespaces end with the last process in them, and so do the links.

        This takes a bounded time, whatever a script has put among the nodes. Mininet's `terminate`
        is not called: those of some nodes run commands in the shell that has ended.
        """
        listed = (self.net.hosts, self.net.switches, self.net.controllers, [self._holder])
        nodes = [node for nodes in listed for node in nodes if node is not None and node.shell]
        for node in nodes:
            if node.shell.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(node.shell.pid, signal.SIGKILL)
                node.shell.kill()  # if it leads no group
        end = time.monotonic() + END_DEADLINE_S
        for node in nodes:
            with suppress(subprocess.TimeoutExpired):
                node.shell.wait(max(0.0, end - time.monotonic()))
            node.waitExited = False  # it has been waited for
            with suppress(OSError):
                Node.cleanup(node)
        self._holder = None
        self.net.hosts, self.net.switches, self.net.controllers = [], [], []


def _take_keys_as_they_come(terminal: int) -> None:
    """Let what is typed at a terminal be read at once, and not line by line."""
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ICANON
    attributes[6][termios.VMIN] = 1
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
