"""Meters, direct meters and value sets do what BMv2 does, where it is installed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.support.bmv2_live import Bmv2
from tests.support.bmv2_support import assert_same, bmv2, compile_with_p4c, require_bmv2, weft
from tests.support.compiler_support import compiled
from tests.support.engine_support import SOURCE, colours, frame

from weft.switch.engine.control.entities import ActionCall, Exact, MeterConfig, TableEntry
from weft.switch.engine.control.state import SwitchControl

BURSTS = {1: (3, 6), 2: (0, 200), 3: (100, 100), 4: (200, 300)}
"""Of the cells of both meters, and of the entries' direct meters: committed and peak. Rates are 0,
so that time does not matter; other cells and entries have no rates."""


def configure(control: SwitchControl) -> None:
    for destination in range(1, 6):
        call = ActionCall("I.to", (destination % 3 + 2,))
        control.insert_entry(TableEntry("I.forward", (Exact(destination),), call))
    for number, (committed, peak) in BURSTS.items():
        config = MeterConfig(0, committed, 0, peak)
        control.values.write_meter("I.packets_meter", number, config)
        control.values.write_meter("I.bytes_meter", number, config)
        control.values.write_direct_meter("I.forward", (Exact(number),), 0, config)


def commands() -> str:
    """The same for simple_switch_CLI; entries have their handles in order from 0."""
    lines = []
    for destination in range(1, 6):
        lines.append(f"table_add I.forward I.to {destination} => {destination % 3 + 2}")
    for number, (committed, peak) in BURSTS.items():
        rates = f"0:{committed} 0:{peak}"
        lines.append(f"meter_set_rates I.packets_meter {number} {rates}")
        lines.append(f"meter_set_rates I.bytes_meter {number} {rates}")
        lines.append(f"meter_set_rates I.direct {number - 1} {rates}")
    return "\n".join(lines)


def test_meters_do_what_bmv2_does(tmp_path: Path) -> None:
    require_bmv2()
    source = tmp_path / "objects.p4"
    shutil.copy(SOURCE, source)
    program = compile_with_p4c(source)
    rng = random.Random(3)
    frames = []
    for _ in range(200):
        size = rng.randrange(14, 90)
        frames.append(frame(rng.randrange(1, 7), rng.randrange(8), 0, size))
    ours = weft(program, frames, configure)
    sent = [one for port in ours.values() for one in port]
    seen = [set(values) for values in zip(*map(colours, sent), strict=True)]
    assert seen == [{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0}]
    assert_same(ours, bmv2(tmp_path, program, frames, len(sent), commands()))


VALUE_SETS = """
    value_set<bit<12>>(4) narrow; value_set<pair_t>(4) pairs; value_set<trio_t>(4) small;
    state start { packet.extract(hdr.h);
        transition select(hdr.h.a) { narrow: one; 5: two; default: more; } }
    state more { transition select(hdr.h.a, hdr.h.c) {
        pairs: three; (1, _): two; default: again; } }
    state again { transition select(hdr.h.b, hdr.h.d) { small: four; default: accept; } }
    state one { meta.x = 1; transition accept; }
    state two { meta.x = 2; transition accept; }
    state three { meta.x = 3; transition accept; }
    state four { meta.x = 4; transition accept; }"""


def test_value_sets_of_several_fields_match_what_they_match_in_bmv2(tmp_path: Path) -> None:
    require_bmv2()
    made = compiled(
        tmp_path,
        types="""header h_t { bit<12> a; bit<4> b; bit<16> c; bit<8> d; bit<80> rest; }
            struct pair_t { bit<12> x; bit<16> y; } struct trio_t { bit<4> x; bit<8> y; }""",
        parser=VALUE_SETS,
        ingress="hdr.h.rest[7:0] = meta.x; sm.egress_spec = 2;",
    ).bmv2_json
    members: dict[str, list[tuple[int, ...]]] = {
        "P.narrow": [(7,), (0xABC,)],
        "P.pairs": [(1, 2), (0xFFF, 0xFF00)],
        "P.small": [(1, 2), (15, 0x80)],
    }
    shifts = {"P.narrow": 0, "P.pairs": 16, "P.small": 8}
    frames = [
        (a << 28 | b << 24 | c << 8 | d).to_bytes(5, "big") + bytes(10)
        for a in (7, 0xABC, 1, 0xFFF, 5, 0) for b, d in ((1, 2), (15, 0x80), (1, 0x80), (0, 0))
        for c in (2, 0xFF00, 0)
    ]  # fmt: skip

    def configure(control: SwitchControl) -> None:
        for name, items in members.items():
            control.set_value_set(name, [tuple(map(Exact, item)) for item in items])

    ours = weft(made, frames, configure)[2]
    assert {one[14] for one in ours} == {0, 1, 2, 3, 4}
    with Bmv2(tmp_path, made, [1, 2]) as switch:
        switch.commands("\n".join(
            f"pvs_add {name} {item[0] << shifts[name] | sum(item[1:])}"
            for name, items in members.items() for item in items
        ))  # fmt: skip
        theirs = [frame for sent in frames for _, frame in switch.send(sent, 1)]
    assert ours == theirs
