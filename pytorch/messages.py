"""What a rank's process is told when it starts, and what it and the runner say to each other: JSON
lines over a Unix stream socket, which crosses network namespaces.

The runner owns the switches. So a rank asks it for the multicast groups and the aggregation job of
a group of ranks (rank 0 of the group asks, and tells the others by torch's store), and hears of
ranks that have ended.
"""

import os
import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from weft.agents.collectives.communicator import SwitchJob
from weft.agents.transport.types import TransportOptions
from weft.base.errors import InputError, MachineError, RunError
from weft.base.lines import Lines

SETTINGS = "WEFT_PYTORCH"
"""The environment variable with the path of a rank's settings."""
ANSWER_S = 60.0
"""How long the runner may take to answer."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one rank's process."""

    rank: int
    host: str
    addresses: list[str]
    """The IPv4 address of every rank of the run, in the fabric."""
    interface: str
    """The name of the rank's interface in the fabric."""
    socket: str
    """Where the runner listens."""
    folder: str
    """Where the rank writes what it has recorded."""
    path_mtu: int
    rate_bps: int
    """The rate of the rank's own link."""
    pace_bps: int
    """The rate of the slowest link that a multicast goes over."""
    seed: int
    epoch: int
    """The run's number on its network, as `Endpoint` has it."""
    transport: TransportOptions
    algorithms: dict[str, str]
    """What was asked for by collective: `weft.pytorch.choices`."""
    backend: str = "weft"
    """What `init_process_group` without a backend gets."""
    as_weft: list[str] = []
    """The backends by whose names the program gets Weft's."""
    slow: float = 1.0
    """How many times as long the rank's program computes as it would by itself."""
    pauses_ns: dict[int, int] = {}
    """How long it does nothing at the end of each of these steps; 0 stands for every step."""
    waits_at: list[int] = []
    """The steps at whose ends it tells the runner, and waits until it may go on."""

    @staticmethod
    def read(environment: Mapping[str, str]) -> "Settings":
        """Return the settings that the environment names.

        Raises:
            InputError: it names none, or they cannot be read.
        """
        path = environment.get(SETTINGS)
        if not path:
            raise InputError(
                f"{SETTINGS} is not set: 'weft torch run SCRIPT' starts ranks with the backend weft"
            )
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=Settings)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"settings {path!r} cannot be read: {error}") from error


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """All messages have a ``kind`` in their JSON object, which says which one it is."""


class Here(_Message, frozen=True, tag="here"):
    """A rank introduces itself."""

    rank: int
    pid: int


class MakeGroup(_Message, frozen=True, tag="make_group"):
    """A rank asks for what the switches hold for a group of ranks."""

    name: str
    ranks: list[int]
    """Ranks of the run, in the order of the group's own."""
    multicast: bool
    aggregation: bool
    subsets: list[list[int]] = []
    """Ranks of the run that are to have a multicast group each, in place of groups of all."""


class GroupMade(_Message, frozen=True, tag="group_made"):
    """The runner has done so."""

    name: str
    groups: list[str]
    """IPv4 addresses of the multicast groups, or of those of the subsets; empty: nothing is
    multicast."""
    job: SwitchJob | None = None
    """What the switches know the group as, if they add for it."""
    note: str = ""
    """Why something that was asked for is not there."""
    epoch: int = 1
    """The group's number on this network, as `Communicator` has it."""


class DropGroup(_Message, frozen=True, tag="drop_group"):
    """A rank needs a group no more. Once all of its ranks have said so, the switches forget it."""

    name: str


class Recorded(_Message, frozen=True, tag="recorded"):
    """A rank has written what it has recorded, and will start nothing more. It serves its peers
    until the runner says that all are done."""

    path: str
    begun: dict[str, int] = {}
    """How many collectives it has begun in each group, by what the runner calls the group."""


class RankFinished(_Message, frozen=True, tag="rank_finished"):
    """The program of a rank has come to its end; it will begin nothing more."""

    rank: int
    begun: dict[str, int]


class RankEnded(_Message, frozen=True, tag="rank_ended"):
    """The process of a rank has ended before it said that it is done."""

    rank: int
    how: str


class Silent(_Message, frozen=True, tag="silent"):
    """A rank waits for sums of the switches, and none has come for a while."""

    name: str
    ranks: list[int]
    """Ranks of the run that are the group."""
    place: int
    """Of the collective among all of its group."""
    round: int
    """The first round whose sum has not come."""


class TreeMoved(_Message, frozen=True, tag="tree_moved"):
    """Switches add for a group of ranks in another tree from now on; its job has another epoch."""

    name: str
    epoch: int


class WhoIsLate(_Message, frozen=True, tag="who_is_late"):
    """A rank asks who has not begun a collective."""

    name: str
    ranks: list[int]
    place: int
    key: int
    """What the answer calls the question."""


class Late(_Message, frozen=True, tag="late"):
    """The answer, in words."""

    key: int
    text: str


class AskBegun(_Message, frozen=True, tag="ask_begun"):
    """The runner asks a rank how many collectives it has begun in a group."""

    name: str


class Begun(_Message, frozen=True, tag="begun"):
    """A rank has begun so many of them."""

    name: str
    count: int


class GroupLost(_Message, frozen=True, tag="group_lost"):
    """A group of ranks can do nothing any more, for a reason."""

    name: str
    reason: str


class Stepped(_Message, frozen=True, tag="stepped"):
    """A rank has come to the end of a step of its optimizer, and waits until it may go on."""

    step: int


class GoOn(_Message, frozen=True, tag="go_on"):
    """It may go on."""

    step: int


class AllDone(_Message, frozen=True, tag="all_done"):
    """Every rank is done, or has ended."""


Message = (
    Here | MakeGroup | GroupMade | DropGroup | Recorded | RankFinished | RankEnded | Silent
    | TreeMoved | WhoIsLate | Late | AskBegun | Begun | GroupLost | Stepped | GoOn | AllDone
)  # fmt: skip

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return one line of JSON."""
    return _ENCODER.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of a line. Raises msgspec.MsgspecError or InputError for what is none."""
    return _DECODER.decode(line)


class RunnerLink:
    """A rank's connection to the runner; a thread reads what comes.

    Args:
        heard: called in that thread with each message that answers nothing, and with None when the
            runner is gone.

    Raises:
        MachineError: the runner does not listen.
    """

    def __init__(self, settings: Settings, heard: Any) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(settings.socket)
        except OSError as error:
            raise MachineError(f"the runner at {settings.socket}: {error.strerror}") from error
        self._lines = Lines(connection, encode, decode)
        self._heard = heard
        self._answers: dict[str, GroupMade] = {}
        self._last_step = 0
        """The last step after which this rank may go on."""
        self._changed = threading.Condition()
        self._gone = False
        self.all_done = threading.Event()
        """Set when every rank is done, or the runner is gone."""
        self.say(Here(settings.rank, os.getpid()))
        self._thread = threading.Thread(target=self._listen, name="weft-runner", daemon=True)
        self._thread.start()

    def say(self, message: Message) -> None:
        """Send a message; it is lost if the runner is gone."""
        self._lines.send(message)

    def make_group(self, asked: MakeGroup) -> GroupMade:
        """Ask for a group, and return what there is of it.

        Raises:
            RunError: the runner does not answer.
        """
        self.say(asked)
        with self._changed:
            self._changed.wait_for(lambda: asked.name in self._answers or self._gone, ANSWER_S)
            if asked.name not in self._answers:
                raise RunError(f"group {asked.name}: the runner did not answer")
            return self._answers.pop(asked.name)

    def wait_after(self, step: int) -> None:
        """Tell the runner that a step has ended, and wait until it says to go on."""
        self.say(Stepped(step))
        with self._changed:
            self._changed.wait_for(lambda: self._last_step >= step or self._gone, ANSWER_S)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._lines.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1.0)
        self._lines.close()

    def _listen(self) -> None:
        while not self._lines.closed:
            select.select([self._lines], [], [])
            for message in self._lines.receive():
                if isinstance(message, GroupMade):
                    with self._changed:
                        self._answers[message.name] = message
                        self._changed.notify_all()
                elif isinstance(message, GoOn):
                    with self._changed:
                        self._last_step = message.step
                        self._changed.notify_all()
                elif isinstance(message, AllDone):
                    self.all_done.set()
                else:
                    self._heard(message)
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        self.all_done.set()
        self._heard(None)
