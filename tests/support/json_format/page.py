"""The page of all sentences: ``.venv/bin/python -m tests.support.json_format.page`` writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.json_format.nodes import (
    ACTIONS,
    PARSERS,
    PIPELINES,
    TYPES_OF_HEADERS,
    Json,
    do,
    extract,
)
from tests.support.json_format.sentences import SENTENCES

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "json-format.md"
URL = "https://github.com/p4lang/behavioral-model/blob/main/docs/JSON_format.md"

ELSEWHERE = (
    ("headers", "Metadata is 0 when a packet comes.", "switch/engine/test_sentences.py",
     "test_a_packet_leaves_as_the_sentence_says"),
    (PARSERS, "A `parse_vset` with members, which a controller writes.",
     "switch/engine/test_engine_objects.py", "test_the_parser_looks_into_value_sets"),
    (PARSERS, "A `mask` of a `parse_vset` hides bits of its members, and has whole bytes.",
     "switch/engine/test_json_format.py", "test_a_mask_of_a_value_set_has_whole_bytes"),
    ("meter_arrays", "`packets` and `bytes`, at two rates.", "switch/engine/test_engine_objects.py",
     "test_meters_colour_packets_as_rfc_2698_defines"),
    ("meter_arrays", "`is_direct`, with a `result_target`.",
     "switch/compiler/test_compiler_v1model.py", "test_a_direct_meter_can_be_read_into_a_slice"),
    ("counter_arrays", "Packets and bytes, also with `is_direct`.", "switch/engine/test_engine.py",
     "test_counters_count_packets_and_bytes_by_port_and_entry"),
    (ACTIONS, "`assert` and `assume` that do not hold.", "switch/stf/test_stf.py",
     "test_an_assertion_that_does_not_hold_is_a_failure_with_its_place"),
    (PIPELINES, "`action_profiles`, also with a `selector`.", "switch/engine/test_engine.py",
     "test_a_selector_spreads_flows_by_the_crc32_of_its_fields_and_by_weight"),
    (PIPELINES, "The default of an `indirect` table is a member or a group.",
     "switch/engine/test_engine_objects.py",
     "test_the_default_of_an_indirect_table_is_a_member_or_a_group"),
    (PIPELINES, "`with_counters`.", "switch/engine/test_engine_objects.py",
     "test_direct_counters_are_written_and_those_of_default_entries_too"),
    (PIPELINES, "`support_timeout`.", "switch/engine/test_engine_objects.py",
     "test_an_entry_that_is_not_hit_is_reported_once_until_its_next_hit"),
    ("calculations", "Every `algo`.", "switch/engine/test_engine_calculations.py",
     "test_every_calculation_gives_what_it_gives_on_bmv2"),
    ("checksums", "`update`, `verify` and `if_cond`.", "switch/engine/test_sentences.py",
     "test_a_packet_leaves_as_the_sentence_says"),
    ("learn_lists", "Digests, with fields and constants.", "switch/engine/test_engine_objects.py",
     "test_digests_and_packets_for_the_controller_come_as_events_in_order"),
    ("extern_instances", "Those of PSA.", "switch/engine/test_psa.py",
     "test_packets_go_where_they_should"),
    ("field_aliases", "Fields of the architecture under names of the program's own.",
     "switch/engine/test_json_format.py", "test_fields_of_the_architecture_may_have_other_names"),
)  # fmt: skip
"""Sentences that have a test elsewhere: section, text, file of tests and name."""

Change = Callable[[Json], object]

REFUSED: tuple[tuple[str, str, Change, str], ...] = (
    (TYPES_OF_HEADERS, "`length_exp`, as p4c-bm made it of P4_14: p4c makes `extract_VL` of it",
     lambda d: d["parsers"][0]["parse_states"][1]["parser_ops"].append(extract("varied")),
     "'varied' has a varbit field: extract_VL is needed"),
    ("meter_arrays", "A `rate_count` other than 2",
     lambda d: d["meter_arrays"][0].update(rate_count=3), "meter 'pace' has 3 rates"),
    ("extern_instances", "Those of other architectures than PSA",
     lambda d: d.update(extern_instances=[{"name": "own"}]), "no extern instances .*: own"),
    ("\\_\\_meta\\_\\_", "A `version` other than 2.x",
     lambda d: d["__meta__"].update(version=[3, 1]), "version 3.1"),
    (ACTIONS, "Primitives that simple_switch does not have",
     lambda d: d["actions"][1]["primitives"].append(do("sleep")), "no primitive 'sleep'"),
    (PIPELINES, "A second `lpm` in a key, which the page says is not correct",
     lambda d: d["pipelines"][0]["tables"][0].update(
         key=[{"match_type": "lpm", "target": ["first", "a"], "mask": None}] * 2),
     "more than one lpm field"),
)  # fmt: skip
"""What is not taken: section, text, the change to the program, and what is said of it."""

_DIFFERENCES = (
    "BMv2 reads `access_union_header` as `access_field`, and ends.",
    "After `pop` of a stack of unions BMv2 sends headers that were taken out, too.",
    "Values of transitions that have too few bytes match nothing; BMv2 does not start.",
)


def page() -> str:
    """The page of all sentences."""
    lines = [
        "# What BMv2's JSON says, sentence by sentence",
        "",
        f"The page [JSON_format.md]({URL}) of p4lang/behavioral-model, in other words, and that "
        f"the built-in switch takes it. Each of the first {len(SENTENCES)} rows is a packet to one "
        "program of JSON that no compiler made (`tests/support/json_format`), whose first byte is "
        "the number of the row; the switch, the interpreter and, where it is installed, BMv2 must "
        "send the same. Sections are named by their titles.",
        "",
        "This page is made by `.venv/bin/python -m tests.support.json_format.page`; every row is a "
        "test.",
        "",
        "| section | what | case, or test |",
        "|---|---|---|",
    ]
    for number, sentence in enumerate(SENTENCES):
        lines.append(f"| {sentence.section} | {_cell(sentence.text)} | {number} |")
    for section, text, file, name in ELSEWHERE:
        lines.append(f"| {section} | {_cell(text)} | `{name}` in `tests/{file}` |")
    lines += ["", "## What is refused, with a message that names it", ""]
    lines += [f"- {text} ({section})." for section, text, _, _ in REFUSED]
    lines += ["", "## Where BMv2 goes another way", "", *(f"- {one}" for one in _DIFFERENCES), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
