"""TCP ports of loopback that lead to Unix sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from weft.base.errors import MachineError
from weft.topo.worlds.emulated.relays import Relays

WAIT_S = 60.0


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """A Unix socket where whoever connects hears what they say."""
    path = str(tmp_path / "echo.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    def serve() -> None:
        try:
            while True:
                threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    yield path
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_bytes_pass_both_ways_between_many_clients_and_a_socket(echo: str) -> None:
    port = free_port()
    with closing(Relays({port: echo})):
        clients = [socket.create_connection(("127.0.0.1", port), WAIT_S) for _ in range(5)]
        for number, client in enumerate(clients):
            said = bytes([number]) * 300_000
            threading.Thread(target=client.sendall, args=(said,), daemon=True).start()
            heard = b""
            while len(heard) < len(said):
                heard += client.recv(1 << 16)
            assert heard == said
        clients.pop().close()
    for client in clients:  # the end of the relays is theirs
        assert client.recv(1) == b""
        client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), WAIT_S)


def test_a_socket_that_is_not_there_ends_the_connection_alone(echo: str, tmp_path: Path) -> None:
    there, missing = free_port(), free_port()
    with closing(Relays({there: echo, missing: str(tmp_path / "none")})):
        with socket.create_connection(("127.0.0.1", missing), WAIT_S) as client:
            assert client.recv(1) == b""
        with socket.create_connection(("127.0.0.1", there), WAIT_S) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"


def test_a_port_that_is_taken_is_named(echo: str) -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {taken} of 127.0.0.1 cannot be listened on"):
            Relays({free: echo, taken: echo})
    with socket.create_server(("127.0.0.1", free)):
        pass  # nothing is left of the first one
