"""A P4Runtime client of switches in the same process, for a `weft.controller.client.Session`."""

from __future__ import annotations

import grpc
from google.rpc import code_pb2

from weft.switch.p4runtime.arbitration import Client
from weft.switch.p4runtime.local import LocalError, LocalSwitch


class LocalClient:
    """One controller's end of a `LocalSwitch`: as a `RemoteClient`, as far as a session uses it."""

    def __init__(self, switch: LocalSwitch, device_id: int, election_id: tuple[int, int]) -> None:
        self.switch = switch
        self.device_id = device_id
        self.election_id = election_id
        self.stub = switch.stub
        self._client: Client | None = None

    def become_primary(self) -> None:
        """Own the switch; raises LocalError where another controller does."""
        self._client, answer = self.switch.arbitrate(self.election_id)
        if answer.arbitration.status.code != code_pb2.OK:
            self.tear_down()
            raise LocalError(
                grpc.StatusCode.PERMISSION_DENIED, "another controller owns the switch", ()
            )

    def tear_down(self) -> None:
        """End the stream."""
        if self._client is not None:
            self.switch.leave(self._client)
            self._client = None
