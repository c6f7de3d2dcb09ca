"""Who may write, which arbitration between clients decides, and what a role may write and read.

P4Runtime specification, sections "Client Arbitration and Controller Replication" and "Role Config".
No I/O is done here. For every role the primary is the live client with the greatest election id
that the switch has ever seen; all others are backups. A role is a name, or, for clients of
P4Runtime before 1.4, a number.

Roles are agreed upon outside of P4Runtime, and take no ``config``. Here it is the program that
assigns its objects to roles, by the annotation ``@p4runtime_role("name")`` at tables, action
profiles, counters and so on, as PINS programs have it. An object with that annotation belongs to
that role: no other role may write it, except for the default role, which has full access. An object
without annotation may be written by all roles.
"""

from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2

from weft.base.errors import refuse
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.refusals import (
    denied,
    exhausted,
    failed_precondition,
    invalid,
    not_found,
)

RoleKey = str | int
"""A role's name, or its number. The default role, which is empty or 0, has the key ""."""

MOST_ROLES = 1024
"""The most roles that a switch remembers: each keeps its greatest election id for good."""

MOST_ROLE_BYTES = 1024
"""The most bytes of a role's name."""

_PRIMARY = (code_pb2.OK, "this client is the primary")
_BACKUP = (code_pb2.ALREADY_EXISTS, "another client is the primary")
_NO_PRIMARY = (code_pb2.NOT_FOUND, "there is no primary")
"""The code and message of the status by which a client is told its standing."""


@dataclass(eq=False)
class Client:
    """A client is a stream that takes part in the arbitration, or may yet do so."""

    joined: bool = False
    role: RoleKey = ""
    election_id: int | None = None


@dataclass
class _RoleClients:
    clients: list[Client] = field(default_factory=list)
    highest: int | None = None

    @property
    def primary(self) -> Client | None:
        if self.highest is None:
            return None
        return next((one for one in self.clients if one.election_id == self.highest), None)


@dataclass(frozen=True)
class Notice:
    """A notice is what a client is told about the arbitration."""

    client: Client
    message: Any
    primary: bool


def election_number(message: Any) -> int:
    """Return the number that a Uint128 message has."""
    return int(message.high) << 64 | int(message.low)


def role_key(name: str, number: int) -> RoleKey:
    """Return the role that a message means by its ``name`` and its deprecated ``id``."""
    return name or number or ""


class Arbitration:
    """The arbitration of one switch; it is not thread-safe."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[RoleKey, _RoleClients] = {"": _RoleClients()}

    def update(self, client: Client, message: Any) -> list[Notice]:
        """Take a client's ``MasterArbitrationUpdate``, and return whom to tell what.

        The new primary comes last, to be told only when writes of the old one are through. Raises
        the Refusal that ends the client's stream.
        """
        key = role_key(message.role.name, message.role.id)
        self._check(client, key, message)
        role = self._roles.setdefault(key, _RoleClients())
        election_id = None
        if message.HasField("election_id"):
            election_id = election_number(message.election_id)
            refuse(
                any(one.election_id == election_id for one in role.clients if one is not client),
                f"election id {election_id} is already in use by another client",
                invalid,
            )
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
        refuse(
            message.device_id != self.device_id,
            f"no device {message.device_id} here; this is device {self.device_id}",
            failed_precondition if client.joined else not_found,
        )
        refuse(
            client.joined and key != client.role,
            f"this stream has role {client.role!r}; open another one for role {key!r}",
            failed_precondition,
        )
        refuse(
            len(message.role.name.encode()) > MOST_ROLE_BYTES,
            f"role.name: {len(message.role.name)} characters; use a shorter one",
            invalid,
        )
        refuse(
            message.role.HasField("config"),
            "role.config: leave it unset; what a role may do, the program says by "
            '@p4runtime_role("name") at its tables and externs',
            invalid,
        )
        refuse(
            key not in self._roles and len(self._roles) >= MOST_ROLES,
            f"{MOST_ROLES} roles are known already",
            exhausted,
        )

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
        """Return whether a client is the primary of its role."""
        return client.joined and self._roles[client.role].primary is client

    def primaries(self) -> list[Client]:
        """Return the primaries of all roles that have one."""
        return [role.primary for role in self._roles.values() if role.primary is not None]

    def _notices(self, role: _RoleClients, clients: list[Client]) -> list[Notice]:
        primary = role.primary
        others = _NO_PRIMARY if primary is None else _BACKUP
        notices = []
        for client in sorted(clients, key=lambda one: one is primary):
            update = p4runtime_pb2.MasterArbitrationUpdate(device_id=self.device_id)
            if isinstance(client.role, int):
                update.role.id = client.role
            elif client.role:
                update.role.name = client.role
            if role.highest is not None:
                update.election_id.high, update.election_id.low = divmod(role.highest, 1 << 64)
            update.status.code, update.status.message = _PRIMARY if client is primary else others
            message = p4runtime_pb2.StreamMessageResponse(arbitration=update)
            notices.append(Notice(client, message, client is primary))
        return notices

    def check_primary(self, request: Any) -> None:
        """Raise Refusal unless a request's role and election id are the primary's.

        It is NOT_FOUND for a role that no client ever had, else PERMISSION_DENIED.
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


@dataclass(frozen=True)
class RoleScope:
    """A scope is what a role may reach; the default role, whose name is empty, may reach
    everything."""

    name: str = ""

    def owns(self, role: str) -> bool:
        """Return whether an object of a role (empty for every role) is within reach."""
        return not self.name or role in ("", self.name)

    def check_write(self, info: ProgramInfo, kind: str, message: Any) -> None:
        """Raise PERMISSION_DENIED if an entity belongs to another role."""
        role = role_of(info, kind, message) if self.name else ""
        if not self.owns(role):
            raise denied(f"role {self.name!r} may not write this: it belongs to role {role!r}")

    def sees(self, info: ProgramInfo, kind: str, message: Any) -> bool:
        """Return whether a client with this role may read an entity."""
        return not self.name or self.owns(role_of(info, kind, message))


FULL = RoleScope()

_OBJECTS = {
    "table_entry": ("table_id", "tables"),
    "action_profile_member": ("action_profile_id", "profiles"),
    "action_profile_group": ("action_profile_id", "profiles"),
    "counter_entry": ("counter_id", "counters"),
    "meter_entry": ("meter_id", "meters"),
    "register_entry": ("register_id", "registers"),
    "value_set_entry": ("value_set_id", "value_sets"),
    "digest_entry": ("digest_id", "digests"),
}
"""For each kind of entity, the field that names the object it belongs to, and the objects of that
kind in a `ProgramInfo`."""


def role_of(info: ProgramInfo, kind: str, message: Any) -> str:
    """Return the role that an entity's object belongs to; empty if it belongs to none or is
    unknown."""
    if kind in ("direct_counter_entry", "direct_meter_entry"):
        kind, message = "table_entry", message.table_entry
    if kind not in _OBJECTS:
        return ""
    identifier, objects = _OBJECTS[kind]
    found = getattr(info, objects).get(getattr(message, identifier))
    return found.role if found is not None else ""
