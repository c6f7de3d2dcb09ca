"""Who may write: arbitration between clients by election id, without any I/O.

P4Runtime specification, section "Client Arbitration and Controller Replication". For every role the
primary is the live client with the greatest election id that the switch has ever seen; all others
are backups. Roles have no configuration here: each has full access to the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.p4runtime.refusals import Refusal, invalid, not_found


@dataclass(eq=False)
class Client:
    """A stream that has, or may yet, take part in the arbitration."""

    joined: bool = False
    role: str = ""
    election_id: int | None = None


@dataclass
class _Role:
    clients: list[Client] = field(default_factory=list)
    highest: int | None = None

    @property
    def primary(self) -> Client | None:
        if self.highest is None:
            return None
        return next((one for one in self.clients if one.election_id == self.highest), None)


@dataclass(frozen=True)
class Notice:
    """What a client is told about the arbitration."""

    client: Client
    message: Any
    primary: bool


def election_number(message: Any) -> int:
    """A Uint128 message as a number."""
    return int(message.high) << 64 | int(message.low)


class Arbitration:
    """The arbitration of one switch. Not thread-safe."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, _Role] = {"": _Role()}

    def update(self, client: Client, message: Any) -> list[Notice]:
        """Take a client's ``MasterArbitrationUpdate``.

        Returns whom to tell what: the new primary last, to be told only when writes of the old one
        are through. Raises the Refusal that ends the client's stream.
        """
        name = message.role.name
        if message.device_id != self.device_id:
            code = code_pb2.FAILED_PRECONDITION if client.joined else code_pb2.NOT_FOUND
            raise Refusal(
                code, f"no device {message.device_id} here; this is device {self.device_id}"
            )
        if client.joined and name != client.role:
            raise Refusal(
                code_pb2.FAILED_PRECONDITION,
                f"this stream has role {client.role!r}; open another one for role {name!r}",
            )
        if message.role.HasField("config"):
            raise invalid("role.config: roles have no configuration here; leave it unset")
        role = self._roles.setdefault(name, _Role())
        election_id = None
        if message.HasField("election_id"):
            election_id = election_number(message.election_id)
            for other in role.clients:
                if other is not client and other.election_id == election_id:
                    raise invalid(f"election id {election_id} is already in use by another client")
        was_primary = role.primary is client
        if not client.joined:
            client.joined = True
            client.role = name
            role.clients.append(client)
        client.election_id = election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            return self._notices(role, role.clients)
        return self._notices(role, role.clients if was_primary else [client])

    def leave(self, client: Client) -> list[Notice]:
        """Forget a client whose stream has ended; the others are told if it was the primary."""
        if not client.joined:
            return []
        role = self._roles[client.role]
        was_primary = role.primary is client
        role.clients.remove(client)
        client.joined = False
        return self._notices(role, role.clients) if was_primary else []

    def _notices(self, role: _Role, clients: list[Client]) -> list[Notice]:
        primary = role.primary
        notices = []
        for client in sorted(clients, key=lambda one: one is primary):
            message = p4runtime_pb2.StreamMessageResponse()
            update = message.arbitration
            update.device_id = self.device_id
            if client.role:
                update.role.name = client.role
            if role.highest is not None:
                update.election_id.high = role.highest >> 64
                update.election_id.low = role.highest & (1 << 64) - 1
            if client is primary:
                update.status.code = code_pb2.OK
                update.status.message = "this client is the primary"
            elif primary is not None:
                update.status.code = code_pb2.ALREADY_EXISTS
                update.status.message = "another client is the primary"
            else:
                update.status.code = code_pb2.NOT_FOUND
                update.status.message = "there is no primary"
            notices.append(Notice(client, message, client is primary))
        return notices

    def check_primary(self, request: Any) -> None:
        """Raise unless a request's role and election id are the primary's.

        NOT_FOUND for a role that no client ever had, else PERMISSION_DENIED.
        """
        role = self._roles.get(request.role)
        if role is None:
            raise not_found(f"no client has ever had role {request.role!r}")
        primary = role.primary
        given = election_number(request.election_id) if request.HasField("election_id") else None
        if primary is None or given is None or primary.election_id != given:
            now = "there is no primary" if primary is None else "it is another one's"
            raise Refusal(
                code_pb2.PERMISSION_DENIED,
                f"election id {given if given is not None else '(unset)'} is not the primary's: "
                f"{now}; send a MasterArbitrationUpdate on a stream first",
            )
