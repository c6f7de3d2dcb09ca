"""Which of the objects that a P4Info names are in a BMv2 JSON, and how wide they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.switch.p4runtime.refusals import invalid

_NAMED = ("counter_arrays", "meter_arrays", "register_arrays", "learn_lists", "parse_vsets")


class DataPlane:
    """The names of a program's objects, and the widths of its key fields, parameters and
    headers."""

    tables: Mapping[str, Sequence[Any]]
    """The widths of each table's key fields."""
    actions: Mapping[str, Sequence[Any]]
    """The widths of each action's parameters."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        """Raise Refusal (INVALID_ARGUMENT) for what is not BMv2 JSON; the engine checks the
        rest."""
        try:
            self._headers = {
                kind["name"]: [(str(field[0]), field[1]) for field in kind["fields"]]
                for kind in program.get("header_types", [])
            }
            types = {one["name"]: one["header_type"] for one in program.get("headers", [])}
            self.tables = {
                table["name"]: [
                    1 if key["match_type"] == "valid" else self._width(types, key["target"])
                    for key in table.get("key", [])
                ]
                for pipeline in program["pipelines"]
                for table in pipeline["tables"]
            }
            self.actions = {
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

    def knows(self, name: str) -> bool:
        """Return whether a table, action, profile, counter, meter, register, digest or value set
        has that name."""
        return name in self.tables or name in self.actions or name in self._others

    def header_widths(self, names: Sequence[str]) -> list[int]:
        """Return the bits of the fields in the header type that has fields of just these names, or
        0 for each of them if there is none."""
        for fields in self._headers.values():
            known = [(name, width) for name, width in fields if not name.startswith("_padding")]
            if [name for name, _ in known] == list(names):
                widths = [width for _, width in known]
                return [width_at(widths, position) for position in range(len(names))]
        return [0] * len(names)


def width_at(widths: Sequence[Any], position: int) -> int:
    """Return one of some widths in bits, 0 if it is unknown."""
    if position < len(widths) and isinstance(widths[position], int):
        return min(max(int(widths[position]), 0), 1 << 16)
    return 0
