"""A program as Python source: one function per parser, control, action, calculation, deparser.

The last function, ``pipeline(address, operation, switch, packet, other)``, is what the engine
calls: ``address`` is that of the context array, ``operation`` one of ``RUN_INGRESS`` and so on.
"""

import json
import re
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.architectures.architecture import LEARN
from weft.switch.engine.codegen.calculations import BYTES_START, Calculations
from weft.switch.engine.codegen.expressions import Translator
from weft.switch.engine.codegen.framing import ParserSource, call_of, write_deparser
from weft.switch.engine.codegen.notices import (
    MORE_NAMES,
    more_imports,
    write_hit,
    write_learning,
)
from weft.switch.engine.codegen.operations import compare
from weft.switch.engine.codegen.primitives import Primitives
from weft.switch.engine.codegen.rolling import roll
from weft.switch.engine.codegen.source import (
    Names,
    Writer,
    field_constants,
    identifier,
    remark,
    topological,
    wide_names,
)
from weft.switch.engine.codegen.values import MOST64, Value, store_line
from weft.switch.engine.dataplane.image_layout import FIRST_TABLE
from weft.switch.engine.dataplane.layout import DROP_PORT, HEAD_PLACES
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import Program, ProgramAction, Table

Json = Any

ARGUMENTS = "phv, image, state, counters, registers, scratch, keys, words, frame"

NODE_LIMIT = 65536
"""How often a control whose graph has a cycle may start over."""

HEADER = """from weft.switch.engine.dataplane.image_layout import (
    ActionRecord, Directory, EntryRecord, GROUP,
)
from weft.switch.engine.dataplane.layout import (
    CLEAR_METADATA, Context, DROP_PORT, KEEP_FIELDS, Packet, RUN_DEPARSER, RUN_EGRESS, RUN_INGRESS,
    RUN_PARSER, SCRATCH_WORDS, SwitchRecord,
)
from weft.switch.engine.native.compiled import (
    address_of, divide64, inner as jit, int64_view, less64, load64, modulo64, shift_left,
    shift_right, shift_right64, store64, uint8_view, unsigned64, word64,
)
from weft.switch.engine.dataplane.hashes import (
    crc16, crc32, crcCCITT, crc_bits, crc_set, csum16, hash_ex, identity, xor16, xor32, xxh64,
)
from weft.switch.engine.dataplane.runtime import (
    choose, lookup_word, lookup_words, put_bits, put_varbit, random_between, read_varbit,
    write_varbit,
)
""" + "".join(f"{name.upper()} = {place}\n" for name, place in HEAD_PLACES.items())


def generate(program: Program, drop_port: int = DROP_PORT) -> str:
    """Return the source of a whole program. Raises ``ProgramError`` for what is not supported."""
    try:
        return Generator(program, drop_port).module()
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise ProgramError(f"the program is not complete BMv2 JSON: {error!r}") from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ProgramError(f"the program is nested too deeply or too large: {error!r}") from None


def _functions(document: Json, part: str, names: tuple[str, ...]) -> list[tuple[Json, str]]:
    """Return the parsers or deparsers of a document, each with the name of its function."""
    given = document[part]
    refuse(
        len(given) < len(names),
        f"the program has {len(given)} {part}: {len(names)} are needed",
        ProgramError,
    )
    return list(zip(given, names, strict=False))


class Generator:
    """The source of one program's module."""

    parser_source: type[ParserSource] = ParserSource

    def __init__(self, program: Program, drop_port: int = DROP_PORT) -> None:
        self.program = program
        self.drop_port = drop_port
        names = Names()
        names.update(re.findall(r"[A-Z][A-Z0-9_]+", HEADER), ("KEY_WORDS",), MORE_NAMES)
        constants = self.constants = field_constants(program, names)
        self.translator = Translator(program, lambda field: constants[field.slot])
        self.calculations = Calculations(program, self.translator, names.unique)
        self.primitives = Primitives(program, self.translator, self.calculations.names)
        self.names = names
        self.calls: dict[int, str] = {}  # action code -> its call
        self.same: dict[str, str] = {}  # actions that do the same share one function
        self.exits: set[int] = set()

    def pipeline(self) -> str:
        """Return the source of the program's entry."""

        def slot(header: str, field: str) -> int:
            return self.program.resolve([header, field]).slot

        return self.program.architecture.pipeline(slot)

    def module(self) -> str:
        """Return the module's source."""
        program = self.program
        head = ['"""Generated from a BMv2 JSON program; do not edit."""\n', HEADER]
        lines = [f"{name} = {slot}" for slot, name in sorted(self.constants.items())]
        head.append(f"KEY_WORDS = {BYTES_START // 8}\n" + "\n".join(lines) + "\n")
        document = program.document
        used = {action.code for table in program.tables.values() for action in table.actions}
        used |= {
            self.by_identifier(node["action_id"]).code
            for pipeline in document["pipelines"]
            for node in pipeline.get("action_calls") or []
        }
        architecture = program.architecture
        parsers = [
            self.parser_source(program, self.translator, self.primitives, *each)
            for each in _functions(document, "parsers", architecture.parsers)
        ]
        # In this order: what comes first gets the names, and what is the same is written once.
        parts = [
            *(
                self.calculations.write(item["name"], item["algo"], item["input"])
                for item in document.get("calculations", [])
            ),
            *(
                self.ipv4_checksum(item)
                for item in document.get("checksums", [])
                if item.get("type") == "ipv4"
            ),
            *(
                self.calculations.write(
                    f"selector {profile.name}", profile.algorithm, list(profile.inputs)
                )
                for profile in program.profiles.values()
                if profile.algorithm is not None
            ),
            *(self.action(action) for action in program.actions if action.code in used),
            *(parser.write() for parser in parsers),
            self.checksums("verify_checksums", "verify"),
            self.checksums("update_checksums", "update"),
            self.control("ingress"),
            self.control("egress"),
            *(
                write_deparser(program, self.translator, self.primitives, *each)
                for each in _functions(document, "deparsers", architecture.deparsers)
            ),
            self.field_lists(),
            write_learning(program, self.translator.name_of),
        ]
        places = {name: slot for slot, name in self.constants.items()}
        rolled = [roll(part, places) for part in parts]
        pipeline = self.pipeline()
        for name in architecture.deparsers:
            pipeline = pipeline.replace(f"{name}(phv, header)", call_of(name, rolled))
        for parser in parsers:
            if parser.needs_words:
                call = f"{parser.function}(phv, data, row.frame, row.frame_length, state, registers"
                pipeline = pipeline.replace(call, f"{call}, row")
        rolled.append(pipeline if program.learn_lists else pipeline.replace(LEARN, ""))
        head.append(wide_names("".join(rolled)) + more_imports(rolled, self.drop_port))
        return "\n\n".join(part.strip("\n") + "\n" for part in [*head, *rolled] if part)

    def action(self, action: ProgramAction) -> str:
        """Return the function of an action."""
        if any(node["op"] == "exit" for node in action.primitives):
            self.exits.add(action.code)
        if not action.primitives:
            self.calls[action.code] = "pass"
            return ""
        bodies = [[node["op"], node["parameters"]] for node in action.primitives]
        content = json.dumps([action.widths, bodies])
        if content in self.same:
            self.calls[action.code] = self.same[content]
            return ""
        # Those of statements outside of actions end in their lines' numbers, which a line put in
        # before them would change, and with them all that calls them.
        name = action.name if "." in action.name else action.name.rstrip("0123456789")
        function = self.names.unique(f"action_{identifier(name)}")
        source, arguments = self.primitives.write_action(action, function)
        self.calls[action.code] = self.same[content] = f"{function}({', '.join(arguments)})"
        return source

    def checksums(self, function: str, purpose: str) -> str:
        """Return the function that verifies or updates all checksums."""
        writer = Writer()
        about = f"{purpose.capitalize()} the checksums."
        with writer.function(f"{function}(phv, scratch, words, frame)", about):
            if purpose == "verify":
                writer.line("phv[CHECKSUM_ERROR] = 0")
            for item in self.program.document.get("checksums", []):
                if item.get(purpose, True):
                    self.checksum(writer, item, purpose)
        return writer.text

    def checksum(self, writer: Writer, item: Json, purpose: str) -> None:
        """Verify or update one checksum. As BMv2, compare all bits of the result."""
        header = self.program.header(item["target"][0])
        field = self.program.resolve(item["target"])
        place = self.translator.name_of(field)
        tests = []
        ipv4 = item.get("type") == "ipv4"
        if not header.metadata and (ipv4 or purpose == "verify"):
            tests.append(f"phv[{self.translator.valid_name(header)}] != 0")
        if item.get("if_cond") is not None:
            tests.append(f"({self.translator.condition(item['if_cond'])})")
        calculation = f"ipv4 {item['name']}" if ipv4 else item["calculation"]
        if calculation not in self.calculations.names:
            raise ProgramError(f"checksum {item.get('name')!r} has no calculation {calculation!r}")
        call = f"{self.calculations.names[calculation]}(phv, scratch, words, frame)"
        fits = self.calculations.bits[calculation] <= field.width
        if field.words > 1:
            value = Value(call, 0, MOST64)
            change = store_line("phv", place, value, field.width, field.signed)
            differs = compare("!=", self.translator.load_field(field), value).source
        else:
            if field.width == 64:
                call = f"word64({call})"
            elif purpose == "update" or fits:
                call = f"{call} & {(1 << field.width) - 1:#x}"
            change, differs = f"phv[{place}] = {call}", f"phv[{place}] != {call}"
        with writer.indented(f"if {' and '.join(tests) or 'True'}:"):
            if purpose == "update":
                writer.line(change)
            else:
                with writer.indented(f"if {differs}:"):
                    writer.line("phv[CHECKSUM_ERROR] = 1")

    def ipv4_checksum(self, item: Json) -> str:
        """Return the calculation of a checksum of type *ipv4*: of its whole header without
        itself."""
        name, own = item["target"]
        inputs = [
            {"type": "hexstr", "value": "0x0", "bitwidth": field.width}
            if field.name == own
            else {"type": "field", "value": [name, field.name]}
            for field in self.program.header(name).fields
        ]
        return self.calculations.write(f"ipv4 {item['name']}", "csum16", inputs)

    def field_lists(self) -> str:
        """Return the functions that keep a field list's fields when metadata is cleared or
        copied."""
        lists = []
        for item in self.program.document.get("field_lists", []):
            slots: list[int] = []
            for element in item["elements"]:
                if element["type"] == "hexstr":
                    continue  # as in BMv2, a constant is copied nowhere
                refuse(
                    element["type"] != "field",
                    f"field list {item['name']!r} has a {element['type']!r}, "
                    "neither a field nor a constant",
                    ProgramError,
                )
                field = self.program.resolve(element["value"])
                slots += range(field.slot, field.slot + field.words)
            lists.append((int(item["id"]), slots))
        metadata = self.program.metadata_slots
        writer = Writer()
        about = "Copy the fields of a field list from another packet."
        with writer.function("keep_fields(phv, source, field_list)", about):
            for identifier_, slots in lists:
                with writer.indented(f"if field_list == {identifier_}:"):
                    writer.extend(f"phv[{slot}] = source[{slot}]" for slot in slots)
        writer.line("", "")
        about = "Set all metadata to 0 but for the fields of a field list."
        with writer.function("clear_metadata(phv, field_list)", about):
            kept = sorted({slot for _, slots in lists for slot in slots})
            writer.extend(f"kept_{slot} = phv[{slot}]" for slot in kept)
            with writer.indented("for slot in range(R_LENGTH):"):
                writer.line("phv[slot] = 0")
            writer.line("phv[PRIORITY] = 0")
            with writer.indented(f"for slot in range({metadata.start}, {metadata.stop}):"):
                writer.line("phv[slot] = 0")
            for identifier_, slots in lists:
                with writer.indented(f"if field_list == {identifier_}:"):
                    writer.extend(f"phv[{slot}] = kept_{slot}" for slot in slots)
        return writer.text

    def control(self, name: str) -> str:
        """Return the function of a pipeline: its nodes in topological order, each run if it is
        next."""
        pipeline = next(
            (item for item in self.program.document["pipelines"] if item["name"] == name), None
        )
        writer = Writer()
        with writer.function(f"{name}({ARGUMENTS})", f"Control {name!r}."):
            writer.line("phv[R_EXIT] = 0")
            if pipeline is None or pipeline["init_table"] is None:
                return writer.text
            nodes: dict[str, Json] = {
                node["name"]: (kind, node)
                for kind in ("tables", "conditionals", "action_calls")
                for node in pipeline.get(kind, [])
            }
            order, cyclic = topological(
                pipeline["init_table"], lambda name: self.following(nodes, name)[::-1]
            )
            numbers: dict[str | None, int] = {node: i for i, node in enumerate([*order, None])}
            writer.line("node = 0")
            if not cyclic:
                self.nodes(writer, order, nodes, numbers)
                return writer.text
            with writer.indented(f"for _ in range({NODE_LIMIT}):"):
                self.nodes(writer, order, nodes, numbers)
                with writer.indented(f"if node == {len(order)}:"):
                    writer.line("break")
        return writer.text

    def following(self, nodes: dict[str, Json], name: str) -> list[str]:
        """Return the nodes that a node may go on to."""
        refuse(
            name not in nodes,
            f"a pipeline goes to a node {name!r} that does not exist",
            ProgramError,
        )
        kind, node = nodes[name]
        match kind:
            case "conditionals":
                found = [node.get("true_next"), node.get("false_next")]
            case "action_calls":
                found = [node.get("next_node")]
            case _:
                table = self.program.tables[name]
                found = [*table.next_nodes.values(), table.miss_next]
        return [item for item in found if item is not None]

    def nodes(
        self,
        writer: Writer,
        order: list[str],
        nodes: dict[str, Json],
        numbers: dict[str | None, int],
    ) -> None:
        """Write a block for each node; it runs if ``node`` is its number, and sets the next one."""
        for position, node_name in enumerate(order):
            kind, node = nodes[node_name]
            with writer.indented(f"if node == {position}:  # {remark(node_name)}"):
                match kind:
                    case "conditionals":
                        yes = numbers[node.get("true_next")]
                        no = numbers[node.get("false_next")]
                        test = self.translator.condition(node["expression"])
                        self.branch(writer, node, test, f"{yes} if {{}} else {no}")
                    case "action_calls":
                        action = self.by_identifier(node["action_id"])
                        refuse(
                            action.widths,
                            f"{node_name!r} calls action {action.name!r}, which has parameters",
                            ProgramError,
                        )
                        writer.line(self.calls[action.code])
                        self.leave_on_exit(writer, (action,))
                        writer.line(f"node = {numbers[node.get('next_node')]}")
                    case _:
                        self.table(writer, self.program.tables[node_name], numbers)

    def branch(self, writer: Writer, node: Json, test: str, following: str) -> None:
        """Go on as a condition says: ``following`` has braces where the test is to stand."""
        writer.line(f"node = {following.format(test)}")

    def by_identifier(self, identifier_: int) -> ProgramAction:
        """Return an action by its id in the JSON."""
        for action in self.program.actions:
            if action.identifier == identifier_:
                return action
        raise ProgramError(f"the program has no action with id {identifier_}")

    def leave_on_exit(self, writer: Writer, actions: tuple[ProgramAction, ...]) -> None:
        """Leave the pipeline if an action said ``exit``."""
        if any(action.code in self.exits for action in actions):
            with writer.indented("if phv[R_EXIT] != 0:"):
                writer.line("return")

    def table(self, writer: Writer, table: Table, numbers: dict[str | None, int]) -> None:
        """Apply a table: look up, count, act, go on."""
        following = table.next_nodes
        miss = numbers[following.get("__MISS__", table.miss_next)]
        only = table.actions[0] if len(table.actions) == 1 else None
        if not table.keys and table.default_const and table.default_action is not None:
            action = table.default_action
            if action.widths:
                self.default(writer, table)
            writer.line(self.calls[action.code])
            self.leave_on_exit(writer, (action,))
            next_node = following.get("__MISS__", following.get(action.name))
            writer.line(f"node = {numbers[next_node]}")
            return
        self.lookup(writer, table)
        if table.profile is not None and table.profile.algorithm is not None:
            function = self.calculations.names[f"selector {table.profile.name}"]
            with writer.indented(
                "if record > 0 and ActionRecord(address_of(image, record)).action == GROUP:"
            ):
                writer.line(
                    f"record = choose(image, record, {function}(phv, scratch, words, frame))"
                )
        self.count(writer, table)
        by_result = "__HIT__" in following or "__MISS__" in following
        if by_result:
            hit = numbers[following.get("__HIT__", table.miss_next)]
            writer.line(f"node = {hit} if entry >= 0 else {miss}")
        else:
            writer.line(f"node = {numbers[table.miss_next]}")
        with writer.indented("if record > 0:"):
            if only is None:
                writer.line("action = ActionRecord(address_of(image, record)).action")
            for position, action in enumerate(table.actions):
                lines = [self.calls[action.code]]
                after = numbers[following.get(action.name, table.miss_next)]
                if not by_result and after != numbers[table.miss_next]:
                    lines.append(f"node = {after}")
                if only is not None:
                    writer.extend(lines)
                else:
                    word = "elif" if position else "if"
                    with writer.indented(f"{word} action == {action.code}:"):
                        writer.extend(lines)
        self.leave_on_exit(writer, table.actions)

    def count(self, writer: Writer, table: Table) -> None:
        """Count with the table's own counter: with any action, or only with those that do."""
        if table.counter_base is None:
            return
        lines = "counters[cell] += 1", "counters[cell + 1] += phv[R_INGRESS_LENGTH]"
        if table.counting is None:
            writer.line(*lines)
        elif table.counting:
            action = "ActionRecord(address_of(image, record)).action"
            codes = ", ".join(f"{item.code}" for item in table.counting)
            with writer.indented(f"if record > 0 and {action} in ({codes},):"):
                writer.line(*lines)

    def default(self, writer: Writer, table: Table) -> None:
        """Leave the record (or 0) of a table's default action in ``record``."""
        directory = f"address_of(image, image[{FIRST_TABLE + table.index}])"
        writer.line(f"record = Directory({directory}).default")

    def lookup(self, writer: Writer, table: Table) -> None:
        """Leave the entry (or -1) in ``entry`` and its record (or 0) in ``record``."""
        directory = f"image[{FIRST_TABLE + table.index}]"
        sources = [word for key in table.keys for word in self.translator.key_words(key)]
        if not sources:
            writer.line("entry = -1")
        elif len(sources) == 1 and not table.has_range:
            writer.line(f"entry = lookup_word(image, {directory}, {sources[0]})")
        else:
            writer.extend(f"keys[{position}] = {source}" for position, source in enumerate(sources))
            writer.line(f"entry = lookup_words(image, {directory}, keys)")
        lookups = table.lookups_cell
        with writer.indented("if entry >= 0:"):
            writer.line("found = EntryRecord(address_of(image, entry))", "record = found.record")
            if lookups is not None:
                writer.line(f"counters[{2 * lookups + 1}] += 1")
            if table.counter_base is not None:
                writer.line(f"cell = {2 * table.counter_base} + 2 * found.index")
            write_hit(writer, table, self.translator.name_of)
        with writer.indented("else:"):
            self.default(writer, table)
            if lookups is not None:
                writer.line(f"counters[{2 * lookups}] += 1")
            if table.counter_base is not None:
                writer.line(f"cell = {2 * table.counter_base}")
