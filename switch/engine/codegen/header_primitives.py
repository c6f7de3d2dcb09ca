"""Source of the primitives that make headers valid or not, copy them, and shift stacks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partialmethod
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.codegen.expressions import Translator
from weft.switch.engine.codegen.references import (
    HeaderReference,
    field_place,
    header_reference,
    readable,
    union_reference,
    valid_place,
)
from weft.switch.engine.codegen.source import Writer
from weft.switch.engine.codegen.varbits import copy_lines, size_source
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Family, Field, Header
from weft.switch.engine.program.program import Program

Json = Any


@dataclass(eq=False)
class HeaderPrimitives:
    """The source of what primitives on headers do to the PHV, as in BMv2's headers.cpp and
    stacks.cpp."""

    program: Program
    translator: Translator

    def picked(
        self,
        writer: Writer,
        reference: HeaderReference,
        body: Callable[[HeaderReference], None],
        name: str = "element",
    ) -> None:
        """Write ``body`` for a reference, where its index is in bounds."""
        if reference.index is None:
            body(reference)
        else:
            writer.line(f"{name} = {reference.index}")
            with writer.indented(f"if 0 <= {name} < {reference.size}:"):
                body(reference.at(name))

    def use_if_wide(self, writer: Writer, header: Header) -> None:
        """Have all words of the PHV copied with the packet if a header is wide."""
        if header.wide:
            writer.line(f"phv[R_FIELDS] = {self.program.field_count}")

    def valid(self, reference: HeaderReference) -> str:
        """Return the source of the word that says whether a header is valid."""
        return f"phv[{valid_place(self.translator, reference)}]"

    def place(self, reference: HeaderReference, field: Field) -> str:
        """Return the PHV index of a field."""
        return field_place(self.translator, reference, field)

    def peers(self, reference: HeaderReference) -> list[HeaderReference]:
        """Return the other headers of the union that a header is in."""
        peers = self.program.groups.peers
        found = [peers.get(header.name, ()) for header in reference.family.headers]
        families = [Family(headers) for headers in zip(*found, strict=True)]
        return [HeaderReference(family, reference.index) for family in families]

    def make_valid(self, writer: Writer, reference: HeaderReference) -> None:
        """Set a header's validity; the others of its union become invalid."""
        writer.line(f"{self.valid(reference)} = 1")
        writer.extend(f"{self.valid(peer)} = 0" for peer in self.peers(reference))

    def clear_fields(self, writer: Writer, reference: HeaderReference) -> None:
        """Set all fields of a header to 0."""
        varbit = reference.first.varbit
        fields = reference.first.parts
        if varbit is not None:  # its length stays, as in BMv2
            fields = tuple(part for part in fields if part.slot != varbit.length_slot)
        if len(fields) <= 4 or varbit is not None:
            writer.extend(f"phv[{self.place(reference, field)}] = 0" for field in fields)
        else:
            writer.line(f"first = {self.place(reference, fields[0])}")
            with writer.indented(f"for slot in range(first, first + {reference.first.words}):"):
                writer.line("phv[slot] = 0")

    def size(self, reference: HeaderReference) -> str:
        """Return the source of a header's size in bytes."""
        return size_source(reference.first, lambda part: self.place(reference, part))

    def varbit(self, node: Json) -> tuple[HeaderReference, Field]:
        """Return a parameter that is a varbit field: its header, and the field of the first of
        these."""
        found = self.translator.field_reference(node)
        if found is None or not found[1].varbit:
            raise ProgramError(f"{node.get('value')!r} is given for a varbit field, and is none")
        return found

    def do_assign_VL(self, writer: Writer, parameters: list[Json]) -> None:
        """Copy a varbit field with its length."""
        target, mine = self.varbit(parameters[0])
        source, theirs = self.varbit(parameters[1])

        def copy(reference: HeaderReference) -> None:
            place, origin = self.place(reference, mine), self.place(readable(source), theirs)
            writer.extend(copy_lines(mine, place, theirs, origin))

        self.picked(writer, target, copy)

    def header(self, node: Json) -> HeaderReference:
        """Return a parameter that is a packet header."""
        reference = header_reference(self.translator, node)
        refuse(
            reference.first.metadata,
            f"{reference.first.name!r} is metadata, not a packet header",
            ProgramError,
        )
        return reference

    def do_add_header(self, writer: Writer, parameters: list[Json]) -> None:
        """Make a header valid, its fields 0, if it is not valid yet."""

        def add(reference: HeaderReference) -> None:
            with writer.indented(f"if {self.valid(reference)} == 0:"):
                self.clear_fields(writer, reference)
                self.make_valid(writer, reference)
                writer.line(f"phv[R_LENGTH] += {self.size(reference)}")
                self.use_if_wide(writer, reference.first)

        self.picked(writer, self.header(parameters[0]), add)

    def do_add_header_fast(self, writer: Writer, parameters: list[Json]) -> None:
        """Make a header valid without a look at its fields and the packet's length."""

        def add(reference: HeaderReference) -> None:
            self.make_valid(writer, reference)
            self.use_if_wide(writer, reference.first)

        self.picked(writer, self.header(parameters[0]), add)

    def do_remove_header(self, writer: Writer, parameters: list[Json]) -> None:
        """Make a header invalid."""

        def remove(reference: HeaderReference) -> None:
            with writer.indented(f"if {self.valid(reference)} != 0:"):
                writer.line(
                    f"{self.valid(reference)} = 0", f"phv[R_LENGTH] -= {self.size(reference)}"
                )

        self.picked(writer, self.header(parameters[0]), remove)

    def copy_header(self, writer: Writer, target: HeaderReference, source: HeaderReference) -> None:
        """Copy validity, and the fields of a valid header."""
        mine, theirs = target.first, source.first
        refuse(
            [part.width for part in mine.parts] != [part.width for part in theirs.parts],
            f"{mine.name!r} and {theirs.name!r} are of different types",
            ProgramError,
        )
        copies = [
            f"phv[{self.place(target, left)}] = phv[{self.place(source, right)}]"
            for left, right in zip(mine.parts, theirs.parts, strict=True)
        ]
        if mine.metadata or theirs.metadata:
            if not mine.metadata:
                self.make_valid(writer, target)
            writer.extend(copies)
            return
        peers = self.peers(target)
        if not peers:
            writer.line(f"{self.valid(target)} = {self.valid(source)}")
        with writer.indented(f"if {self.valid(source)} != 0:"):
            if peers:
                self.make_valid(writer, target)
            self.use_if_wide(writer, mine)
            writer.extend(copies)
        if peers:
            with writer.indented("else:"):
                writer.line(f"{self.valid(target)} = 0")

    def copy_picked(self, writer: Writer, target: HeaderReference, source: HeaderReference) -> None:
        """Copy a header where both indices are in bounds."""

        def to_target(mine: HeaderReference) -> None:
            self.picked(
                writer, source, lambda theirs: self.copy_header(writer, mine, theirs), "other"
            )

        self.picked(writer, target, to_target)

    def do_assign_header(self, writer: Writer, parameters: list[Json]) -> None:
        """Copy a header with its validity."""
        self.copy_picked(
            writer,
            header_reference(self.translator, parameters[0]),
            header_reference(self.translator, parameters[1]),
        )

    do_copy_header = do_assign_header

    def do_assign_union(self, writer: Writer, parameters: list[Json]) -> None:
        """Copy each member of a header union."""
        target, source = (union_reference(self.translator, node) for node in parameters[:2])
        for mine, theirs in zip(target.members, source.members, strict=True):
            self.copy_picked(writer, mine, theirs)

    def copy_all(self, writer: Writer, target: list[Header], source: list[Header]) -> None:
        """Copy headers in order; P4 leaves no overlap but that of a stack with itself."""
        for mine, theirs in zip(target, source, strict=True):
            self.copy_header(
                writer, HeaderReference(Family((mine,))), HeaderReference(Family((theirs,)))
            )

    def do_assign_header_stack(self, writer: Writer, parameters: list[Json]) -> None:
        """Copy a header stack with its count of extracted elements."""
        target, source = (self.program.stack(node["value"]) for node in parameters[:2])
        writer.line(f"phv[{target.next_slot}] = phv[{source.next_slot}]")
        self.copy_all(writer, list(target.headers), list(source.headers))

    def do_assign_union_stack(self, writer: Writer, parameters: list[Json]) -> None:
        """Copy a stack of header unions with its count of extracted elements."""
        target, source = (self.program.groups.union_stack(node["value"]) for node in parameters[:2])
        writer.line(f"phv[{target.next_slot}] = phv[{source.next_slot}]")
        for mine, theirs in zip(target.unions, source.unions, strict=True):
            self.copy_all(writer, list(mine.members), list(theirs.members))

    def shift(self, writer: Writer, parameters: list[Json], direction: int) -> None:
        """Move elements by a number of places, which P4_16 wants to be constant (section 8.18)."""
        value = self.translator.integer(parameters[1])
        if value.constant is not None:
            self.shift_by(writer, parameters[0], direction * value.constant)
        else:
            _, size = self.translator.stack_end(parameters[0])
            writer.line(f"places = {value.source}")
            for count in range(1, size):
                with writer.indented(f"if places == {count}:"):
                    self.shift_by(writer, parameters[0], direction * count)
            with writer.indented(f"if places >= {size}:"):
                self.shift_by(writer, parameters[0], direction * size)

    do_pop = partialmethod(shift, direction=-1)
    do_push = partialmethod(shift, direction=1)

    def shift_by(self, writer: Writer, node: Json, places: int) -> None:
        """Move a stack's elements towards its end, or (``places`` below 0) towards its front."""
        next_slot, size = self.translator.stack_end(node)
        following = f"phv[{next_slot}]"
        count = min(abs(places), size)
        if count != 0:
            self.move_elements(writer, node, count if places > 0 else -count)
            if places < 0:
                writer.line(f"{following} = max({following} - {count}, 0)")
            else:
                writer.line(f"{following} = min({following} + {count}, {size})")

    def elements(self, node: Json) -> list[list[Header]]:
        """Return the elements of a stack, each as the headers that it consists of."""
        name = node["value"]
        if node["type"] == "header_union_stack":
            return [list(union.members) for union in self.program.groups.union_stack(name).unions]
        return [[header] for header in self.program.stack(name).headers]

    def move_elements(self, writer: Writer, node: Json, places: int) -> None:
        """Move the elements of a stack; the places that become free are invalid. (BMv2 exchanges
        unions: what leaves at one end comes back at the other.)"""
        elements = self.elements(node)
        size = len(elements)
        for position in range(size) if places < 0 else range(size - 1, -1, -1):
            source = position - places
            if 0 <= source < size:
                self.copy_all(writer, elements[position], elements[source])
            else:
                writer.extend(f"phv[{header.valid_slot}] = 0" for header in elements[position])
