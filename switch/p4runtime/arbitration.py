"""Who may write: arbitration between clients by election id, without any I/O.

P4Runtime specification, section "Client Arbitration and Controller Replication". For every role the
primary is the live client with the greatest election id that the switch has ever seen; all others
are backups. A role is a name, or, for clients of P4Runtime before 1.4, a number. Roles take no
``config``: what they may do, the program says (``weft.switch.p4runtime.roles``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.refusals import (
    denied,
    exhausted,
    failed_precondition,
    invalid,
    not_found,
)

RoleKey = str | int
"""A role's name, or its number; both empty and 0 stand for the default role, whose key is ""."""

MOST_ROLES = 1024
"""Roles that a switch remembers: each keeps its greatest election id for good."""

MOST_ROLE_BYTES = 1024
"""Of a role's name."""

_PRIMARY = (code_pb2.OK, "this client is the primary")
_BACKUP = (code_pb2.ALREADY_EXISTS, "another client is the primary")
_NO_PRIMARY = (code_pb2.NOT_FOUND, "there is no primary")
"""What a client is told of its standing: a status's code and message."""


@dataclass(eq=False)
class Client:
    """A stream that has, or may yet, take part in the arbitration."""

    joined: bool = False
    role: RoleKey = ""
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


def role_key(name: str, number: int) -> RoleKey:
    """The role that a message means by ``name`` and the deprecated ``id``."""
    return name or number or ""


class Arbitration:
    """The arbitration of one switch. Not thread-safe."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[RoleKey, _Role] = {"": _Role()}

    def update(self, client: Client, message: Any) -> list[Notice]:
        """Take a client's ``MasterArbitrationUpdate``.

        Returns whom to tell what: the new primary last, to be told only when writes of the old one
        are through. Raises the Refusal that ends the client's stream.
        """
        key = role_key(message.role.name, message.role.id)
        self._check(client, key, message)
        role = self._roles.setdefault(key, _Role())
        election_id = None
        if message.HasField("election_id"):
            election_id = election_number(message.election_id)
            if any(one.election_id == election_id for one in role.clients if one is not client):
                raise invalid(f"election id {election_id} is already in use by another client")
        was_primary = role.primary is client
        if not client.joined:
            client.joined = True
            client.role = key
            role.clients.append(client)
        client.election_id = election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            return self._notices(role, role.clients)
        return self._notices(role, role.clients if was_primary else [client])

    def _check(self, client: Client, key: RoleKey, message: Any) -> None:
        if message.device_id != self.device_id:
            refusal = failed_precondition if client.joined else not_found
            raise refusal(f"no device {message.device_id} here; this is device {self.device_id}")
        if client.joined and key != client.role:
            raise failed_precondition(
                f"this stream has role {client.role!r}; open another one for role {key!r}"
            )
        if len(message.role.name.encode()) > MOST_ROLE_BYTES:
            raise invalid(f"role.name: {len(message.role.name)} characters; use a shorter one")
        if message.role.HasField("config"):
            raise invalid(
                "role.config: leave it unset; what a role may do, the program says by "
                '@p4runtime_role("name") at its tables and externs'
            )
        if key not in self._roles and len(self._roles) >= MOST_ROLES:
            raise exhausted(f"{MOST_ROLES} roles are known already")

    def leave(self, client: Client) -> list[Notice]:
        """Forget a client whose stream has ended; the others are told if it was the primary."""
        if not client.joined:
            return []
        role = self._roles[client.role]
        was_primary = role.primary is client
        role.clients.remove(client)
        client.joined = False
        return self._notices(role, role.clients) if was_primary else []

    def is_primary(self, client: Client) -> bool:
        """Whether a client is the primary of its role."""
        return client.joined and self._roles[client.role].primary is client

    def primaries(self) -> list[Client]:
        """The primaries of all roles that have one."""
        return [role.primary for role in self._roles.values() if role.primary is not None]

    def _notices(self, role: _Role, clients: list[Client]) -> list[Notice]:
        primary = role.primary
        notices = []
        for client in sorted(clients, key=lambda one: one is primary):
            update = p4runtime_pb2.MasterArbitrationUpdate(device_id=self.device_id)
            if isinstance(client.role, int):
                update.role.id = client.role
            elif client.role:
                update.role.name = client.role
            if role.highest is not None:
                update.election_id.high, update.election_id.low = divmod(role.highest, 1 << 64)
            if client is primary:
                standing = _PRIMARY
            else:
                standing = _NO_PRIMARY if primary is None else _BACKUP
            update.status.code, update.status.message = standing
            message = p4runtime_pb2.StreamMessageResponse(arbitration=update)
            notices.append(Notice(client, message, client is primary))
        return notices

    def check_primary(self, request: Any) -> None:
        """Raise unless a request's role and election id are the primary's.

        NOT_FOUND for a role that no client ever had, else PERMISSION_DENIED.
        """
        key = role_key(request.role, request.role_id)
        role = self._roles.get(key)
        if role is None:
            raise not_found(f"no client has ever had role {key!r}")
        primary = role.primary
        given = election_number(request.election_id) if request.HasField("election_id") else None
        if primary is None or given is None or primary.election_id != given:
            now = "there is no primary" if primary is None else "it is another one's"
            raise denied(
                f"election id {given if given is not None else '(unset)'} is not the primary's: "
                f"{now}; send a MasterArbitrationUpdate on a stream first"
            )
