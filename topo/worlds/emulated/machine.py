"""What this machine can do: its tools, kernel features and processors, and what to install for the
rest."""

import importlib.util
import os
import platform
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass

from weft.base.children import last_words, run_tool
from weft.base.errors import MachineError, RunError, refuse
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.base.limits import allow_files, check_address_space
from weft.topo.network import Topology
from weft.topo.worlds.emulated.namespaces import (
    in_thread,
    run_batch,
)
from weft.topo.worlds.emulated.netem import PROBE
from weft.topo.worlds.emulated.pid_namespace import PidNamespace

P4LANG_HINT = "p4lang's packages for Ubuntu (p4lang-bmv2, p4lang-p4c), or the Vagrantfile here"


FILES, FILES_PER_DIRECTION, FILES_PER_NODE = 64, 2, 3
"""What the runner and the switch process open: sockets of links' ends, shells, P4Runtime's servers.
The switch process of 12 switches and 48 links had 232 files."""
ADDRESSES_BYTES, ADDRESSES_EACH_BYTES = 1536 << 20, 48 << 20
"""The address space of the switch process, most of it LLVM and what threads reserve, and what each
switch's own threads add: 1 switch took 1.6 GiB, 12 took 2.1 GiB."""


@dataclass(frozen=True)
class Tool:
    """A program or Python package from outside that Weft calls."""

    name: str
    purpose: str
    package: str
    """The Debian and Ubuntu package that has it; empty where neither has one."""
    version_option: str
    required: bool = True


TOOLS = (
    Tool("ip", "makes links and routes", "iproute2", "-V"),
    Tool("tc", "shapes what hosts send", "iproute2", "-V"),
    Tool("mnexec", "Mininet's entry into namespaces", "mininet", "-v"),
    Tool("setpriv", "ends a run's processes with it", "util-linux", "--version"),
    Tool("tcpdump", "captures (--pcap)", "tcpdump", "--version", required=False),
    Tool("tshark", "reads captures", "tshark", "--version", required=False),
    Tool("simple_switch_grpc", "BMv2 (--switch bmv2)", "", "--version", required=False),
    Tool("p4c", "p4lang's compiler, to compare with", "", "--version", required=False),
)


@dataclass(frozen=True)
class ToolFact:
    """What was found of a tool: its path and version, or None."""

    tool: Tool
    path: str | None
    version: str | None


@dataclass(frozen=True)
class KernelFeature:
    """Whether a kernel feature worked when it was tried, and what the kernel said if it did not."""

    name: str
    works: bool
    reason: str = ""
    without: str = ""
    """What goes on without it, and how; empty if nothing does."""


@dataclass(frozen=True)
class MachineFacts:
    """What ``weft doctor`` shows."""

    cores: int
    """Processors that this process may use."""
    memory_bytes: int
    kernel: str
    root: bool
    mininet: str | None
    """Where Python finds Mininet; None if it does not."""
    tools: tuple[ToolFact, ...]
    features: tuple[KernelFeature, ...]
    """The kernel features that were tried; empty without root, as nothing can be tried then."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Return one line for each thing that the emulated world needs and this machine does not
        have."""
        others = {
            "root: namespaces and links need it; use sudo": not self.root,
            "Mininet's Python package; apt-get install mininet": self.mininet is None,
        }
        return (
            *(
                f"{fact.tool.name}: {fact.tool.purpose}; apt-get install {fact.tool.package}"
                for fact in self.tools
                if fact.path is None and fact.tool.required
            ),
            *(what for what, is_missing in others.items() if is_missing),
            *(
                f"{feature.name}: {feature.reason}"
                for feature in self.features
                if not feature.without and not feature.works
            ),
        )

    @property
    def optional_missing(self) -> tuple[str, ...]:
        """Return one line for each missing tool that only some options need, and for each missing
        kernel feature that Weft can do without."""
        return tuple(
            f"{feature.name}: {feature.without}; {feature.reason}"
            for feature in self.features
            if feature.without and not feature.works
        ) + tuple(
            f"{fact.tool.name}: {fact.tool.purpose}; "
            + (f"apt-get install {fact.tool.package}" if fact.tool.package else P4LANG_HINT)
            for fact in self.tools
            if fact.path is None and not fact.tool.required
        )

    @property
    def apt_command(self) -> str | None:
        """Return the one command that installs those missing tools that Debian and Ubuntu have."""
        packages = {
            *(fact.tool.package for fact in self.tools if fact.path is None and fact.tool.package),
            *(["mininet"] if self.mininet is None else []),
        }
        return f"sudo apt-get install {' '.join(sorted(packages))}" if packages else None


def machine_facts() -> MachineFacts:
    """Look at the machine without changing anything on it."""
    root = os.geteuid() == 0
    mininet = importlib.util.find_spec("mininet")
    return MachineFacts(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=platform.release(),
        root=root,
        mininet=mininet.origin if mininet is not None else None,
        tools=tuple(ToolFact(tool, shutil.which(tool.name), _version(tool)) for tool in TOOLS),
        features=probe_features() if root else (),
    )


def _version(tool: Tool) -> str | None:
    path = shutil.which(tool.name)
    if path is None or not tool.version_option:
        return None
    try:
        done = run_tool([path, tool.version_option], timeout_s=20)
    except OSError:
        return None
    except RunError as error:
        return f"({error})"
    found = re.search(r"\d+\.\d+[\w.\-]*", done.stdout + done.stderr)
    return found.group(0) if found else None


def check_machine(*, captures: bool = False) -> None:
    """Raise MachineError unless the emulated world can be brought up here.

    ``captures`` says whether tcpdump is needed too. Quick: kernel features are not tried. Raises
    RunError if what was tried was killed.
    """
    refuse(
        os.geteuid() != 0,
        "the emulated world makes network namespaces and links, which takes root: "
        "run the same command with sudo",
        MachineError,
    )
    lacking = [
        tool
        for tool in TOOLS
        if (tool.required or (captures and tool.name == "tcpdump"))
        and shutil.which(tool.name) is None
    ]
    if lacking:
        raise MachineError(
            f"not installed or not on PATH: {', '.join(tool.name for tool in lacking)}; "
            f"install with `apt-get install {' '.join(sorted({tool.package for tool in lacking}))}`"
        )
    made = run_tool(["mnexec", "-n", "true"])
    if made.returncode != 0:
        raise MachineError(
            f"the kernel makes no network namespace here ({last_words(made)}): in a container, "
            "Weft needs CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)"
        )
    import weft.topo.worlds.emulated.mininet_classes  # noqa: F401  (raises MachineError where Mininet is missing)


def check_limits(network: Topology, *, captures: bool = False) -> None:
    """Raise MachineError unless the limits of this process (``ulimit``) let it, and the switch
    process, keep a network up. The limit of open files is raised, as far as it may be."""
    nodes, directions = len(network.nodes), len(network.directions)
    least = FILES + FILES_PER_DIRECTION * directions + FILES_PER_NODE * nodes
    what = f"{network.describe()} with {nodes} nodes"
    allow_files(least + captures * directions, least + captures * directions, what)
    check_address_space(ADDRESSES_BYTES + ADDRESSES_EACH_BYTES * len(network.switches), what)


def probe_features() -> tuple[KernelFeature, ...]:
    """Try what the emulated world needs of the kernel, in a namespace that ends at once."""
    features: list[KernelFeature] = []

    def attempt(name: str, work: Callable[[], None], without: str = "") -> None:
        try:
            work()
            features.append(KernelFeature(name, True, without=without))
        except (OSError, MachineError, RunError) as error:
            features.append(KernelFeature(name, False, str(error), without))

    def try_all() -> None:
        attempt("network namespaces", lambda: check_call(libc.unshare(CLONE_NEWNET)))
        if not features[0].works:
            return  # nothing may be tried in the machine's own namespace
        attempt("veth", lambda: run_batch("ip", ["link add w0 mtu 9000 type veth peer name w1"]))
        attempt(
            "tbf",
            lambda: run_batch(
                "tc", ["qdisc add dev w0 root tbf rate 1000000bit burst 9100b limit 99999b"]
            ),
        )
        attempt("AF_PACKET", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
        attempt(
            "netem",
            lambda: run_batch("tc", [PROBE]),
            "links between two hosts have no delay, jitter and loss",
        )
        attempt(
            "PID namespaces",
            lambda: PidNamespace.make(os.environ).end(),
            "commands that a testbed's user hides may outlive it",
        )

    in_thread(try_all)
    return tuple(features)
