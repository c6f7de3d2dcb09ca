"""Source of what a table's hit leaves behind, and of what a digest tells the controller."""

import re
from collections.abc import Callable, Sequence

from weft.switch.engine.codegen.expressions import Value, store
from weft.switch.engine.codegen.source import Writer, remark
from weft.switch.engine.dataplane.layout import DROP_PORT
from weft.switch.engine.program.headers import Field
from weft.switch.engine.program.program import Program, Table

MORE = {
    "weft.switch.engine.dataplane.layout": ("DIGEST", "PortRecord"),
    "weft.switch.engine.dataplane.runtime": (
        "close_record", "open_record", "put_record", "run_meter", "write_note",
    ),
    "weft.switch.engine.dataplane.trace_layout": ("TraceHead",),
}  # fmt: skip
"""Names that only some programs use: the source of the others stays what it is."""

MORE_NAMES = tuple(name for names in MORE.values() for name in names)


def more_imports(parts: Sequence[str], drop_port: int) -> str:
    """Return the imports of those names that the parts use, and another drop port than the usual
    one."""
    used = set(re.findall(r"\w+", "\n".join(parts)))
    lines = []
    for module, names in MORE.items():
        wanted = [name for name in names if name in used]
        if wanted:
            lines.append(f"from {module} import {', '.join(wanted)}\n")
    if drop_port != DROP_PORT:
        lines.append(f"DROP_PORT = {drop_port}\n")
    return "".join(lines)


def write_hit(writer: Writer, table: Table, name_of: Callable[[Field], str]) -> None:
    """Note the time of a hit, and run the entry's direct meter."""
    if table.hit_base is not None:
        writer.line(
            "hits = int64_view(state.hits, state.hit_words)",
            f"hits[{table.hit_base} + found.index] = state.now_ns",
        )
    meter = table.meter
    if meter is not None and meter.target is not None:
        length = "phv[R_INGRESS_LENGTH]"
        size = "1" if meter.packets else length
        cell = f"{meter.base} + found.index"
        writer.line(f"colour = run_meter(state, {cell}, {size}, {length})")
        source = store(Value("colour", 0, 2), meter.target.width, meter.target.signed)
        writer.line(f"phv[{name_of(meter.target)}] = {source}")


def write_learning(program: Program, name_of: Callable[[Field], str]) -> str:
    """Return the function that hands the sample of a learn list to the controller."""
    if not program.learn_lists:
        return ""
    writer = Writer()
    about = "Tell the controller of the digest that ingress has chosen."
    with writer.function("learn(context, phv, state)", about):
        for learn_list in program.learn_lists.values():
            identifier, count = learn_list.identifier, learn_list.words
            with writer.indented(f"if phv[R_DIGEST] == {identifier}:  # {remark(learn_list.name)}"):
                arguments = f"state, DIGEST, {identifier}, {count}, state.now_ns"
                writer.line(f"at = open_record({arguments})")
                with writer.indented("if at >= 0:"):
                    at = 0
                    for field in learn_list.fields:
                        for part in range(field.data_words):
                            place = f"{name_of(field)} + {part}" if part else name_of(field)
                            writer.line(f"put_record(state, at + {at}, phv[{place}])")
                            at += 1
                    writer.line(f"close_record(context, state, at + {count})")
    return writer.text
