"""The externs of psa.p4 as primitives and extern instances of BMv2's psa_switch.

PSA specification, section "PSA Externs"; psa_switch has classes for some of them, and takes the
primitives of simple_switch for the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.architectures.psa.deparsers import EMIT
from weft.switch.compiler.architectures.psa.direct_objects import USES
from weft.switch.compiler.lower.expressions import ExpressionLowering, Numbers
from weft.switch.compiler.lower.externs import ExternCall, ExternLowering, ExternObject
from weft.switch.compiler.lower.lists import emitted_headers
from weft.switch.compiler.lower.registers import cell_width, fits_cell, packed, unpacked
from weft.switch.compiler.lower.storage import (
    Composite,
    ExternInstance,
    FieldPlace,
    LoweredValue,
    StructPlace,
)
from weft.switch.compiler.types import (
    BitType,
    Type,
    scalar_width,
)

PORT_RECIRCULATE = 0xFFFFFFFA
ALGORITHMS = {
    "IDENTITY": "identity", "CRC32": "crc32", "CRC32_CUSTOM": "crc32_custom", "CRC16": "crc16",
    "CRC16_CUSTOM": "crc16_custom", "ONES_COMPLEMENT16": "csum16", "TARGET_DEFAULT": "crc16",
}  # fmt: skip
"""PSA_HashAlgorithm_t in BMv2's words; the target's default is that of p4c."""
_GREEN = 1
"""PSA_MeterColor_t's, which a packet without a colour is taken to have."""
_UNITS = ("packets", "bytes", "packets_and_bytes")


@dataclass
class Algorithm(ir.Object):
    """A hash or checksum has an algorithm, by its name in BMv2."""

    algorithm: str = ""
    parts: list[tuple[ir.LoweredExpression, int]] = field(default_factory=list)
    """What a checksum was updated with since it was cleared, at one place of the program."""
    place: list[ir.Code] | None = None
    """The code that has these updates in it."""


@dataclass
class Bounds(ir.Object):
    """A source of random numbers has a least and a greatest one."""

    low: int = 0
    high: int = 0


DirectCall = tuple[ir.Resource, ExternCall]
"""A call of a method of what has to belong to a table."""


class PortableExterns(ExternLowering):
    """The lowering of PSA's externs. `instances` is the JSON's list of extern instances, and
    `direct_calls` those of direct counters and meters."""

    in_parsers = ExternLowering.in_parsers | {
        "Hash", "Checksum", "InternetChecksum", "assert", "assume", "psa_clone_i2e",
    }  # fmt: skip
    table_objects = frozenset({"psa_implementation", "psa_direct_counter", "psa_direct_meter"})

    def __init__(
        self,
        expressions: ExpressionLowering,
        instances: list[dict[str, object]],
        direct_calls: list[DirectCall],
    ) -> None:
        super().__init__(expressions)
        self.instances = instances
        self.direct_calls = direct_calls
        self.profile_actions: dict[str, set[str]] = {}
        do = self.writer.do
        self.functions |= dict.fromkeys(
            ("assert", "assume"),
            lambda call: do(call.target.name, arithmetic.number(call.truth("check"))),
        )
        self.questions = {
            "psa_clone_i2e": lambda call: _told(call, "istd", "clone"),
            "psa_resubmit": lambda call: arithmetic.both(
                _kept(call), _told(call, "istd", "resubmit")
            ),
            "psa_normal": lambda call: arithmetic.both(
                _kept(call), arithmetic.negate(_told(call, "istd", "resubmit"))
            ),
            "psa_clone_e2e": lambda call: _told(call, "istd", "clone"),
            "psa_recirculate": lambda call: arithmetic.both(
                _kept(call),
                ir.OperatorCall(
                    "==", _member(call, "edstd", "egress_port"), ir.Number(PORT_RECIRCULATE)
                ),
            ),
        }
        self.methods |= {
            ("packet_out", "emit"): self._emit,
            ("Counter", "count"): lambda call, base: do(
                "_Counter_count", ir.Reference("extern", base.name), call.number("index")
            ),
            ("DirectCounter", "count"): self._direct_call,
            ("Meter", "execute"): self._execute,
            ("DirectMeter", "execute"): self._read_meter,
            ("Register", "read"): self._read_register,
            ("Register", "write"): self._write_register,
            ("Random", "read"): self._random,
            ("Hash", "get_hash"): self._hash,
            ("Digest", "pack"): self._pack,
            ("Checksum", "clear"): self._clear,
            ("Checksum", "update"): self._update,
            ("Checksum", "get"): self._checksum,
            **{
                ("InternetChecksum", name): self._internet_checksum
                for name in ("clear", "add", "subtract", "get", "get_state", "set_state")
            },
        }  # fmt: skip
        self.objects |= {
            "PacketReplicationEngine": lambda made: ir.Object(*made.common),
            "BufferingQueueingEngine": lambda made: ir.Object(*made.common),
            "Counter": self._counter,
            "DirectCounter": lambda made: self._direct(
                ir.LoweredCounter, made, self.program.counters
            ),
            "Meter": self._meter,
            "DirectMeter": lambda made: self._direct(ir.LoweredMeter, made, self.program.meters),
            "Register": self._register,
            "Random": self._bounds,
            "Hash": lambda made: self._algorithm(made, "algo"),
            "Checksum": lambda made: self._algorithm(made, "hash"),
            "InternetChecksum": self._internet,
            "Digest": self._digest,
            "ActionProfile": lambda made: self._profile(made, None),
            "ActionSelector": lambda made: self._profile(
                made, ALGORITHMS[made.enum_member("algo")]
            ),
        }

    def check_table(self, node: syntax.TableDeclaration, table: ir.LoweredTable) -> None:
        """Report keys of kind selector without an action selector, and what a table with
        an action profile or selector cannot have (sections "Action Profile", "Action Selector")."""
        if table.profile is not None:
            self._check_profile(table, table.profile)
        if table.profile is None or table.profile.algorithm is None:
            for key in node.keys:
                self.shared.reporter.error_if(
                    key.match_kind == "selector",
                    key.span,
                    f"a key of kind selector, but table '{node.name}' has no ActionSelector: "
                    "psa_implementation names one",
                )

    def has_timeouts(self, properties: Mapping[str, syntax.Property]) -> bool:
        """Return whether a table with these properties lets entries age."""
        found = properties.get("psa_idle_timeout")
        value = found and found.value
        return isinstance(value, syntax.MemberAccess) and value.name == "NOTIFY_CONTROL"

    def _function(self, call: ExternCall) -> LoweredValue:
        question = self.questions.get(call.target.name)
        return super()._function(call) if question is None else question(call)

    def _emit(self, call: ExternCall, base: ExternInstance) -> None:
        argument = call.target.argument("hdr")
        value = self.expressions.value(argument, call.env)
        for name in emitted_headers(self.writer, value, argument):
            self.writer.do(EMIT, ir.Reference("header", name))

    # Objects

    def _instance(self, made: ExternObject, kind: str, **attributes: int | str) -> None:
        """Add an instance of one of psa_switch's classes to the JSON."""
        name, _, _ = made.common
        self.instances.append(
            {
                "name": name, "id": len(self.instances), "type": kind,
                "attribute_values": [
                    {"name": key, "type": "string", "value": value} if isinstance(value, str)
                    else {"name": key, "type": "hexstr", "value": hex(value)}
                    for key, value in attributes.items()
                ],
            }
        )  # fmt: skip

    def _sized(self, made: ExternObject, name: str) -> int:
        return self.expressions.known_size(made.target.argument(name), made.env, 0)

    def _counter(self, made: ExternObject) -> ir.Object:
        size, unit = self._sized(made, "n_counters"), made.enum_member("type").lower()
        counter = ir.LoweredCounter(*made.common, size, unit)
        self.program.counters.append(counter)
        self._instance(made, "Counter", n_counters=size, type=_UNITS.index(unit))
        return counter

    def _meter(self, made: ExternObject) -> ir.Object:
        size, unit = self._sized(made, "n_meters"), made.enum_member("type").lower()
        meter = ir.LoweredMeter(*made.common, size, unit)
        self.program.meters.append(meter)
        self._instance(made, "Meter", is_direct=0, n_meters=size, rate_count=2, type=unit)
        return meter

    def _check_profile(self, table: ir.LoweredTable, profile: ir.ActionProfile) -> None:
        error_if, span = self.shared.reporter.error_if, table.span
        names = {choice.action.name for choice in table.actions if not choice.implicit}
        others = self.profile_actions.setdefault(profile.name, names)
        error_if(
            names != others,
            span,
            f"tables that share '{profile.name}' must have the same actions: "
            f"{', '.join(sorted(others))}",
        )
        error_if(
            table.default_action is not None and table.default_action.name != "NoAction",
            span,
            f"table '{table.name}' has its actions in '{profile.name}', so its default action is "
            "NoAction",
        )
        error_if(
            table.support_timeout,
            span,
            f"not supported: psa_idle_timeout of table '{table.name}', whose actions are in "
            f"'{profile.name}'",
        )

    def _direct(self, make: Any, made: ExternObject, known: list[Any]) -> ir.Object:
        known.append(make(*made.common, 0, made.enum_member("type").lower(), True))
        item: ir.Object = known[-1]
        return item

    def _register(self, made: ExternObject) -> ir.Object:
        content, names = made.kind.arguments[0], [item.name for item in made.target.parameters]
        register = ir.LoweredRegister(*made.common, made.size(), content)
        made.fail_if(
            not fits_cell(content),
            f"not supported: a register of {content}; it holds numbers, bool, enums, and structs, "
            "tuples and arrays of those",
        )
        made.fail_if(
            "initial_value" in names
            and self.expressions.known(made.target.argument("initial_value"), made.env),
            "not supported: a register's initial value other than 0 (BMv2)",
        )
        self.program.registers.append(register)
        return register

    def _bounds(self, made: ExternObject) -> ir.Object:
        low, high = (
            self.expressions.known(made.target.argument(name), made.env) for name in ("min", "max")
        )
        made.fail_if(low > high, f"the least random number, {low}, is greater than {high}")
        return Bounds(*made.common, low, high)

    def _algorithm(self, made: ExternObject, name: str) -> ir.Object:
        found = ALGORITHMS[made.enum_member(name)]
        self._instance(made, "Hash", algo=found)
        return Algorithm(*made.common, found)

    def _internet(self, made: ExternObject) -> ir.Object:
        self._instance(made, "InternetChecksum")
        return ir.Object(*made.common)

    def _digest(self, made: ExternObject) -> ir.Object:
        digests = self.program.digests
        digests.append(ir.LoweredDigest(*made.common, len(digests) + 1, made.kind.arguments[0]))
        return digests[-1]

    def _profile(self, made: ExternObject, algorithm: str | None) -> ir.Object:
        profile = ir.ActionProfile(*made.common, made.size(), algorithm)
        self.program.profiles.append(profile)
        return profile

    # Methods

    def _result(self, call: ExternCall) -> FieldPlace:
        """Return a new field for what a call returns."""
        kind: Type = call.target.returns
        call.fail_if(
            scalar_width(kind) is None,
            f"the result of {call.target.name}() must be one value with a width, not {kind}",
        )
        return self.writer.temporary_field(kind)

    def _uncoloured(self, call: ExternCall) -> None:
        """Report an error for a packet that has a colour: BMv2's meters do not know of it."""
        names = [item.name for item in call.target.parameters]
        call.fail_if(
            "color" in names and call.number("color") != ir.Number(_GREEN),
            "not supported: execute() of a packet that has a colour already (BMv2)",
        )

    def _execute(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        self._uncoloured(call)
        index, result = call.number("index"), self._result(call)
        self.writer.do("_Meter_execute", ir.Reference("extern", base.name), index, result.field)
        return result

    def _direct_call(self, call: ExternCall, base: ExternInstance) -> None:
        """Report an error unless the call is in an action, whose table's the object is."""
        method = f"{call.target.name}() of '{base.name}'"
        context = self.writer.context
        call.fail_if(context != "action", f"{method} can only be called in an action of its table")
        assert isinstance(base.object, ir.Resource)
        self.direct_calls.append((base.object, call))
        self.writer.do(USES, ir.Reference(USES, base.name))

    def _read_meter(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        """Return the colour of a direct meter: BMv2's are green 0, yellow 1, red 2."""
        self._direct_call(call, base)
        self._uncoloured(call)
        meter = base.object
        assert isinstance(meter, ir.LoweredMeter)
        if meter.result is None:
            meter.result = self._result(call).field
        colours = ((0, 1), (1, 2))
        colour: ir.LoweredExpression = ir.Number(0)
        for ours, theirs in colours:
            is_it = ir.OperatorCall("==", meter.result, ir.Number(ours))
            colour = ir.Choice(is_it, ir.Number(theirs), colour)
        return colour

    def _read_register(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        kind, index = call.target.returns, call.number("index")
        one = scalar_width(kind) is not None
        place = self.writer.temporary_field(kind if one else BitType(cell_width(kind)), "cell")
        array = ir.Reference("register_array", base.name)
        self.writer.do("register_read", place.field, array, index)
        return place if one else unpacked(place.field, kind)

    def _write_register(self, call: ExternCall, base: ExternInstance) -> None:
        index = call.number("index")
        items = self.expressions.numbers(call.target.argument("value"), call.env)
        number = items[0][0] if len(items) == 1 else packed(items)
        array = ir.Reference("register_array", base.name)
        self.writer.do("register_write", array, index, number)

    def _random(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        bounds, result = base.object, self._result(call)
        assert isinstance(bounds, Bounds)
        self.writer.do(
            "modify_field_rng_uniform", result.field, ir.Number(bounds.low), ir.Number(bounds.high)
        )
        return result

    def _fields(self, call: ExternCall, name: str = "data") -> Numbers:
        """Return the numbers of an argument, each in a field."""
        node = call.target.argument(name)
        return [
            (item, width)
            if isinstance(item, ir.HeaderField)
            else (self.expressions.stored_number(item, width, node), width)
            for item, width in self.expressions.numbers(node, call.env)
        ]

    def _hash(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        fields = _listed(self._fields(call))
        extern, result = ir.Reference("extern", base.name), self._result(call)
        if len(call.target.parameters) == 1:
            self.writer.do("_Hash_get_hash", extern, result.field, fields)
        else:
            self.writer.do(
                "_Hash_get_hash_mod", extern, result.field, call.number("base"), fields,
                call.number("max"),
            )  # fmt: skip
        return result

    def _internet_checksum(self, call: ExternCall, base: ExternInstance) -> LoweredValue | None:
        operation, extern = (
            f"_InternetChecksum_{call.target.name}",
            ir.Reference("extern", base.name),
        )
        match call.target.name:
            case "clear":
                self.writer.do(operation, extern)
            case "set_state":
                node = call.target.argument("checksum_state")
                state = self.expressions.stored_number(call.number("checksum_state"), 16, node)
                self.writer.do(operation, extern, state)
            case "add" | "subtract":
                fields = self._fields(call)
                bits = sum(width for _, width in fields)
                call.fail_if(
                    bits % 16, f"{call.target.name}() takes whole words of 16 bits, not {bits} bits"
                )
                self.writer.do(operation, extern, _listed(fields))
            case _:
                result = self._result(call)
                self.writer.do(operation, extern, result.field)
                return result
        return None

    # Checksums of other algorithms: hashes of all that they were updated with

    def _clear(self, call: ExternCall, base: ExternInstance) -> None:
        checksum = base.object
        assert isinstance(checksum, Algorithm)
        checksum.parts, checksum.place = [], None

    def _update(self, call: ExternCall, base: ExternInstance) -> None:
        checksum, node = base.object, call.target.argument("data")
        assert isinstance(checksum, Algorithm)
        items = self.expressions.numbers(node, call.env)
        self._stay(call, checksum)
        checksum.parts += [
            (self.expressions.stored_number(item, width, node), width) for item, width in items
        ]

    def _checksum(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        checksum = base.object
        assert isinstance(checksum, Algorithm)
        call.fail_if(not checksum.parts, "get() of a checksum that nothing was added to")
        self._stay(call, checksum)
        result = self._result(call)
        self.writer.do(
            "_Hash_get_hash", ir.Reference("extern", base.name), result.field,
            _listed(checksum.parts),
        )  # fmt: skip
        return result

    def _stay(self, call: ExternCall, checksum: Algorithm) -> None:
        """Report an error where a checksum is used at a place that other packets come to than to
        its updates before."""
        if checksum.place is None:
            checksum.place = self.writer.code
        call.fail_if(
            checksum.place is not self.writer.code,
            "not supported: a Checksum whose clear(), update() and get() stand in different "
            "blocks; InternetChecksum has a state",
        )

    def _pack(self, call: ExternCall, base: ExternInstance) -> None:
        digest, node = base.object, call.target.argument("data")
        assert isinstance(digest, ir.LoweredDigest)
        items = self.expressions.numbers(node, call.env)
        if not digest.fields:
            digest.fields = [
                self.writer.temporary_field(BitType(width), "digest").field for _, width in items
            ]
        for place, (item, width) in zip(digest.fields, items, strict=True):
            target = FieldPlace(place.header, place.name, BitType(width))
            self.places.assign(target, item, call.node)
        self.writer.do("generate_digest", ir.Number(0), ir.Number(digest.id))


def _listed(items: Numbers) -> ir.FieldList:
    return ir.FieldList(tuple(item for item, _ in items))


def _member(call: ExternCall, argument: str, name: str) -> ir.LoweredExpression:
    """Return a field of an argument that is a struct."""
    node = call.target.argument(argument)
    value = call.expressions.value(node, call.env)
    assert isinstance(value, (StructPlace, Composite))
    return call.expressions.places.expression_of(value.members[name], node)


def _told(call: ExternCall, argument: str, name: str) -> ir.LoweredExpression:
    return arithmetic.truth(_member(call, argument, name))


def _kept(call: ExternCall) -> ir.LoweredExpression:
    """Return whether a packet is not dropped."""
    return arithmetic.negate(_told(call, "istd", "drop"))
