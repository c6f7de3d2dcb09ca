"""Whatever a scenario's field is given, it is taken or refused with an `InputError`."""

from dataclasses import fields
from typing import Any

import pytest

from weft import Scenario
from weft.base.errors import InputError
from weft.experiments.scenario.choices import CHOICES

ANYTHING: list[Any] = [
    None, 0, -1, 10**30, True, 0.5, float("nan"), "", "x", "nan", "1..3", "\x00", b"x", (), (1,),
    ("ring", "ring"), [], {}, {"a": 1}, set(), object(),
]  # fmt: skip


@pytest.mark.parametrize("world", ["simulated", "emulated"])
@pytest.mark.parametrize("collective", CHOICES)
def test_a_value_of_any_type_is_taken_or_refused(collective: str, world: str) -> None:
    for field in fields(Scenario):
        for value in ANYTHING:
            asked = {"collective": collective, "world": world, field.name: value}
            try:
                Scenario(**asked)
            except InputError as refused:
                assert str(refused)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"world": None}, "world None is unknown: choose from emulated, simulated"),
        ({"topology": []}, "topology .* is unknown: choose from"),
        ({"jobs": None}, "jobs None is of a wrong type: it is int"),
        ({"control_timeout_ns": "x"}, r"control_timeout_ns 'x' is of a wrong type: it is int \| N"),
        ({"collective": "flows", "jobs": 0}, "jobs 0: 8 hosts for ranks do not make as many"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Scenario(**asked)
