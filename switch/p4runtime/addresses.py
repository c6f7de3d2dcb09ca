"""Whether a P4Runtime address can be listened on, and if not, why."""

import os
import socket
from pathlib import Path

from weft.base.errors import MachineError, refuse

MAX_UNIX_PATH_BYTES = 107
"""The greatest length of a Unix socket's path that the kernel takes (unix(7))."""


def check_address(who: str, address: str) -> None:
    """Raise `WeftError`, with the reason, for an address that gRPC could not listen on.

    gRPC itself prints the reason and does not return it.

    ``who`` is to listen on ``address``, which is ``unix:PATH`` or ``HOST:PORT``.
    """
    path = address.removeprefix("unix:")
    if path != address:
        refuse(
            len(path.encode()) > MAX_UNIX_PATH_BYTES,
            f"P4Runtime address {address}: a Unix socket's path has at most "
            f"{MAX_UNIX_PATH_BYTES} bytes; use a shorter folder",
        )
        folder = Path(path).parent
        if not folder.is_dir():
            raise _refusal(who, address, f"there is no folder {str(folder)!r}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _refusal(who, address, f"the folder {str(folder)!r} cannot be written")
        return
    host, _, port = address.rpartition(":")
    reason = "it is no address"
    try:
        found = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:
        raise _refusal(who, address, getattr(error, "strerror", None) or str(error)) from None
    for family, kind, protocol, _, target in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
                probe.listen(1)  # which SO_REUSEADDR leaves to find out who listens there
                return
        except OSError as error:
            reason = error.strerror or str(error)
    raise _refusal(who, address, reason)


def _refusal(who: str, address: str, reason: str) -> MachineError:
    return MachineError(
        f"{who}: cannot listen on {address} for P4Runtime: {reason}; name another address"
    )
