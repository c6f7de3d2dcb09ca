"""Who owns what in a switch: the controller's plans, or somebody else who writes through its
session, such as a script."""

from collections.abc import Mapping, Sequence

from weft.base.errors import refuse
from weft.controller.entities import Entity
from weft.controller.plan import Update

PLANS = "the controller's plan"


class Claims:
    """What others than the controller's plans have put into switches."""

    def __init__(self) -> None:
        self._held: dict[str, dict[tuple[object, ...], tuple[str, Entity]]] = {}

    def check_planned(self, switch: str, updates: Sequence[Update]) -> None:
        """Raise InputError, which names both owners, if a plan is to write something that somebody
        else has written."""
        held = self._held.get(switch, {})
        for update in updates:
            owner, entity = held.get(update.entity.key, ("", None))
            refuse(
                owner,
                f"{switch}: {PLANS} wants to {update}, and {owner} has there: {entity}; delete "
                f"that first",
            )

    def check(
        self,
        owner: str,
        switch: str,
        updates: Sequence[Update],
        planned: Mapping[tuple[object, ...], Entity],
    ) -> None:
        """Raise InputError, which names both owners, if ``owner`` is to write something that a plan
        or somebody else has written. ``planned`` is what the plan has put into the switch."""
        held = self._held.get(switch, {})
        for update in updates:
            key = update.entity.key
            other, entity = held.get(key, (owner, None))
            if key in planned:
                other, entity = PLANS, planned[key]
            refuse(
                other != owner,
                f"{switch}: {owner} wants to {update}, and {other} has there: {entity}; only "
                "who wrote it may change it",
            )

    def note(self, owner: str, switch: str, updates: Sequence[Update]) -> None:
        """Take note of updates that ``owner`` has made."""
        held = self._held.setdefault(switch, {})
        for update in updates:
            if update.kind == "delete":
                held.pop(update.entity.key, None)
            else:
                held[update.entity.key] = (owner, update.entity)

    def held(self, switch: str, key: tuple[object, ...]) -> tuple[str, Entity | None]:
        """Return who has written an entity of this key, and the entity; ("", None) if nobody has
        but a plan."""
        return self._held.get(switch, {}).get(key, ("", None))
