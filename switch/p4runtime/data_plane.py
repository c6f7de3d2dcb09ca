"""What a BMv2 JSON says of the objects that a P4Info names: which there are, and their widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.switch.p4runtime.refusals import invalid

_NAMED = ("counter_arrays", "meter_arrays", "register_arrays", "learn_lists", "parse_vsets")


class DataPlane:
    """The widths of a program's key fields, parameters and headers.

    Raises Refusal (INVALID_ARGUMENT) for what is not BMv2 JSON; the engine checks the rest.
    """

    def __init__(self, program: Mapping[str, Any]) -> None:
        try:
            self._headers = {
                kind["name"]: [(str(field[0]), field[1]) for field in kind["fields"]]
                for kind in program.get("header_types", [])
            }
            types = {one["name"]: one["header_type"] for one in program.get("headers", [])}
            self._tables = {
                table["name"]: [
                    1 if key["match_type"] == "valid" else self._width(types, key["target"])
                    for key in table.get("key", [])
                ]
                for pipeline in program["pipelines"]
                for table in pipeline["tables"]
            }
            self._actions = {
                action["name"]: [data["bitwidth"] for data in action["runtime_data"]]
                for action in program.get("actions", [])
            }
            profiles = [
                profile
                for pipeline in program["pipelines"]
                for profile in pipeline.get("action_profiles", [])
            ]
            others = [program.get(kind, []) for kind in _NAMED]
            self._others = {str(one["name"]) for some in (profiles, *others) for one in some}
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise invalid("p4_device_config: not BMv2 JSON, as it has no tables") from error

    def _width(self, types: Mapping[str, str], target: Any) -> int:
        header, field = target
        fields = self._headers.get(types.get(header, ""), [])
        widths = (width for name, width in fields if name == field and isinstance(width, int))
        return next(widths, 0)

    def key_fields(self, table: str) -> int | None:
        """How many fields a table's key has, None if there is no such table."""
        return len(self._tables[table]) if table in self._tables else None

    def params(self, action: str) -> int | None:
        """How many parameters an action has, None if there is no such action."""
        return len(self._actions[action]) if action in self._actions else None

    def knows(self, name: str) -> bool:
        """Whether there is a table, action, profile, counter, meter, register, digest or value set
        of that name."""
        return name in self._tables or name in self._actions or name in self._others

    def key_width(self, table: str, position: int) -> int:
        """Bits of a key field, 0 if unknown."""
        return _at(self._tables.get(table, ()), position)

    def param_width(self, action: str, position: int) -> int:
        """Bits of an action's parameter, 0 if unknown."""
        return _at(self._actions.get(action, ()), position)

    def header_widths(self, names: Sequence[str]) -> list[int]:
        """Bits of the fields in the header type that has fields of just these names, 0 each if
        unknown."""
        for fields in self._headers.values():
            known = [(name, width) for name, width in fields if not name.startswith("_padding")]
            if [name for name, _ in known] == list(names):
                widths = [width for _, width in known]
                return [_at(widths, position) for position in range(len(names))]
        return [0] * len(names)


def _at(widths: Sequence[Any], position: int) -> int:
    if position < len(widths) and isinstance(widths[position], int):
        return min(max(int(widths[position]), 0), 1 << 16)
    return 0
