"""A P4Runtime client of switches in the same process, for a `weft.controller.client.Session`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
from google.rpc import code_pb2

from weft.switch.p4runtime.arbitration import Client
from weft.switch.p4runtime.local import LocalError, LocalSwitch


class LocalClient:
    """One controller's end of a `LocalSwitch`; ``stub`` is called as gRPC's is.

    Deadlines mean nothing here: every call is answered when it returns.
    """

    def __init__(self, switch: LocalSwitch, device_id: int, election_id: tuple[int, int]) -> None:
        self.switch = switch
        self.device_id = device_id
        self.election_id = election_id
        self.stub = SimpleNamespace(
            Write=_unary(switch.write),
            Read=_unary(switch.read),
            SetForwardingPipelineConfig=_unary(switch.set_config),
            GetForwardingPipelineConfig=_unary(switch.get_config),
            Capabilities=_unary(switch.capabilities),
        )
        self._client: Client | None = None

    def become_primary(self) -> None:
        """Become the primary; grpc.RpcError where another controller is."""
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


def _unary(method: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(request: Any, timeout: float | None = None, wait_for_ready: bool = False) -> Any:
        return method(request)

    return call
