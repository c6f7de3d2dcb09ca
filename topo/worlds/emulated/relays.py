"""TCP ports of this machine's loopback that lead to Unix sockets, for clients that take no
``unix:PATH``: whoever connects to one is led to the socket, and bytes pass both ways."""

import asyncio
import contextlib
import threading
from collections.abc import Mapping

from weft.base.errors import MachineError

LOOPBACK = "127.0.0.1"
READ_BYTES = 1 << 16


class Relays:
    """Relays of connections, in a thread of their own, until `close`."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        """Listen on ports, each of which leads to the Unix socket of a path. Raises MachineError if
        one cannot be listened on."""
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        try:
            for port, path in paths.items():
                self._servers.append(self._loop.run_until_complete(self._listen(port, path)))
        except OSError as error:
            self._end()
            raise MachineError(
                f"port {port} of {LOOPBACK} cannot be listened on: {error.strerror}; name other "
                "ports"
            ) from None
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more, and end all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._end()

    def _end(self) -> None:
        self._loop.run_until_complete(self._end_all())
        self._loop.close()

    async def _end_all(self) -> None:
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _listen(self, port: int, path: str) -> asyncio.Server:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await _relay(path, reader, writer)

        return await asyncio.start_server(relay, LOOPBACK, port)


async def _relay(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on between a connection and a Unix socket, until either ends."""
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(path)
        try:
            ways = [
                asyncio.ensure_future(_pass(reader, far_writer)),
                asyncio.ensure_future(_pass(far_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            far_writer.close()
    finally:
        writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()
