"""How whoever started ``weft switch`` is told of its switches, and ends them: by a socket that it
hands down (``--control-fd``)."""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from weft.base.errors import InputError

MOST_REQUEST_BYTES = 1 << 12


class ControlSocket:
    """One end of a pair of sockets, on which lines go both ways; its other end is its owner's, and
    when that is closed, as by the owner's death, all ends.

    A line ``stop NAME`` ends one switch, by ``stops``, and is answered ``stopped NAME``. ``ended``
    is called when the last one has been stopped, and at the end of the socket. Without a descriptor
    nothing is told and nothing asked. Raises ``InputError`` for a descriptor that is no socket.
    """

    def __init__(
        self,
        descriptor: int | None,
        stops: Mapping[str, Callable[[], None]],
        ended: Callable[[], None],
    ) -> None:
        self._stops = dict(stops)
        self._ended = ended
        self._socket: socket.socket | None = None
        if descriptor is None:
            return
        try:
            self._socket = socket.socket(fileno=descriptor)
        except OSError as error:
            raise InputError(
                f"--control-fd {descriptor}: it is no socket ({error.strerror})"
            ) from None
        os.set_inheritable(descriptor, False)
        threading.Thread(target=self._serve, name="control", daemon=True).start()

    def tell(self, line: str) -> None:
        """Tell the owner something, if there is one."""
        if self._socket is not None:
            with suppress(OSError):  # it has gone, which is noticed elsewhere
                self._socket.sendall(f"{line}\n".encode())

    def close(self) -> None:
        """Take no more requests."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        assert self._socket is not None
        with suppress(OSError), self._socket.makefile("r", encoding="utf-8") as lines:
            while line := lines.readline(MOST_REQUEST_BYTES):
                self._answer(line.strip())
                if not self._stops:
                    break
        self._ended()

    def _answer(self, request: str) -> None:
        verb, _, name = request.partition(" ")
        stop = self._stops.pop(name, None) if verb == "stop" else None
        if stop is None:
            known = ", ".join(f"stop {name}" for name in self._stops)
            self.tell(f"error {request!r} is none of: {known}")
            return
        stop()
        self.tell(f"stopped {name}")
