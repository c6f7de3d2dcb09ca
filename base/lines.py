"""Messages that two processes say to each other over a stream socket, a line each."""

import select
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

M = TypeVar("M")
SEND_SILENCE_S = 60.0
"""How long the peer may take nothing of a message."""


class Lines(Generic[M]):
    """A channel carries messages, a line each, over a connected stream socket.

    The socket is switched to non-blocking; writing waits for room (both sides read) for as long as
    the peer takes something now and then, reading never waits: ``receive`` hands over what has
    arrived and ``closed`` says that the peer is gone.

    Args:
        encode, decode: return a message's line, and the message of a line, which has no end then.
    """

    def __init__(
        self,
        connection: socket.socket,
        encode: Callable[[M], bytes],
        decode: Callable[[bytes], M],
    ) -> None:
        connection.setblocking(False)
        self._encode, self._decode = encode, decode
        self.socket = connection
        self.closed = False
        """The peer is gone and all that it said has been received."""
        self._deaf = False
        self._partial = bytearray()

    def fileno(self) -> int:
        """Return the socket's descriptor, so that the channel can be waited for."""
        return self.socket.fileno()

    @property
    def partial_bytes(self) -> int:
        """Return what has arrived of a message that is not complete."""
        return len(self._partial)

    def send(self, message: M) -> None:
        """Send one message. It is lost if the peer has gone, whose words can still be received; or
        takes nothing in `SEND_SILENCE_S`."""
        if self.closed or self._deaf:
            return
        left = memoryview(self._encode(message))
        try:
            while left:
                try:
                    left = left[self.socket.send(left) :]
                except (BlockingIOError, InterruptedError):
                    if not select.select([], [self.socket], [], SEND_SILENCE_S)[1]:
                        self._deaf = True
                        return
        except OSError:
            self._deaf = True

    def receive(self) -> list[M]:
        """Return the messages that have arrived since the last call; sets ``closed`` at the end of
        the stream."""
        chunks = []
        while not self.closed:
            try:
                chunk = self.socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                chunk = b""
            if not chunk:
                self.closed = True
            chunks.append(chunk)
        *ends, rest = b"".join(chunks).split(b"\n")
        lines = []
        for end in ends:
            lines.append(bytes(self._partial) + end)
            self._partial = bytearray()
        self._partial += rest
        return [self._decode(line) for line in lines]

    def close(self) -> None:
        """Close the socket; nothing can be sent or received from then on."""
        self.closed = True
        self.socket.close()
