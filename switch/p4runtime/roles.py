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

    def check_write(self, info: ProgramInfo, entity: Any) -> None:
        """Raise PERMISSION_DENIED if an entity is another role's."""
        role = role_of(info, entity) if self.name else ""
        if not self.owns(role):
            raise denied(f"role {self.name!r} may not write this: it belongs to role {role!r}")

    def sees(self, info: ProgramInfo, entity: Any) -> bool:
        """Whether a read with this role gives an entity."""
        return not self.name or self.owns(role_of(info, entity))


FULL = Scope()


def role_of(info: ProgramInfo, entity: Any) -> str:
    """The role that an entity's object belongs to; empty if to none, or if it is unknown."""
    kind = entity.WhichOneof("entity") or ""
    message: Any = getattr(entity, kind) if kind else None
    if kind in ("direct_counter_entry", "direct_meter_entry"):
        kind, message = "table_entry", message.table_entry
    objects: dict[str, tuple[str, Any]] = {
        "table_entry": ("table_id", info.tables),
        "action_profile_member": ("action_profile_id", info.profiles),
        "action_profile_group": ("action_profile_id", info.profiles),
        "counter_entry": ("counter_id", info.counters),
        "meter_entry": ("meter_id", info.meters),
        "register_entry": ("register_id", info.registers),
        "value_set_entry": ("value_set_id", info.value_sets),
        "digest_entry": ("digest_id", info.digests),
    }
    if kind not in objects:
        return ""
    identifier, known = objects[kind]
    found = known.get(getattr(message, identifier))
    return found.role if found is not None else ""
