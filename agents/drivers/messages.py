"""What a rank process and the runner say to each other: records as JSON lines.

One message is one line, ``{"kind": "start", "at_ns": 123}\\n``, with the fields of that kind;
msgspec reads it, and refuses what is not as declared. The connection is a Unix stream socket (they
cross network namespaces). Only the hello says which rank speaks: all else that comes on its
connection is that rank's.

A rank and the runner, in order (``->`` from rank to runner)::

    -> hello        queue pairs made for each peer
    <- peers        the queue pairs that the peers made for this rank
    -> connected
    once per operation:
        <- prepare      what to do; the rank fills its buffer
        -> working      a few times a second while it does
        -> ready
        <- start        at which time of CLOCK_MONOTONIC
        -> progress     a few times a second
        -> finished     the operation is done or failed; the rank goes on serving its peers
        <- verify       once all ranks have finished, so that checking disturbs nobody's time
        -> working      a few times a second while it does
        -> result
    <- close
    at any time: <- abort, -> fault
"""

import socket

import msgspec

from weft.agents.participant import Introductions
from weft.agents.ranks import OperationConfig, RankReport
from weft.base.errors import InputError, ProtocolError
from weft.base.lines import Lines


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """All messages have a ``kind`` in their JSON object, which says which one it is."""

    @property
    def kind(self) -> str:
        """Return the name of the message on the wire."""
        return str(self.__struct_config__.tag)


class Hello(_Message, frozen=True, tag="hello"):
    """A rank introduces itself: its number, its process id and its queue pairs."""

    rank: int
    pid: int
    queue_pairs: Introductions


class Connected(_Message, frozen=True, tag="connected"):
    """The rank has connected its queue pairs."""


class Ready(_Message, frozen=True, tag="ready"):
    """The rank's buffers are filled."""


class ProgressMessage(_Message, frozen=True, tag="progress"):
    """A rank says how many bytes it has received in the operation."""

    received_bytes: int


class Working(_Message, frozen=True, tag="working"):
    """The rank fills or checks its buffers, and gets on."""

    slices: int
    """How many slices it has done so far, of all operations."""


class Finished(_Message, frozen=True, tag="finished"):
    """A rank's operation has ended, after so long; without an error it succeeded."""

    completion_ns: int
    error: str = ""


class Result(_Message, frozen=True, tag="result"):
    """A rank reports on its operation, whose data it has checked."""

    result: RankReport


class RankFailed(_Message, frozen=True, tag="fault"):
    """The rank process cannot go on; it ends after this message."""

    error: str


class Peers(_Message, frozen=True, tag="peers"):
    """A rank is to connect its queue pairs with these of its peers."""

    queue_pairs: Introductions


class Prepare(_Message, frozen=True, tag="prepare"):
    """A rank is to fill its buffers for an operation."""

    operation: OperationConfig


class Start(_Message, frozen=True, tag="start"):
    """A rank is to start its operation at that time of CLOCK_MONOTONIC, in ns."""

    at_ns: int


class Verify(_Message, frozen=True, tag="verify"):
    """The rank is to check its data."""


class Abort(_Message, frozen=True, tag="abort"):
    """A rank is to give up for that reason and end."""

    reason: str


class Close(_Message, frozen=True, tag="close"):
    """The rank is to end."""


Message = (
    Hello | Connected | Ready | Working | ProgressMessage | Finished | Result | RankFailed
    | Peers | Prepare | Start | Verify | Abort | Close
)  # fmt: skip

ENCODER = msgspec.json.Encoder(enc_hook=lambda value: value.item())  # numpy's own numbers
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return one line of JSON."""
    return ENCODER.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of one line.

    Raises:
        ProtocolError: the line is not a message, or one with fields that make no sense.
    """
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, InputError) as error:
        raise ProtocolError(f"not a message of the rendezvous: {error}: {line[:80]!r}") from error


class LineChannel(Lines[Message]):
    """The channel by which ranks, the launcher and the runner say these to each other."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, encode, decode)
