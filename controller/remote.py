"""The calls of a switch's P4Runtime service, by gRPC or in this process."""

import contextlib
import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
from google.rpc import code_pb2

from weft.base.errors import RunError
from weft.switch.messages import p4runtime_pb2, stub_of

if TYPE_CHECKING:
    from weft.switch.p4runtime.local import LocalClient, LocalSwitch

Address: TypeAlias = "str | LocalSwitch"
"""Where a switch is: ``unix:PATH`` or ``HOST:PORT``, or the switch itself."""


ElectionId = tuple[int, int]
"""An election id as (high, low)."""


ELECTION_ID: ElectionId = (0, 1)
"""The controller's own. It is the least there is, so that any other client that has a greater one
owns the switch."""


def next_election_id(before: ElectionId) -> ElectionId:
    """Return the least election id above another one."""
    high, low = before
    return divmod((high << 64 | low) + 1, 1 << 64)


DEADLINE_S = 60.0
"""How long a switch may take to be connected to, and to answer every request but loading a
program."""


LEAVE_DEADLINE_S = 10.0
"""How long a switch may take to end the stream of a client that leaves."""


MAX_METADATA_BYTES = 1 << 20


MOST_NOTICES = 1 << 16
"""The most messages of a switch that wait for somebody to take them."""


_OPTIONS = (
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.enable_http_proxy", 0),
)


class SwitchError(RunError):
    """A request to a switch that failed: which switch it was, what was attempted, and why it
    failed. ``code`` is the name of gRPC's code, for example NOT_FOUND; "" if none came."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class RemoteClient:
    """A client of a switch over gRPC (``stub``), with the stream by which a client owns the
    switch."""

    def __init__(
        self,
        where: str,
        device_id: int,
        address: str,
        election_id: ElectionId | None,
        deadline_s: float,
    ) -> None:
        """Open a channel; nothing is sent before the first call or ``become_primary``.

        ``where`` names the switch in errors. Without an election id the client takes the least that
        serves.
        """
        self._where = where
        self.device_id = device_id
        self.election_id = election_id
        self._deadline_s = deadline_s
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self.stub = stub_of(self._channel)
        self._stream: Any = None
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """The arbitration updates that have come; None where the stream has ended."""
        self._known: tuple[int, ElectionId] | None = None
        """The last answer that was looked at."""
        self._notices: deque[Any] = deque(maxlen=MOST_NOTICES)
        """What else has come; the oldest goes if nobody takes it."""

    def _receive(self) -> None:
        """Keep the switch's answers about who is the primary, and what else it tells."""
        try:
            for message in self._stream:
                if message.WhichOneof("update") == "arbitration":
                    self._answers.put(message.arbitration)
                else:
                    self._notices.append(message)
        except grpc.RpcError:
            pass  # ``self._stream`` keeps the status
        finally:
            self._answers.put(None)

    def become_primary(self, *, over: bool = False) -> None:
        """Own the switch, and open the stream first if there is none.

        A switch remembers the greatest election id that any client had. If the client that had it
        has gone, this client takes it over, and if that client is there and ``over`` is true, the
        next one above it. Raises SwitchError if another controller owns the switch or no answer
        comes.
        """
        while not self._answers.empty():  # others came and went
            self._answer()
        # BMv2 does not answer a client that wants what it has said already.
        if self._known is None or self._known[0] == code_pb2.NOT_FOUND:
            self._wish()
            self._answer()
        while True:
            assert self._known is not None
            code, holder = self._known
            own = self.election_id
            if code == code_pb2.OK:
                if holder == own:
                    return
                if own is None:  # BMv2 takes no id for 0, which may own a switch
                    self.election_id = max(holder, ELECTION_ID)
                    self._wish()
            elif code == code_pb2.NOT_FOUND:
                if own is None or holder > own:
                    self.election_id = max(holder, ELECTION_ID)
                    self._wish()
            elif own is None or holder >= own:
                if not over:
                    raise SwitchError(
                        f"{self._where}: another controller, with election id {shown_id(holder)}, "
                        "owns the switch; end that one first"
                    )
                self.election_id = next_election_id(holder)
                self._wish()
            self._answer()

    def vacant_election_id(self) -> ElectionId:
        """Return the least election id by which a client would own the switch now, whoever owns
        it."""
        self._wish()
        code, holder = self._answer()
        return (
            next_election_id(holder)
            if code == code_pb2.ALREADY_EXISTS
            else max(holder, ELECTION_ID)
        )

    def _wish(self) -> None:
        """Tell the switch by which election id this client wants to own it; one without an id only
        asks who does."""
        if self._stream is None:
            self._stream = self.stub.StreamChannel(iter(self._requests.get, None))
            self._receiver.start()
        wish: dict[str, Any] = {"device_id": self.device_id}
        if self.election_id is not None:
            high, low = self.election_id
            wish["election_id"] = {"high": high, "low": low}
        self._requests.put(p4runtime_pb2.StreamMessageRequest(arbitration=wish))

    def _answer(self) -> tuple[int, ElectionId]:
        """Return the code of the next answer about who owns the switch, and the greatest election
        id that there was. Raises SwitchError if none comes."""
        answer = None
        with contextlib.suppress(queue.Empty):
            answer = self._answers.get(timeout=self._deadline_s)
        if answer is None:
            why = f"no answer to the arbitration within {self._deadline_s:g} s"
            if self._stream.done():
                why = f"the switch ended the stream: {status_text(self._stream)}"
                self._answers.put(None)  # no more comes
            raise SwitchError(f"{self._where}: {why}")
        self._known = answer.status.code, (answer.election_id.high, answer.election_id.low)
        return self._known

    def tell(self, request: Any) -> None:
        """Send a message on the stream."""
        self._requests.put(request)

    def take_notices(self) -> list[Any]:
        """Return what the switch has told since the last call."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def tear_down(self) -> None:
        """End the stream and close the channel.

        The switch ends the stream once it has let this client go: then whoever comes next may have
        the same election id. If the switch does not do so in time, the client leaves all the same.
        """
        if self._stream is not None:
            self._requests.put(None)
            self._receiver.join(LEAVE_DEADLINE_S)
            self._stream.cancel()
            self._receiver.join()
        self._channel.close()


def shown_id(election_id: ElectionId) -> str:
    """Return an election id as the number that it is."""
    high, low = election_id
    return str(high << 64 | low)


def status_text(call: Any) -> str:
    return f"{call.code().name}: {call.details()}"


def client_at(
    where: str,
    device_id: int,
    address: Address,
    election_id: ElectionId | None = ELECTION_ID,
    deadline_s: float = DEADLINE_S,
) -> "RemoteClient | LocalClient":
    """Return a client of the switch at an address, which `where` names in errors."""
    if isinstance(address, str):
        return RemoteClient(where, device_id, address, election_id, deadline_s)
    return address.client(device_id, election_id or ELECTION_ID)
