"""What tests of controller planners share with others."""

from __future__ import annotations

from collections import Counter

from tests.support import fabric

from weft.controller.entities import (
    Action,
    Entity,
    PlannedEntry,
    PlannedGroup,
    PlannedMember,
    PlannedMulticast,
)
from weft.switch.engine.control.entities import Exact, GroupTarget, Lpm, MemberTarget


class Tables:
    """The entities of one switch, looked up as the P4 program would."""

    def __init__(self, entities: tuple[Entity, ...] | list[Entity]) -> None:
        self.by_key = {entity.key: entity for entity in entities}
        assert len(self.by_key) == len(entities), "an entity planned twice"
        self.routes = [
            entity
            for entity in entities
            if isinstance(entity, PlannedEntry) and entity.table == fabric.name("ipv4_route")
        ]

    def actions_for(self, address: int) -> list[Action]:
        """All actions that a packet to an address may meet; none if no route matches."""
        best: PlannedEntry | None = None
        best_length = -1
        for route in self.routes:
            prefix = dict(route.match).get(fabric.name("dst_addr"), Lpm(0, 0))
            assert isinstance(prefix, Lpm)
            shift = 32 - prefix.prefix_length
            if address >> shift == prefix.value >> shift and prefix.prefix_length > best_length:
                best, best_length = route, prefix.prefix_length
        if best is None:
            return []
        if isinstance(best.target, MemberTarget):
            action = self.member(best.target.member_id)
            return self.places(action) if action.name == fabric.name("spray") else [action]
        assert isinstance(best.target, GroupTarget)
        group = self.by_key["group", fabric.name("ecmp"), best.target.group_id]
        assert isinstance(group, PlannedGroup)
        assert len(group.members) > 1
        return [self.member(member_id) for member_id, weight in group.members if weight]

    def places(self, spray: Action) -> list[Action]:
        """What a packet may meet that is sprayed over a set."""
        params = dict(spray.params)
        found = []
        for index in range(params["last"] + 1):
            place = Exact(params["set"] << 16 | index)
            key = "entry", fabric.name("spray_port"), ((fabric.name("place"), place),), 0
            one = self.by_key[key]
            assert isinstance(one, PlannedEntry) and isinstance(one.target, Action)
            found.append(one.target)
        ports = Counter(dict(action.params)["port"] for action in found)
        assert len(ports) > 1 and len(set(ports.values())) == 1
        return list(dict.fromkeys(found))

    def member(self, member_id: int) -> Action:
        member = self.by_key["member", fabric.name("ecmp"), member_id]
        assert isinstance(member, PlannedMember)
        return member.action

    def multicast_ports(self, address: int) -> tuple[int, ...]:
        key = (
            "entry",
            fabric.name("multicast_route"),
            ((fabric.name("dst_addr"), Exact(address)),),
            0,
        )
        found = self.by_key.get(key)
        if found is None:
            return ()
        assert isinstance(found, PlannedEntry) and isinstance(found.target, Action)
        group = self.by_key["multicast group", dict(found.target.params)["group"]]
        assert isinstance(group, PlannedMulticast)
        return group.ports


def tables_of(plan: dict[str, list[Entity]] | dict[str, tuple[Entity, ...]]) -> dict[str, Tables]:
    return {switch: Tables(entities) for switch, entities in plan.items()}
