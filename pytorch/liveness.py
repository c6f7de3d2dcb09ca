"""Tells a rank that is there but does not answer from one that cannot be reached.

A program that holds Python's lock, as some extension modules do for minutes, holds up the thread of
its network, too, which then acknowledges nothing. But the kernel of its host answers: a datagram to
a port at which nobody listens comes back as an ICMP message (RFC 1122, section 3.2.2.1). Where it
does, the process is waited for, for a while: the runner tells of those that have ended or are
stopped, but an answer may have come another way than that of the connection.
"""

import socket
from collections.abc import Sequence
from contextlib import suppress

from weft.agents.datagrams import ipv4_text
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion
from weft.agents.transport.silence import silent_peers, spare

PORT = 9
"""Of the discard protocol (RFC 863), which nobody serves."""
SILENT_NS = 2_000_000_000
"""After so long without an acknowledgement a peer's host is asked,"""
AGAIN_NS = 1_000_000_000
"""and so much later again."""
MOST_SPARED_NS = 120_000_000_000
"""For so long a peer is waited for that acknowledges nothing."""


class HostProbe:
    """Asks the kernel of a host whether it is there.

    Args:
        address: its IPv4 address.
        interface: the network interface that questions leave by; any if it is empty.

    Raises:
        OSError: there is no way to it.
    """

    def __init__(self, address: str, interface: str, port: int = PORT) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            with suppress(PermissionError):  # the route leads there all the same
                self._socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0"
                )
            self._socket.connect((address, port))
        except OSError:
            self.close()
            raise

    def ask(self) -> bool:
        """Ask once more, and return whether there was an answer since the last time."""
        answered = False
        for talk in (lambda: self._socket.recv(1), lambda: self._socket.send(b"\0")):
            try:
                talk()
            except ConnectionRefusedError:  # of this or of the last question
                answered = True
            except OSError:
                pass
        return answered

    def close(self) -> None:
        """Close its socket."""
        self._socket.close()


class Liveness(EndpointAgent):
    """Lets the endpoint wait for peers whose hosts answer."""

    def __init__(self, endpoint: Endpoint, interface: str) -> None:
        super().__init__(endpoint)
        self._interface = interface
        self._next_ns = 0
        self._probes: dict[int, HostProbe] = {}
        self._since_ns: dict[int, int] = {}

    @property
    def due_ns(self) -> int | None:
        """Return when to look next."""
        return self._next_ns

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Ask the hosts of peers that have been silent for a while."""
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + AGAIN_NS
        silent = silent_peers(self.endpoint, now_ns - SILENT_NS)
        for address in self._since_ns.keys() - silent:
            self._forget(address)
        for address in silent:
            since_ns = self._since_ns.setdefault(address, now_ns)
            if now_ns - since_ns > MOST_SPARED_NS:
                continue
            with suppress(OSError):
                if address not in self._probes:
                    self._probes[address] = HostProbe(ipv4_text(address), self._interface)
                if self._probes[address].ask():
                    spare(self.endpoint, address, now_ns - SILENT_NS)

    def close(self) -> None:
        """Close all sockets."""
        for address in list(self._since_ns):
            self._forget(address)

    def _forget(self, address: int) -> None:
        del self._since_ns[address]
        if address in self._probes:
            self._probes.pop(address).close()

    @property
    def waits_for_sent(self) -> bool:
        """Whether it goes on when something that was sent has come: it sends nothing."""
        return False

    def serves(self, completion: Completion) -> bool:
        """Return False: it has no queue pairs."""
        return False
