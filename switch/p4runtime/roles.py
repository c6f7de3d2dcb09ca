"""What a role may write, read and hear of.

P4Runtime specification, section "Role Config": roles are agreed upon outside of P4Runtime. Here it
is the program that assigns its objects to roles, by the annotation ``@p4runtime_role("name")`` at
tables, action profiles, counters and so on, as PINS programs have it. An object with that
annotation belongs to that role: no other may write it, but for the default role, which has full
access. What has no annotation, all roles may write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.refusals import denied


@dataclass(frozen=True)
class Scope:
    """A role's reach; the default role's (name empty) is everything."""

    name: str = ""

    def owns(self, role: str) -> bool:
        """Whether an object of a role (empty: of every role) is within reach."""
        return not self.name or role in ("", self.name)

    def check_write(self, info: ProgramInfo, kind: str, message: Any) -> None:
        """Raise PERMISSION_DENIED if an entity, of a kind, is another role's."""
        role = role_of(info, kind, message) if self.name else ""
        if not self.owns(role):
            raise denied(f"role {self.name!r} may not write this: it belongs to role {role!r}")

    def sees(self, info: ProgramInfo, kind: str, message: Any) -> bool:
        """Whether a read with this role gives an entity of a kind."""
        return not self.name or self.owns(role_of(info, kind, message))


FULL = Scope()

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
"""By kind of entity: the field that names the object it belongs to, and which objects these are."""


def role_of(info: ProgramInfo, kind: str, message: Any) -> str:
    """The role that an entity's object belongs to; empty if to none, or if it is unknown."""
    if kind in ("direct_counter_entry", "direct_meter_entry"):
        kind, message = "table_entry", message.table_entry
    if kind not in _OBJECTS:
        return ""
    identifier, objects = _OBJECTS[kind]
    found = getattr(info, objects).get(getattr(message, identifier))
    return found.role if found is not None else ""
