"""The document of a network of one's own, as a network file has it, and what names may be."""

import re

import msgspec

from weft.topo.network import CPU_PORT

PROMPT_WORDS = (
    "EOF", "cli", "counters", "dpctl", "dump", "exit", "gterm", "help", "intfs", "iperf",
    "iperfudp", "link", "links", "load", "loads", "net", "nodes", "noecho", "pingall",
    "pingallfull", "pingpair", "pingpairfull", "ports", "px", "py", "quit", "report", "sh",
    "source", "switch", "switches", "tables", "terminal", "time", "trace", "wait", "x", "xterm",
)  # fmt: skip
"""The words of the prompt of ``weft up``: what is meant for a host called ``sh`` would run on the
machine itself."""
RESERVED_NAMES = PROMPT_WORDS
"""Names that no node may have. The emulated world itself needs ``switches``, too."""
NODE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9_])?")
MAC_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
INTERFACE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
"""What a host may call an interface; its loopback interface is ``lo``."""
NO_ADDRESS = "none"
"""What ``ip`` says of an interface that gets no address."""
OfHosts = str | list[str] | dict[str, str | list[str]]
"""A text or several, of the one host of a link, or by the names of its hosts."""
Figure = str | int
"""A number with its unit, as text, or a number of bit/s, ns or bytes."""


class Figures(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The rate, the delay and its jitter, the queue and the loss of links."""

    rate: Figure | None = None
    delay: Figure | None = None
    queue: Figure | None = None
    loss: str | float | None = None
    """The probability by which a packet is lost in each direction, from 0 to 1, or like ``1%``."""
    jitter: Figure | None = None
    """By how much at most a packet's delay is greater or less, at random."""


class LinkDocument(Figures, forbid_unknown_fields=True, omit_defaults=True):
    """A link; ``ip``, ``mac``, ``gateway`` and ``interface`` are those of its host's interface, or,
    by the names of hosts, those of its hosts' interfaces."""

    ends: tuple[str, str] = ("", "")
    ports: dict[str, int] = {}
    """The port numbers that it has at its switches, by their names; by default the next free
    ones."""
    ip: OfHosts | None = None
    """An address with its prefix length, of IPv4 or IPv6, or one of each; or `NO_ADDRESS`."""
    mac: str | dict[str, str] | None = None
    gateway: OfHosts | None = None
    interface: str | dict[str, str] | None = None
    """The name of the host's interface on the host itself; by default ``h0-eth0`` and so on."""


class NetworkDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A network."""

    name: str = "network"
    hosts: list[str] = []
    switches: list[str] = []
    programs: dict[str, str] = {}
    """The paths of the P4 programs of switches that do not run the fabric's."""
    cpu_port: int = msgspec.field(default=CPU_PORT, name="cpu-port")
    """The number that switches have for the port to the controller."""
    priority_queues: int = msgspec.field(default=1, name="priority-queues")
    """The queues of each port of a switch."""
    queue_weights: list[int] = msgspec.field(default_factory=list, name="queue-weights")
    """By priority, the shares of what queues without a weight, 0, leave."""
    queue_rates: list[int] = msgspec.field(default_factory=list, name="queue-rates")
    """By priority, how many packets a second leave a queue, 0 for as many as the link takes."""
    queue_depths: list[Figure] = msgspec.field(default_factory=list, name="queue-depths")
    """By priority, the bound of a queue, in place of the link's."""
    first_device_id: int = msgspec.field(default=1, name="first-device-id")
    """The device id of the first switch; the others' follow."""
    entries: dict[str, str | list[str]] = {}
    """By switch, the paths of files with what goes into it once the network is up: table entries,
    multicast groups, clone sessions."""
    commands: dict[str, list[str]] = {}
    """By host, commands that its shell runs once the network is up."""
    left_out: list[str] = msgspec.field(default_factory=list, name="left-out")
    """What the file that this was made from asks beside, and nothing does; it is told."""
    defaults: Figures = msgspec.field(default_factory=Figures)
    links: list[LinkDocument] = []


def texts_of(given: str | list[str]) -> tuple[str, ...]:
    """Return the texts of a field that takes one or several."""
    return (given,) if isinstance(given, str) else tuple(given)
