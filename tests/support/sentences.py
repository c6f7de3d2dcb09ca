"""What BMv2's page of simple_switch says of packets, a packet for each sentence and what leaves for
it, and the page that lists them: ``.venv/bin/python -m tests.support.sentences`` writes it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from weft.switch.engine.control.entities import CloneSession, MulticastGroup, Replica
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "switch" / "engine" / "sentences"
PROGRAM = FOLDER / "sentences.p4"
PAGE = ROOT / "docs" / "simple-switch.md"
COPIES = Replica(2, 1), Replica(3, 2)
COMMANDS = """mirroring_add 3 3
mirroring_add 4 4
mc_mgrp_create 7
mc_node_create 1 2
mc_node_associate 7 0
mc_node_create 2 3
mc_node_associate 7 1
mirroring_add_mc 6 7"""
"""For BMv2, what `switch` has."""
IN_PORT, PORTS = 5, 6
URL = "https://github.com/p4lang/behavioral-model/blob/main/docs/simple_switch.md"


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence, by the title of its section, a packet that comes in at port 5, and what leaves
    for it: ports, with frames in hexadecimal."""

    section: str
    text: str
    packet: str
    leaves: list[tuple[int, str]]


class Elsewhere(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence that has a test elsewhere, by its file and name."""

    section: str
    text: str
    test: str


class Sentences(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them."""

    case: list[Case]
    elsewhere: list[Elsewhere]


@lru_cache(maxsize=1)
def sentences() -> Sentences:
    """The sentences."""
    return msgspec.toml.decode((FOLDER / "cases.toml").read_bytes(), type=Sentences)


def switch(
    text: str, queue: Queue | None = None, *, plain: bool = True
) -> tuple[Dataplane, SwitchControl]:
    """A switch with what the cases need: ports, groups and sessions."""
    dataplane = Dataplane(1, 8, packets=64, plain=plain)
    for port in range(PORTS):
        dataplane.set_port(0, port, queue or Queue())
    control = dataplane.control(0)
    control.load_program(text, load="save")
    control.commit_program()
    control.insert_replication(MulticastGroup(7, COPIES))
    for session, replicas in ((3, (Replica(3, 0),)), (4, (Replica(4, 0),)), (6, COPIES)):
        control.insert_replication(CloneSession(session, replicas))
    control.publish()
    return dataplane, control


def page() -> str:
    """The page of all sentences."""
    known = sentences()
    lines = [
        "# What simple_switch does, sentence by sentence",
        "",
        f"What the page [simple_switch.md]({URL}) of p4lang/behavioral-model says of packets, in "
        "other words, and that the built-in switch does the same. Each of the first "
        f"{len(known.case)} rows is a packet to the program "
        "`tests/switch/engine/sentences/sentences.p4`, whose first byte is the number of the case; "
        "the switch, the interpreter and, where it is installed, BMv2 must send the frames of "
        "`cases.toml` beside it. Sections are named by their titles.",
        "",
        "This page is made by `.venv/bin/python -m tests.support.sentences`; every row is a test.",
        "",
        "| section | what | case, or test |",
        "|---|---|---|",
    ]
    for case in known.case:
        lines.append(f"| {case.section} | {case.text} | {int(case.packet[:2], 16)} |")
    for one in known.elsewhere:
        file, name = one.test.split("::")
        lines.append(f"| {one.section} | {one.text} | `{name}` in `{file}` |")
    return "\n".join([*lines, "", *_DIFFERENCES, ""])


_DIFFERENCES = (
    "## Where the built-in switch goes another way",
    "",
    "- A packet that is resubmitted or recirculated more than 256 times is dropped and counted; "
    "BMv2 goes on for ever.",
    "- Idle timeouts end when they end; BMv2 looks once a second.",
    "- Controls, parsers, deparsers and the checksum controls may have statements that p4c refuses "
    "for BMv2, as tables applied twice, and `if` in a deparser. The compiler makes states, nodes "
    "and temporaries of them, so that BMv2 runs most of them, too.",
    "- Packets are taken one after the other, so registers need no `@atomic`.",
)


if __name__ == "__main__":
    PAGE.write_text(page())
