"""Every rule of the specification: what keeps it is taken, what breaks it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.compiler_rules import (
    CHAPTERS,
    FOLDER,
    PAGE,
    ROOT,
    Part,
    Rule,
    check,
    elsewhere,
    page,
    program,
    rules,
)

RULES = [pytest.param(rule, id=f"{name}-{number}") for name, items in rules().items()
         for number, rule in enumerate(items)]  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_what_keeps_a_rule_is_taken_and_what_breaks_it_is_refused(
    tmp_path: Path, rule: Rule
) -> None:
    source = tmp_path / "program.p4"
    assert check(source, program(Part(rule.frame, rule.accept))) == [], rule.accept
    taken = [part.text for part in rule.refused() if not check(source, program(part))]
    assert taken == [], rule.text


STATEMENTS = [rule for items in rules().values() for rule in items if rule.frame == "apply"]


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_a_rule_holds_in_functions_actions_and_states_and_in_what_is_never_run(
    tmp_path: Path, number: int
) -> None:
    source = tmp_path / "program.p4"
    keeps, *breaks = elsewhere(STATEMENTS[number], number)
    if check(source, program(keeps)):
        return  # a state has no switch, a generic function no variables of all types
    taken = [part for part in breaks if not check(source, program(part))]
    assert taken == []


def test_every_rule_has_its_programs_and_a_module_that_checks_it() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(CHAPTERS)
    for items in rules().values():
        for rule in items:
            assert rule.section and rule.text.endswith(".") and rule.reject, rule
            assert (ROOT / "switch" / "compiler" / rule.by).is_file(), rule.by


def test_the_page_lists_the_rules_as_they_are() -> None:
    assert PAGE.read_text() == page()
