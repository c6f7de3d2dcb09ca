"""Random programs in every form that there is: ``python -m tests.support.random_programs N SEED``.

Each program's frames go through the plain form of what our compiler makes of it, which is compared
with the interpreter, with the compiled form, with the plain form of p4c's JSON (where p4c is
installed) and with BMv2 (``--bmv2``, where it is). What differs is written to a folder, made as
small as it can be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.bmv2_live import Bmv2
from tests.support.bmv2_support import loaded
from tests.support.interpreter_twin import Twin
from tests.support.random_source import CELLS, PORTS, Generator, RandomProgram

from weft.switch.compiler import CompileError, compile_program
from weft.switch.engine.control.entities import (
    CloneSession,
    DigestEvent,
    Exact,
    Key,
    MeterConfig,
    MulticastGroup,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.errors import NotFound
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane
from weft.switch.engine.trace.entries import describe_key

Outcome = dict[str, Any]

GROUPS = {1: (1, 2), 2: (2, 3, 4), 3: (1,)}
SESSIONS = {number: number + 1 for number in GROUPS} | {
    10 + port: port for port in range(1, PORTS + 1)
}
"""Ports of clones. Those that egress makes stay at their port, as BMv2's ports race."""
METER = MeterConfig(0, 300, 0, 900)
METERS = {f"{side.upper()}.{side}_meter": range(0, cells, 2) for side, cells in CELLS.items()}
"""Cells with rates."""
VALUES = (9, 2)
"""Of the parser's value set."""


def configure(control: SwitchControl, entries: Sequence[TableEntry], tame: bool) -> None:
    """Entries, groups, sessions, meters and value sets, as far as the program has them: p4c leaves
    out what it sees that no packet can reach."""
    for entry in entries:
        with contextlib.suppress(NotFound):
            control.insert_entry(entry)
    for number, ports in GROUPS.items():
        replicas = tuple(Replica(port, port + 1) for port in ports)
        control.insert_replication(MulticastGroup(number, replicas))
    for number, port in SESSIONS.items():
        size = 40 if number == 2 and not tame else 0  # simple_switch_CLI has no lengths
        control.insert_replication(CloneSession(number, (Replica(port),), size))
    for name, cells in METERS.items():
        for cell in cells:
            control.values.write_meter(name, cell, METER)
    with contextlib.suppress(NotFound):
        control.set_value_set("P.odd_set", [(Exact(value),) for value in VALUES])
    control.publish()


def run(program: str, wanted: RandomProgram, *, plain: bool) -> Outcome:
    """All that can be seen of a program's run."""
    return run_on(*loaded(program, PORTS, plain=plain), wanted)


def run_on(
    dataplane: Dataplane,
    control: SwitchControl,
    wanted: RandomProgram,
    before: Callable[[int], None] = lambda number: None,
) -> Outcome:
    """The same of a program that a switch has; what is done before each frame is told its
    number."""
    configure(control, wanted.entries, wanted.tame)
    sent: list[tuple[int, int, bytes]] = []
    for number, frame in enumerate(wanted.frames):
        before(number)
        now_ns = number * 1_000_000
        dataplane.receive(0, 1, [frame], now_ns)
        left = sorted(dataplane.transmit(now_ns), key=lambda one: one.port)
        sent += [(number, one.port, one.frame) for one in left]
    assert dataplane.context.free_buffer_count == 64 == dataplane.context.free_packet_count, (
        "a packet or a buffer was lost"
    )
    counters = {}
    for side in CELLS:
        name = f"{side.upper()}.{side}_count"
        counters[name] = [(cell.packets, cell.bytes) for cell in control.values.read_counters(name)]
    registers = {}
    for side, cells in CELLS.items():
        for width in (8, 16, 48, 100):
            name = f"{side.upper()}.{side}_reg{width}"
            registers[name] = [control.values.read_register(name, at) for at in range(cells)]
    return {
        "frames": sent, "counters": counters, "registers": registers,
        "digests": [(one.digest, one.values) for one in control.take_events()
                    if isinstance(one, DigestEvent)],
        "ports": [dataplane.statistics(0, port) for port in range(PORTS + 1)],
        "lookups": dataplane.states[0].lookups(),
    }  # fmt: skip


def run_interpreted(program: str, wanted: RandomProgram) -> Outcome:
    """The same of the interpreter, of which ports are not seen."""
    dataplane, control = loaded(program, PORTS, plain=True)
    configure(control, wanted.entries, wanted.tame)
    twin = Twin(dataplane, control)
    sent = []
    for number, frame in enumerate(wanted.frames):
        left = twin.sent(1, frame, number * 1_000_000)
        sent += [(number, port, data) for port, data in left]
    counters = [name for name in twin.program.counters if not name.endswith("_counter")]
    return {
        "frames": sent,
        "counters": {name: twin.counters(name) for name in counters},
        "registers": {name: twin.registers(name) for name in twin.program.registers},
        "digests": twin.digests(),
        "lookups": twin.lookups(),
    }


def difference(one: Outcome, other: Outcome) -> str:
    """What differs first between two runs, of what both tell; empty if nothing does."""
    for kind in other:
        left, right = one[kind], other[kind]
        if left == right:
            continue
        if kind == "frames":
            number = next(at for at, _, _ in sorted(set(left) ^ set(right)) or sorted(left))
            show = [[(port, frame.hex()) for at, port, frame in side if at == number]
                    for side in (left, right)]  # fmt: skip
            return f"frame {number}: {show[0]} against {show[1]}"
        for name in right if isinstance(right, dict) else ():
            if right[name] and left.get(name) != right[name]:
                return f"{name}: {left.get(name)} against {right[name]}"
        if not isinstance(right, dict):
            return f"{kind}: {left} against {right}"
    return ""


# -- BMv2


def key_text(key: Key) -> str:
    return describe_key(key).replace("..", "->")


def commands(wanted: RandomProgram) -> str:
    """What ``configure`` does, for simple_switch_CLI, whose first priority is the lowest number."""
    lines = []
    for entry in wanted.entries:
        call: Any = entry.target
        keys = " ".join(map(key_text, entry.keys))
        values = " ".join(map(hex, call.params))
        priority = str(1000 - entry.priority) if entry.priority else ""
        lines.append(f"table_add {entry.table} {call.action} {keys} => {values} {priority}")
    nodes = 0
    for number, ports in GROUPS.items():
        lines.append(f"mc_mgrp_create {number}")
        for port in ports:
            lines.append(f"mc_node_create {port + 1} {port}")
            lines.append(f"mc_node_associate {number} {nodes}")
            nodes += 1
    lines += [f"mirroring_add {number} {port}" for number, port in SESSIONS.items()]
    for name, cells in METERS.items():
        lines += [f"meter_set_rates {name} {cell} 0:300 0:900" for cell in cells]
    lines += [f"pvs_add P.odd_set {value}" for value in VALUES]
    return "\n".join(lines)


# -- one program


@dataclass
class Forms:
    """What a program is compared with, beside the plain form of our compiler's JSON."""

    compiled: bool = False
    p4c: bool = False
    bmv2: bool = False


def p4c_json(source: Path) -> str | None:
    """p4c's JSON, or None where it refuses the program, or makes a constant of what a select looks
    at, which BMv2's JSON has no word for."""
    output = source.with_suffix(".p4c.json")
    command = ["p4c-bm2-ss", "--Wdisable", str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print("p4c:", done.stderr[-600:])
        return None
    text = output.read_text()
    states = [state for one in json.loads(text)["parsers"] for state in one["parse_states"]]
    kinds = {item["type"] for state in states for item in state["transition_key"]}
    return None if "hexstr" in kinds else text


def compare(wanted: RandomProgram, forms: Forms, folder: Path) -> str:
    """What is wrong with a program; empty if nothing is."""
    source = folder / "program.p4"
    source.write_text(wanted.source)
    try:
        ours = compile_program(source).bmv2_json
    except CompileError as error:
        return f"does not compile: {error}"
    plain = run(ours, wanted, plain=True)
    found = difference(plain, run_interpreted(ours, wanted))
    if found:
        return f"plain and interpreted: {found}"
    if forms.compiled:
        found = difference(plain, run(ours, wanted, plain=False))
        if found:
            return f"plain and compiled: {found}"
    theirs = p4c_json(source) if wanted.tame and forms.p4c else None
    if theirs is not None:
        found = difference(plain, run(theirs, wanted, plain=True))
        if found:
            return f"our JSON and p4c's: {found}"
    if forms.bmv2 and wanted.tame:
        for name, text in (("our", ours), ("p4c's", theirs)):
            found = difference(plain, run_bmv2(text, wanted, plain, folder)) if text else ""
            if found:
                return f"here and BMv2 with {name} JSON: {found}"
    return ""


def run_bmv2(program: str, wanted: RandomProgram, plain: Outcome, folder: Path) -> Outcome:
    """The same of BMv2, of which digests are not seen, nor registers of more than 64 bits."""
    expected = [sum(at == number for at, _, _ in plain["frames"])
                for number in range(len(wanted.frames))]  # fmt: skip
    names = [name for name in plain["registers"] if not name.endswith("100")]
    sent = []
    with Bmv2(folder, program, range(1, PORTS + 1)) as switch:
        switch.commands(commands(wanted))
        for number, frame in enumerate(wanted.frames):
            left = switch.send(frame, expected[number])
            sent += [(number, port, data) for port, data in left]
        registers = switch.registers(names)
        counters = switch.counters({f"{side.upper()}.{side}_count": cells
                                    for side, cells in CELLS.items()})  # fmt: skip
    return {"frames": sent, "registers": registers, "counters": counters}


# -- making it small


def pieces(lines: list[str]) -> list[tuple[int, int]]:
    """Statements and blocks, as ranges of lines, the longest first."""
    found = []
    for start, line in enumerate(lines):
        if line.rstrip().endswith(";"):
            found.append((start, start + 1))
        elif line.rstrip().endswith("{") and not line.strip().startswith("}"):
            depth = 0
            for end in range(start, len(lines)):
                depth += lines[end].count("{") - lines[end].count("}")
                if depth == 0:
                    found.append((start, end + 1))
                    break
    return sorted(found, key=lambda item: item[0] - item[1])


def reduce(
    wanted: RandomProgram, fails: Callable[[RandomProgram], bool], seconds: float
) -> RandomProgram:
    """A smaller program that fails in the same way, as small as there was time for."""
    deadline = time.monotonic() + seconds
    for frame in wanted.frames:
        if fails(replace(wanted, frames=[frame])):
            wanted = replace(wanted, frames=[frame])
            break
    changed = True
    while changed:
        changed = False
        at = 0
        while at < len(pieces(wanted.source.splitlines())) and time.monotonic() < deadline:
            lines = wanted.source.splitlines()
            start, end = pieces(lines)[at]
            trial = replace(wanted, source="\n".join(lines[:start] + lines[end:]) + "\n")
            if fails(trial):
                wanted, changed = trial, True
            else:
                at += 1
        changed = changed and time.monotonic() < deadline
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m tests.support.random_programs"
    )
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--size", type=int, default=12, help="statements of a control")
    parser.add_argument("--plain", action="store_true", help="leave the compiled form out")
    parser.add_argument("--bmv2", action="store_true", help="compare with BMv2 too (root)")
    parser.add_argument("--reduce", type=float, default=0, help="seconds for making it small")
    parser.add_argument("--output", type=Path, default=Path("random-programs"))
    options = parser.parse_args()
    forms = Forms(not options.plain, shutil.which("p4c-bm2-ss") is not None, options.bmv2)
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        wanted = Generator(seed, options.size, tame=options.bmv2 or seed % 2 == 1).program()
        problem = checked(wanted, forms)
        print(f"{seed}: {problem or 'alike'}"[:1500], flush=True)
        if not problem:
            continue
        failed += 1
        if options.reduce:
            kind = problem[:16]
            wanted = reduce(
                wanted, lambda trial: checked(trial, forms)[:16] == kind, options.reduce
            )
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / f"{seed}.p4").write_text(wanted.source)
        (options.output / f"{seed}.txt").write_text(f"{checked(wanted, forms)}\n")
    return int(failed > 0)


def checked(wanted: RandomProgram, forms: Forms) -> str:
    """As ``compare``; what is raised is a difference too."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return compare(wanted, forms, Path(folder))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
