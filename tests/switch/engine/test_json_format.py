"""What BMv2's page of its JSON says: the engine, the interpreter and BMv2 do it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.support.bmv2_support import require_bmv2, run_bmv2
from tests.support.interpreter_twin import Twin
from tests.support.json_format.nodes import Sentence
from tests.support.json_format.page import ELSEWHERE, PAGE, REFUSED, ROOT, Change, page
from tests.support.json_format.program import OUT_PORT, program
from tests.support.json_format.sentences import SENTENCES

from weft.switch.engine.codegen.generate import generate
from weft.switch.engine.control.entities import Exact
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.reader import read_program
from weft.switch.engine.switches import Dataplane, Queue

IN_PORT, PORTS = 5, 6
Both = tuple[Dataplane, SwitchControl]


def switch(text: str) -> Both:
    dataplane = Dataplane(1, 8, packets=64, plain=True)
    for port in range(PORTS):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    control.load_program(text, load="save")
    control.commit_program()
    return dataplane, control


@pytest.fixture(scope="module")
def both() -> Both:
    return switch(program())


def frames(number: int) -> tuple[bytes, bytes]:
    """What comes in for a sentence, and what leaves."""
    one = SENTENCES[number]
    return bytes([number]) + bytes.fromhex(one.comes), bytes([number]) + bytes.fromhex(one.leaves)


@pytest.mark.parametrize(
    ("number", "sentence"), [*enumerate(SENTENCES)], ids=[str(n) for n in range(len(SENTENCES))]
)
def test_a_packet_leaves_as_the_sentence_says(both: Both, number: int, sentence: Sentence) -> None:
    dataplane, _ = both
    comes, leaves = frames(number)
    dataplane.receive(0, IN_PORT, [comes], 0)
    sent = [(one.port, one.frame.hex()) for one in dataplane.transmit(0)]
    assert sent == [(OUT_PORT, leaves.hex())], sentence.text
    twin = [(port, data.hex()) for port, data in Twin(*both).sent(IN_PORT, comes)]
    assert twin == sent, sentence.text


def test_bmv2_sends_the_same(tmp_path: Path) -> None:
    require_bmv2()
    numbers = [number for number, one in enumerate(SENTENCES) if one.bmv2]
    arrivals = {IN_PORT: [(number, frames(number)[0]) for number in numbers]}
    sent = run_bmv2(tmp_path, program(), arrivals, len(numbers), ports=range(PORTS))
    wanted = Counter(frames(number)[1].hex() for number in numbers)
    assert Counter(frame.hex() for frame in sent[OUT_PORT]) == wanted


@pytest.mark.parametrize(("change", "message"), [(change, said) for _, _, change, said in REFUSED])
def test_what_is_not_taken_is_named(change: Change, message: str) -> None:
    document = json.loads(program())
    change(document)
    with pytest.raises(ProgramError, match=message):
        generate(read_program(json.dumps(document)))


def test_a_mask_of_a_value_set_has_whole_bytes() -> None:
    document = json.loads(program())
    (place,) = [
        one
        for one in document["parsers"][0]["parse_states"]
        if one["transitions"][0]["type"] == "parse_vset"
    ]
    place["transition_key"] = [{"type": "field", "value": ["first", name]} for name in ("n", "w")]
    place["transitions"][0]["mask"] = "0x0f0f00"
    document["parse_vsets"][0]["compressed_bitwidth"] = 16
    both = dataplane, control = switch(json.dumps(document))
    control.set_value_set("values", [(Exact(0xA), Exact(0xB00))])
    control.publish()
    number = int(place["name"].strip("p").split("_")[0])
    packet = bytes([number, *bytes(8), 0xAB, 0xCD])  # n is 0xa, w is 0xbcd
    dataplane.receive(0, IN_PORT, [packet], 0)
    (sent,) = dataplane.transmit(0)
    assert sent.frame[4:8] == bytes([0, 0, 0, 2]), "the state behind the set has run"
    assert [data for _, data in Twin(*both).sent(IN_PORT, packet)] == [sent.frame]


def test_fields_of_the_architecture_may_have_other_names() -> None:
    document = json.loads(program())
    (scalars,) = [one for one in document["header_types"] if one["name"] == "scalars_t"]
    scalars["fields"].append(["way", 9])
    document["field_aliases"].append(["standard_metadata.egress_spec", ["scalars", "way"]])
    text = json.dumps(document).replace(
        '["standard_metadata", "egress_spec"]}', '["scalars", "way"]}'
    )
    dataplane, _ = switch(text)
    comes, leaves = frames(0)
    dataplane.receive(0, IN_PORT, [comes], 0)
    assert [(one.port, one.frame) for one in dataplane.transmit(0)] == [(OUT_PORT, leaves)]


def test_the_page_lists_the_sentences_and_all_tests_that_it_names_are_there() -> None:
    assert PAGE.read_text() == page()
    for _, _, file, name in ELSEWHERE:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), name
