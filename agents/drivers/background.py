"""Agents of a host that are served by a thread of their own, beside a program that does something
else.

The thread holds Python's lock only while an agent decides something; while packets move it does
not. All that touches agents happens in that thread: others `post` what is to be done there.
"""

import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable

import numpy as np

from weft.agents.drivers.udp import UdpDriver
from weft.agents.participant import AgentGroup
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import RunError, WeftError

CLOSE_S = 5.0
"""How long the thread may take to end."""


class Background:
    """A background serves the agents of one endpoint in a thread, from `start` until `close`.

    Args:
        endpoint: what the agents share.
        interface: the network interface of the fabric; any if it is not said.
        attend: called in the thread after each round that had news for agents.
        failed: called in the thread, once, with the reason why it has ended by itself.

    Raises:
        MachineError: the sockets cannot be made.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        interface: str,
        attend: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self.agents = AgentGroup(endpoint)
        """What runs on the endpoint; only the thread may touch it."""
        self.driver = UdpDriver(self.agents, interface=interface)
        self._attend = attend
        self._failed = failed
        self._posted: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._serve, name="weft-network", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, work: Callable[[], None]) -> None:
        """Let the thread call something soon, in the order of the posts; it must not block.

        Raises:
            RunError: the background is closed.
        """
        with self._lock:
            if not self._open:
                raise RunError("the network of this process is closed")
            self._posted.append(work)
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the thread and close its sockets; may be called more than once."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            os.eventfd_write(self._wake, 1)
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self.driver.close()

    def _serve(self) -> None:
        try:
            # Sums that are infinite or no number are results like all others.
            with np.errstate(all="ignore"):
                self._serve_agents()
        except WeftError as error:
            self._failed(str(error))
        except Exception as error:
            traceback.print_exc()
            self._failed(f"{type(error).__name__}: {error}")

    def _serve_agents(self) -> None:
        while self._open:
            self.driver.run(None, wake=self._wake, until=self.agents.has_event)
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            while self._posted:
                self._posted.popleft()()
            self._attend()
