"""Small tools for writing Python source: indentation, names, packing fields into words."""

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from weft.switch.engine.native import plain_wide
from weft.switch.engine.program.headers import Field
from weft.switch.engine.program.program import Program


class Writer:
    """Collect the lines of source, with a current indentation."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def line(self, *texts: str) -> None:
        """Add lines, each at the current depth, or an empty line if none is given."""
        self.extend(texts or ("",))

    def extend(self, lines: Iterable[str]) -> None:
        """Add lines, each at the current depth."""
        self.lines += ("    " * self.depth + text if text else "" for text in lines)

    @contextmanager
    def indented(self, header: str) -> Iterator[None]:
        """Write a compound statement: ``with writer.indented("if x:"):`` writes its body, which is
        ``pass`` if nothing else is written."""
        self.line(header)
        self.depth += 1
        start = len(self.lines)
        yield
        if all(not text or text.strip().startswith("#") for text in self.lines[start:]):
            self.line("pass")
        self.depth -= 1

    @contextmanager
    def function(self, header: str, about: str) -> Iterator[None]:
        """Write the head of a compiled function; what is written in this context is its body."""
        self.line("@jit")
        with self.indented(f"def {header}:"):
            self.line(f'"""{about}"""')
            yield

    @property
    def text(self) -> str:
        """Return all lines as one text."""
        return "\n".join(self.lines) + "\n"


def identifier(text: str) -> str:
    """Return a text as a Python identifier."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
    return f"n_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def remark(text: str) -> str:
    """Return a text fit for a comment or a docstring: a program's names can be anything."""
    return re.sub(r"[^\w .,()\[\]$<>:;/+*=-]", "?", text, flags=re.ASCII)[:200]


class Names(set[str]):
    """The identifiers that are taken already by a program's objects."""

    def unique(self, wanted: str) -> str:
        """Take ``wanted``, or if it is taken the same with a number behind it, and return it."""
        name, count = wanted, 2
        while name in self:
            name, count = f"{wanted}_{count}", count + 1
        self.add(name)
        return name


def field_constants(program: Program, names: Names) -> dict[int, str]:
    """Return a constant's name for each word of the PHV that a program's field or validity bit
    uses."""
    constants: dict[int, str] = {}
    for header in program.headers.values():
        base = identifier(header.name).upper()
        if header.valid_slot >= 0:
            constants[header.valid_slot] = names.unique(f"{base}_VALID")
        for field in header.fields:
            wanted = f"{base}_{identifier(field.name).upper()}"
            for word in range(field.words):
                if field.slot + word not in constants:
                    constants[field.slot + word] = names.unique(
                        f"{wanted}_WORD_{word}" if word else wanted
                    )
    ends = [(stack.name, stack.next_slot) for stack in program.stacks.values()]
    ends += [(stack.name, stack.next_slot) for stack in program.groups.union_stacks.values()]
    for name, slot in ends:
        constants[slot] = names.unique(f"{identifier(name).upper()}_NEXT")
    return constants


def wide_names(text: str) -> str:
    """Return what generated source has to import and define before it uses wide integers, if it
    does."""
    functions = sorted(set(re.findall(r"\bwide_\w+(?=\()", text)) & set(vars(plain_wide)))
    if not functions:
        return ""
    widths = sorted({int(bits) for bits in re.findall(r"\bBITS_(\d+)\b", text)})
    words = sorted({int(count) for count in re.findall(r"\bW(\d+)\b", text)})
    lines = [
        "from weft.switch.engine.native.wide import (",
        *(f"    {name}," for name in functions),
        ")\n",
        *(f"BITS_{bits} = {bits}" for bits in widths),
        *(f"W{count} = {count}" for count in words),
    ]
    return "\n".join(lines) + "\n"


def read_field(field: Field, bit: int, at: str) -> str:
    """Return the source that reads a field at ``bit`` of a header that starts at ``data[at]``."""
    byte, skip = divmod(bit, 8)
    place = f"{at} + {byte}" if byte else at
    mask = (1 << field.width) - 1
    if skip + field.width <= 64:
        shift = 64 - skip - field.width
        source = f"load64(data, {place})"
        if shift:
            source = f"({source} >> {shift})"
        if field.width < 64:
            source = f"{source} & {mask:#x}"
    else:
        more = skip + field.width - 64
        first = f"((load64(data, {place}) & {(1 << (64 - skip)) - 1:#x}) << {more})"
        source = f"{first} | (data[{place} + 8] >> {8 - more})"
        if field.width == 64:
            source = f"word64({source})"
    if field.signed and field.width < 64:
        sign = 1 << (field.width - 1)
        source = f"(({source}) ^ {sign:#x}) - {sign:#x}"
    return source


def pack(pieces: list[tuple[str, int, bool]]) -> list[str]:
    """Return 64-bit words that hold pieces (source, width, may be negative) one behind the other.

    The last word is filled with zeros. Each word is an expression for ``store64``.
    """
    words: list[list[str]] = []
    position = 0
    for source, width, negative in pieces:
        if width == 0:
            continue
        if negative and width < 64:
            source = f"({source} & {(1 << width) - 1:#x})"
        index, skip = divmod(position, 64)
        while len(words) <= (position + width - 1) // 64:
            words.append([])
        room = 64 - skip
        if width <= room:
            words[index].append(f"({source} << {room - width})" if room > width else source)
        else:
            over = width - room
            high = f"shift_right64({source}, {over})" if width == 64 else f"({source} >> {over})"
            words[index].append(high)
            words[index + 1].append(f"({source} << {64 - over})")
        position += width
    return [" | ".join(parts) for parts in words]


def topological(
    start: str | None, successors: Callable[[str], Iterable[str]]
) -> tuple[list[str], bool]:
    """Return what can be reached, each before what follows it but for the ways back of loops; and
    whether there are such ways. Successors are gone to in their order."""
    order: list[str] = []
    under_way: dict[str, bool] = {}
    cyclic = False
    stack = [] if start is None else [(start, iter(successors(start)))]
    under_way.update((name, True) for name, _ in stack)
    while stack:
        name, rest = stack[-1]
        following = next((one for one in rest if under_way.get(one, True)), None)
        if following is None:
            stack.pop()
            under_way[name] = False
            order.append(name)
        elif following in under_way:
            cyclic = True
        else:
            under_way[following] = True
            stack.append((following, iter(successors(following))))
    return order[::-1], cyclic
