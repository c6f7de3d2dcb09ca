"""The nodes of a lab of netlab: lists and objects of them, with their groups and their clones."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown

Values = dict[str, Any]

NODE_FIELDS = ("clone", "device", "id", "image", "loopback", "role")
NODE_LEFT_OUT = (
    "box", "clab", "config", "cpu", "group", "libvirt", "memory", "mgmt", "mtu", "name", "provider",
    "skip_config", "unmanaged",
)  # fmt: skip
"""What of a node does nothing: hosts are namespaces of this machine, with its files."""
_OF_GROUP = ("members", "type", "vars", "node_data", "_auto_create", "_default_group")
CLONES = "node.clone"
"""The plugin that makes several nodes of one."""
MOST_CLONES = 1000


def nodes_of(document: PlacedDocument, content: Values) -> tuple[dict[str, Values], Values]:
    """Return the nodes with what they have, by themselves and by their groups, and by names of
    nodes that were cloned the names of their clones. Each has its ``id``."""
    nodes = _listed(document, content["nodes"])
    for name, given in _in_groups(document, content.get("groups"), nodes):
        nodes[name] = {**given, **nodes[name]}
    clones: Values = {}
    if CLONES in names_in(document, "plugin", content.get("plugin")):
        for name in [name for name, node in nodes.items() if "clone" in node]:
            clones[name] = _cloned(document, name, nodes)
    defaults = content.get("defaults")
    device = defaults.get("device", "") if isinstance(defaults, dict) else ""
    for name, node in nodes.items():
        _check(document, f"nodes.{name}", node, device)
    _number(document, nodes)
    return nodes, clones


def names_in(document: PlacedDocument, place: str, given: Any) -> list[str]:
    """Return the names of a list that need not be there. Raises InputError."""
    if not isinstance(given or [], list):
        raise document.wrong(place, f"{shown(given)} is no list of names")
    return [str(each) for each in given or ()]


def _listed(document: PlacedDocument, given: Any) -> dict[str, Values]:
    if isinstance(given, list):
        given = {
            str(each.get("name", "")) if isinstance(each, dict) else str(each): (
                each if isinstance(each, dict) else {}
            )
            for each in given
        }
    if not isinstance(given, dict):
        raise document.wrong("nodes", f"{shown(given)}: nodes are a list of names, or an object")
    for name, own in given.items():
        if not isinstance(own or {}, dict):
            raise document.wrong(f"nodes.{name}", f"{shown(own)} is no object")
    return {str(name): own or {} for name, own in given.items()}


def _in_groups(
    document: PlacedDocument, given: Any, nodes: dict[str, Values]
) -> Iterator[tuple[str, Values]]:
    """Yield what groups give nodes, the innermost groups first; nodes that a group makes are
    added."""
    groups = given or {}
    if not isinstance(groups, dict):
        raise document.wrong("groups", f"{shown(given)}: groups are an object, by their names")
    members: dict[str, list[str]] = {}
    for name, group in groups.items():
        own = {"members": group} if isinstance(group, list) else group or {}
        if not isinstance(own, dict) or not isinstance(own.get("members", []), list):
            raise document.wrong(f"groups.{name}", f"{shown(group)}: a group has a list of members")
        if own.get("type", "node") != "node":
            raise document.wrong(f"groups.{name}.type", f"{shown(own['type'])}: Weft has nodes")
        if own.get("_auto_create"):
            for member in map(str, own.get("members", [])):
                nodes.setdefault(member, {})
        members[str(name)] = [
            found
            for member in map(str, own.get("members", []))
            for found in _meant(document, f"groups.{name}", member, {**nodes, **groups})
        ]
    for name, group in sorted(groups.items(), key=lambda each: _height(each[0], members, ())):
        if not isinstance(group, dict):
            continue
        found = {key: value for key, value in group.items() if key not in _OF_GROUP}
        found |= group.get("node_data") or {}
        for field in found:
            _check_field(document, f"groups.{name}.{field}", field)
        for node in _inside(str(name), members, ()):
            yield node, found


def _meant(document: PlacedDocument, place: str, member: str, known: Values) -> list[str]:
    """Return what a member of a group stands for: a name, names with ``*`` and ``?``, or behind
    ``~`` a regular expression."""
    if member.startswith("~"):
        try:
            expression = re.compile(member[1:])
        except re.error as error:
            raise document.wrong(place, f"{shown(member)}: {error}") from None
        return [name for name in known if expression.fullmatch(name)]
    found = [name for name in known if fnmatchcase(name, member)]
    if not found and not set("*?[") & set(member):
        raise document.wrong(
            place,
            f"there is no node {member!r}{did_you_mean(member, known)}; there are "
            f"{', '.join(known)}",
        )
    return found


def _inside(name: str, members: Mapping[str, list[str]], above: tuple[str, ...]) -> Iterator[str]:
    """Yield the nodes in a group, also those in groups in it."""
    for each in members.get(name, ()) if name not in above else ():
        if each in members:
            yield from _inside(each, members, (*above, name))
        else:
            yield each


def _height(name: str, members: Mapping[str, list[str]], above: tuple[str, ...]) -> int:
    inner = [each for each in members.get(name, ()) if each in members and each not in above]
    return 1 + max((_height(each, members, (*above, name)) for each in inner), default=0)


def _cloned(document: PlacedDocument, name: str, nodes: dict[str, Values]) -> list[str]:
    """Put a node's clones in its place, and return their names."""
    node = nodes.pop(name)
    asked = {"start": 1, "step": 1, **(node["clone"] if isinstance(node["clone"], dict) else {})}
    for field in ("count", "start", "step"):
        value = asked.get(field)
        if type(value) is not int or not 0 < value <= MOST_CLONES:
            raise document.wrong(
                f"nodes.{name}.clone",
                f"{field} {shown(value)}: write clone.{field}: a number, 1 to {MOST_CLONES}",
            )
    names = []
    numbers = range(asked["start"], asked["start"] + asked["count"] * asked["step"], asked["step"])
    for number in numbers:
        clone = {key: value for key, value in node.items() if key != "clone"}
        if type(clone.get("id")) is int:
            clone["id"] += number - 1
        names.append(f"{name[:13]}-{number:02d}")
        nodes[names[-1]] = {**clone, **nodes.get(names[-1], {})}
    return names


def _check(document: PlacedDocument, place: str, node: Values, default: str) -> None:
    device = node.get("device", default)
    if device != "linux":
        raise document.wrong(
            place,
            f"device {shown(device)}: Weft has hosts, and P4 switches in place of bridges, "
            "both of device linux, and runs no network operating systems; defaults.device says "
            "what a node is that does not say it",
        )
    for field in node:
        _check_field(document, f"{place}.{field}", field)
    if "clone" in node:
        raise document.wrong(f"{place}.clone", f"write plugin: [ {CLONES} ] for clones")
    if (role := node.get("role", "host")) not in ("host", "bridge"):
        raise document.wrong(
            f"{place}.role", f"{shown(role)}: a node is a host, or with role bridge a P4 switch"
        )


def _check_field(document: PlacedDocument, place: str, field: str) -> None:
    known = (*NODE_FIELDS, *NODE_LEFT_OUT)
    if field not in known:
        raise document.wrong(
            place,
            f"means nothing here{did_you_mean(field, known)}; there may be {', '.join(known)}",
        )


def _number(document: PlacedDocument, nodes: dict[str, Values]) -> None:
    """Give each node that has none the next free number."""
    used: dict[int, str] = {}
    for name, node in nodes.items():
        if (number := node.get("id")) is None:
            continue
        if type(number) is not int or number < 1:
            raise document.wrong(f"nodes.{name}.id", f"{shown(number)} is no number above 0")
        if (other := used.setdefault(number, name)) != name:
            raise document.wrong(f"nodes.{name}.id", f"{number} is that of {other} already")
    free = (number for number in range(1, len(nodes) + len(used) + 1) if number not in used)
    for name, node in nodes.items():
        nodes[name] = node if "id" in node else {**node, "id": next(free)}
