"""From psa_switch's words to simple_switch's: instances of externs become arrays and fields, and
their methods primitives.

What the methods do: targets/psa_switch/externs of p4lang/behavioral-model.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Json = Any

STATE = "$state"
"""The header with the state of instances that have one for each packet."""
JUMPS = ("_jump", "_jump_if_zero")
_ONES = 0xFFFF
_IN_BITS = {"crc16": 16, "crc16_custom": 16, "csum16": 16, "crc32": 32, "crc32_custom": 32}


def prepare(document: Json) -> None:
    """Put simple_switch's words in place of those of PSA. Raises ValueError, KeyError and the like
    for what is no such document."""
    _Preparation(document).run()


@dataclass
class _Preparation:
    """A document that is being prepared."""

    document: Json
    instances: dict[str, Json] = field(default_factory=dict)
    fields: list[list[Any]] = field(default_factory=list)
    widths: dict[tuple[str, str], int] = field(default_factory=dict)

    def run(self) -> None:
        document = self.document
        self.instances = {item["name"]: item for item in document.get("extern_instances") or ()}
        kinds = {kind["name"]: kind["fields"] for kind in document["header_types"]}
        self.widths = {
            (header["name"], parts[0]): parts[1]
            for header in document["headers"]
            for parts in kinds[header["header_type"]]
            if isinstance(parts[1], int)
        }
        for name, item in self.instances.items():
            make = {"Counter": self._counter, "Meter": self._meter}.get(item["type"])
            if make is not None:
                make(name, {one["name"]: one["value"] for one in item["attribute_values"]})
            elif item["type"] == "InternetChecksum":
                self._state(f"{name}.sum", 16)
            elif item["type"] not in ("Hash", "DirectCounter"):
                raise ValueError(f"psa_switch has no extern {item['type']!r}, as {name!r} is")
        for item in (*document["actions"], *document["deparsers"]):
            item["primitives"] = self._body(item.get("primitives") or [])
        for parser in document["parsers"]:
            for state in parser["parse_states"]:
                state["parser_ops"] = [
                    part for one in state["parser_ops"] for part in self._parser_operation(one)
                ]
        document["extern_instances"] = []
        if self.fields:
            document["header_types"].append({"name": STATE, "id": -1, "fields": self.fields})
            document["headers"].append(
                {"name": STATE, "id": -1, "header_type": STATE, "metadata": True}
            )

    # Instances

    def _counter(self, name: str, attributes: Json) -> None:
        """Make an array of a counter, if the document has none for it."""
        arrays = self.document.setdefault("counter_arrays", [])
        if all(one["name"] != name for one in arrays):
            arrays.append({"name": name, "size": number(attributes["n_counters"])})

    def _meter(self, name: str, attributes: Json) -> None:
        arrays = self.document.setdefault("meter_arrays", [])
        if all(one["name"] != name for one in arrays):
            size, kind = number(attributes["n_meters"]), attributes["type"]
            arrays.append({"name": name, "size": size, "type": kind, "rate_count": 2})

    def _state(self, name: str, width: int) -> Json:
        """Add a field that is 0 when a packet begins its way; return it."""
        self.fields.append([name, width, False])
        self.widths[STATE, name] = width
        return {"type": "field", "value": [STATE, name]}

    def _calculation(self, algorithm: str, inputs: list[Json]) -> Json:
        known = self.document.setdefault("calculations", [])
        name = f"$hash_{len(known)}"
        known.append({"name": name, "id": len(known), "algo": algorithm, "input": inputs})
        return {"type": "calculation", "value": name}

    # Code

    def _body(self, primitives: list[Json]) -> list[Json]:
        """Return the primitives of an action, with jumps to where their targets have come."""
        parts = [list(self._primitive(node)) for node in primitives]
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + len(part))
        for node in primitives:
            if node["op"] in JUMPS and starts[-1] != len(primitives):
                target = node["parameters"][-1]
                target["value"] = hex(starts[number(target["value"])])
        return [node for part in parts for node in part]

    def _parser_operation(self, node: Json) -> list[Json]:
        if node["op"] != "primitive":
            return [node]
        return [
            {"op": "primitive", "parameters": [inner]}
            for one in node["parameters"]
            for inner in self._primitive(one)
        ]

    def _primitive(self, node: Json) -> Iterator[Json]:
        """Yield what stands for a primitive in simple_switch's words."""
        name, parameters = node["op"], node["parameters"]
        extern, _, _ = name.removeprefix("_").partition("_")
        if not name.startswith("_") or name in JUMPS:
            if name == "generate_digest" and len(parameters) == 1:  # as p4c has it
                node = {**node, "parameters": [_constant(0), *parameters]}
            yield node
            return
        make: Callable[..., Iterator[Json]] | None = getattr(self, f"do_{name[1:]}", None)
        if make is None:
            raise ValueError(f"psa_switch has no primitive {name!r}")
        instance = self.instances.get(parameters[0]["value"])
        if instance is None or instance["type"] != extern:
            raise ValueError(f"{name!r} is of no extern: {parameters[0]['value']!r}")
        for made in make(instance, *parameters[1:]):
            yield {
                **made,
                **({"source_info": node["source_info"]} if "source_info" in node else {}),
            }

    def do_Counter_count(self, instance: Json, index: Json) -> Iterator[Json]:
        yield _do("count", {"type": "counter_array", "value": instance["name"]}, index)

    def do_Meter_execute(self, instance: Json, index: Json, target: Json) -> Iterator[Json]:
        """Simple_switch's colours are green 0, yellow 1, red 2; PSA's are red 0, green 1,
        yellow 2."""
        colour = self._state(f"{instance['name']}.colour.{len(self.fields)}", 2)
        yield _assign(colour, _constant(2))
        meter = {"type": "meter_array", "value": instance["name"]}
        yield _do("execute_meter", meter, index, colour)
        green, yellow = (_operation("==", colour, _constant(one)) for one in (0, 1))
        worse = _expression("?", _constant(2), _constant(0), cond=yellow)
        yield _assign(target, _expression("?", _constant(1), worse, cond=green))

    def do_Hash_get_hash(self, instance: Json, target: Json, fields: Json) -> Iterator[Json]:
        yield from self._hashed(instance, target, _constant(0), fields, None)

    def do_Hash_get_hash_mod(
        self, instance: Json, target: Json, base: Json, fields: Json, size: Json
    ) -> Iterator[Json]:
        yield from self._hashed(instance, target, base, fields, size)

    def _hashed(
        self, instance: Json, target: Json, base: Json, fields: Json, size: Json
    ) -> Iterator[Json]:
        (algorithm,) = (one["value"] for one in instance["attribute_values"])
        calculation = self._calculation(algorithm, fields["value"])
        whole = _constant(1 << _IN_BITS.get(algorithm, 64))
        operation = "modify_field_with_hash_based_offset"
        yield _do(operation, target, base, calculation, whole if size is None else size)

    def _sum(self, instance: Json) -> Json:
        return {"type": "field", "value": [STATE, f"{instance['name']}.sum"]}

    def _added(self, instance: Json, fields: list[Json]) -> Iterator[Json]:
        """Add words of 16 bits: the checksum of the sum and all of them is the new sum's
        complement."""
        total = self._sum(instance)
        calculation = self._calculation("csum16", [total, *fields])
        whole = _constant(_ONES + 1)
        operation = "modify_field_with_hash_based_offset"
        yield _do(operation, total, _constant(0), calculation, whole)
        yield _assign(total, _operation("^", total, _constant(_ONES)))

    def do_InternetChecksum_clear(self, instance: Json) -> Iterator[Json]:
        yield _assign(self._sum(instance), _constant(0))

    def do_InternetChecksum_add(self, instance: Json, fields: Json) -> Iterator[Json]:
        yield from self._added(instance, fields["value"])

    def do_InternetChecksum_subtract(self, instance: Json, fields: Json) -> Iterator[Json]:
        """Add the complement of each word."""
        inverted = []
        for one in fields["value"]:
            width = self.widths[tuple(one["value"])]
            inverse = self._state(f"{instance['name']}.inverse.{len(self.fields)}", width)
            yield _assign(inverse, _operation("^", one, _constant((1 << width) - 1)))
            inverted.append(inverse)
        yield from self._added(instance, inverted)

    def do_InternetChecksum_get(self, instance: Json, target: Json) -> Iterator[Json]:
        yield _assign(target, _operation("^", self._sum(instance), _constant(_ONES)))

    def do_InternetChecksum_get_verify(
        self, instance: Json, target: Json, other: Json
    ) -> Iterator[Json]:
        is_same = _operation("==", _operation("^", self._sum(instance), _constant(_ONES)), other)
        yield _assign(target, _expression("?", _constant(1), _constant(0), cond=is_same))

    def do_InternetChecksum_get_state(self, instance: Json, target: Json) -> Iterator[Json]:
        yield _assign(target, self._sum(instance))

    def do_InternetChecksum_set_state(self, instance: Json, source: Json) -> Iterator[Json]:
        yield _assign(self._sum(instance), source)


def number(value: int | str) -> int:
    """Return a number of the document, which may be written in hexadecimal."""
    return value if isinstance(value, int) else int(value, 16)


def _do(operation: str, *parameters: Json) -> Json:
    return {"op": operation, "parameters": list(parameters)}


def _constant(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def _expression(operator: str, left: Json, right: Json, **more: Json) -> Json:
    content = {"op": operator, "left": left, "right": right, **more}
    return {"type": "expression", "value": content}


def _operation(operator: str, left: Json, right: Json) -> Json:
    return _expression(operator, left, right)


def _assign(target: Json, value: Json) -> Json:
    """Return an assignment. The value of an expression stands in one more."""
    if value["type"] == "expression":
        value = {"type": "expression", "value": value}
    return _do("assign", target, value)
