"""Whatever a scenario's field is given, it is taken or refused with an `InputError`."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from weft import Scenario, run
from weft.base.errors import InputError
from weft.experiments.scenario.families import choices

ANYTHING: list[Any] = [
    None, 0, -1, 10**30, True, 0.5, float("nan"), "", "x", "nan", "1..3", "\x00", b"x", (), (1,),
    ("ring", "ring"), [], {}, {"a": 1}, set(), object(),
]  # fmt: skip


@pytest.mark.parametrize("world", ["simulated", "emulated"])
@pytest.mark.parametrize("collective", choices())
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
        ({"jobs": None}, "jobs None is no whole number: give one, like 4"),
        ({"control_timeout_ns": "x"}, "control_timeout_ns 'x' is no whole number"),
        ({"seed": None}, "seed None is no whole number"),
        ({"hosts": "h0,h1"}, "hosts 'h0,h1' is no sequence: give a list or a tuple of texts"),
        ({"seeds": "1..3"}, r"seeds '1\.\.3' is no sequence: .* of whole numbers, like \(1, 2\)"),
        ({"pcap": "no"}, "pcap 'no' is neither True nor False"),
        ({"nonsense": 1}, "a scenario has no field 'nonsense'; its fields are"),
        ({"algorithm": "ring"}, r"no field 'algorithm' \(option algorithm is field 'algorithms'\)"),
        ({"algoritms": ("ring",)}, r"no field 'algoritms' \(did you mean algorithms\?\)"),
        ({"collective": "flows", "jobs": 0}, "jobs 0: 8 hosts for ranks do not make as many"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Scenario(**asked)


def test_lists_and_numbers_of_numpy_are_as_good_as_tuples_and_pythons() -> None:
    given: dict[str, Any] = {
        "algorithms": ["ring"], "hosts": ["h3", "h1"], "sizes_bytes": [8, 4], "seeds": [1, 2],
        "leaves": np.int64(2), "loss": np.float32(0.5), "faults": [],
    }  # fmt: skip
    found = Scenario("allgather", world="simulated", **given)
    assert found == Scenario(
        "allgather", world="simulated", algorithms=("ring",), hosts=("h3", "h1"),
        sizes_bytes=(8, 4), seeds=(1, 2), leaves=2, loss=0.5,
    )  # fmt: skip
    assert hash(found) and type(found.leaves) is int and type(found.loss) is float


@pytest.mark.parametrize("what", [3, "allgather", None])
def test_what_is_no_scenario_is_not_run(what: Any) -> None:
    with pytest.raises(InputError, match="there is nothing to run in it: give a weft"):
        run(what)
