"""Scenarios: defaults, files, and what is said of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fabric import program_names

from weft.base.errors import InputError
from weft.controller.features.routes import PATHS as PLANNED_PATHS
from weft.experiments.paths.registry import scheme_of
from weft.experiments.runs.inputs import plan_of
from weft.experiments.scenario.options import OPTIONS, from_options
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import read_file
from weft.topo.faults import LinkLoss


def test_the_default_is_eight_ranks_on_a_leaf_spine() -> None:
    scenario = Scenario()
    network = scenario.network()
    assert len(network.hosts) == 8
    assert len(network.switches) == 6
    assert scenario.rate_bps == 100_000_000
    assert vars(scenario)["chains"] == 8


def test_help_names_all_that_an_option_can_be() -> None:
    for row in OPTIONS.values():
        if row.help and not row.name.endswith("dtype"):  # there are too many types
            assert not [name for name in row.choices if name not in row.described]


def test_options_that_take_each_others_place_both_say_so() -> None:
    for row in OPTIONS.values():
        assert all(row.name in OPTIONS[other].instead_of for other in row.instead_of)


def test_bmv2_has_a_lower_default_rate() -> None:
    assert Scenario(switch="bmv2").rate_bps < Scenario().rate_bps


def test_paths_are_what_the_controller_can_plan() -> None:
    schemes = ("ecmp", "destination", "spray", "spray-round-robin")
    assert {scheme_of(name).routes for name in schemes} <= set(PLANNED_PATHS)
    ecmp, *others = (from_options({"paths": paths}) for paths in schemes)
    assert Scenario() == ecmp
    network = ecmp.network()
    for other in others:
        assert network == other.network()
        assert (
            plan_of(program_names(), ecmp, network).entities
            != plan_of(program_names(), other, network).entities
        )


def test_a_file_has_the_options_of_the_command_line_and_they_override_it(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(
        'algorithm = "ring"\nhosts-per-leaf = 4\nloss = "1%"\nsize = "64KiB"\n'
        'fault = ["leaf0-spine1:loss=0.5", "h0>leaf0:loss=1"]\n'
    )
    (point,) = read_file(file, {"size": "4096"}).points
    scenario = point.scenario
    assert scenario.algorithms == ("ring",)
    assert len(scenario.network().hosts) == 16
    assert scenario.loss == 0.01
    assert scenario.size_bytes == 4096
    assert scenario.faults == (LinkLoss("leaf0-spine1", 0.5), LinkLoss("h0>leaf0", 1.0))


BY_SERVERS: dict[str, object] = {"collective": "allreduce", "algorithm": "optcast"}
BY_SWITCHES: dict[str, object] = {"collective": "allreduce", "algorithm": "switch"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topolgy": "single"}, ["unknown key", "'topolgy'", "topology"]),
        ({"topology": "ring"}, ["topology", "'ring'", "leaf-spine"]),
        ({"algorithm": ["multicats"]}, ["'multicats'", "did you mean multicast"]),
        ({"paths": "destinations"}, ["'destinations'", "did you mean destination", "ecmp"]),
        ({"mtu": 9000}, ["mtu 9000", "4096"]),
        ({"mtu": "big"}, ["mtu", "'big'"]),
        ({"leaves": 0}, ["leaves", "0"]),
        ({"hosts-per-leaf": 300}, ["hosts-per-leaf 300", "253"]),
        ({"topology": "single", "leaves": 2}, ["--leaves 2", "single", "--hosts-per-leaf"]),
        ({"topology": "fat-tree", "k": 5}, ["5", "even"]),
        ({"rate": "fast"}, ["rate", "'fast'", "100Mbit"]),
        ({"rate": "1bit"}, ["rate", "1"]),
        ({"size": "-1"}, ["size", "'-1'"]),
        ({"loss": 2}, ["loss", "2"]),
        ({"fault": "leaf0-spine9:loss=1"}, ["leaf0-spine9"]),
        ({"fault": "leaf0-spine1"}, ["'leaf0-spine1'", "LINK:loss=P"]),
        ({"fault": "leaf0-spine1:loss=x"}, ["loss", "'x'"]),
        ({"chains": 9}, ["chains", "9", "8"]),
        ({"repeat": 0}, ["repeat", "0"]),
        ({"world": "real"}, ["world", "'real'", "emulated"]),
        ({"switch": "ovs"}, ["switch", "'ovs'", "bmv2"]),
        ({"pcap": "yes"}, ["pcap", "'yes'", "true"]),
        ({"timeout": "soon"}, ["timeout", "'soon'"]),
        ({"size": "4GiB", "mtu": 256}, ["chunks", "--mtu"]),
        ({"leaves": "\uff14"}, ["leaves", "\uff14", "whole number"]),
        ({"leaves": "1_0"}, ["leaves", "'1_0'", "whole number"]),
        ({"leaves": " 4"}, ["leaves", "' 4'", "whole number"]),
        ({"leaves": 10**5000}, ["leaves", "509"]),
        ({"leaves": "9" * 5000}, ["leaves", "whole number"]),
        ({"timeout": "\uff11"}, ["timeout", "\uff11"]),
        ({"timeout": "1_0"}, ["timeout", "'1_0'"]),
        ({"timeout": float("nan")}, ["timeout", "nan"]),
        ({"hosts_per_leaf": "x"}, ["hosts-per-leaf", "'x'"]),
        ({"hosts_per_leaf": 2, "hosts-per-leaf": 3}, ["'hosts-per-leaf' is there twice"]),
        ({"algorithm": ["ring", "ring"]}, ["'ring'", "more than once", "--repeat"]),
        ({"topology": "fat-tree", "k": 34}, ["k 34", "32"]),
        ({"topology": "fat-tree", "k": 66, "tiers": 2}, ["k 66", "64"]),
        ({"leaves": 500, "hosts-per-leaf": 200}, ["100000 hosts", "8192"]),
        ({"collective": "broadcast", "chains": 2}, ["chains 2 means nothing", "leave chains out"]),
        *(
            ({"collective": name, "at-once": 2}, [f"at-once 2 means nothing for {name}", "leave"])
            for name in ("reshard", "pipeline", "fused")
        ),
        ({"algorithm": "ring", "chains": 2}, ["chains 2 means nothing for allgather by ring"]),
        ({"collective": "broadcast", "sizes": "1,2"}, ["sizes (1, 2) means nothing", "use size"]),
        ({"collective": "broadcast", "root": 8}, ["root 8", "0 to 7"]),
        ({"root": 1}, ["root 1 means nothing for allgather", "broadcast"]),
        ({"op": "max"}, ["op 'max' means nothing for allgather", "reduce-scatter"]),
        ({"op": "prod"}, ["op 'prod'", "sum, min, max"]),
        ({"data": "normal"}, ["data 'normal' means nothing for allgather", "reduce-scatter"]),
        ({"data": "gaussian"}, ["data 'gaussian' is unknown", "exact, normal, heavy-tailed"]),
        (
            {"collective": "allreduce", "data": "normal", "dtype": "int32"},
            ["data 'normal' means nothing for dtype int32", "choose a dtype like float32"],
        ),
        (
            {"collective": "allreduce", "algorithm": "ring", "data": "mixed", "op": "max"},
            ["data 'mixed' means nothing for op max", "sum and average", "leave data or op out"],
        ),
        ({"radix": 3}, ["radix 3 means nothing", "k-nomial"]),
        ({"algorithm": "multicast", "block": 4096}, ["block 4096 means nothing", "chunk"]),
        ({"algorithm": "ring", "workers": 2}, ["workers 2 means nothing", "multicast"]),
        ({"algorithm": "ring", "batch": 2}, ["batch 2 means nothing", "multicast"]),
        ({"algorithm": "ring", "cutoff": "paper"}, ["cutoff 'paper' means nothing", "multicast"]),
        ({"collective": "reduce-scatter", "chunk": 8192}, ["chunk 8192 means nothing"]),
        ({"chunk": 5000}, ["chunk 5000", "multiple", "4096"]),
        ({"workers": 17}, ["workers 17", "1 to 16"]),
        ({"at-once": 5}, ["at-once 5 is more than operations 1", "--operations"]),
        ({"size": 3, "dtype": "float32"}, ["size 3", "float32", "multiple of 4"]),
        ({"size": 1, "sizes": "2,3"}, ["size 1 and sizes '2,3'", "keep one"]),
        ({"sizes": []}, ["sizes []", "empty"]),
        ({"sizes": "1,,2"}, ["sizes '1,,2'", "size ''"]),
        ({"sizes": [1] * 9}, ["sizes are 9", "8 ranks"]),
        ({"dtype": ""}, ["dtype ''", "empty"]),
        ({"collective": ["allgather"]}, ["collective ['allgather'] is not text"]),
        ({"algorithm": [["ring"]]}, ["algorithm ['ring'] is not text"]),
        ({**BY_SERVERS, "split": -1}, ["split -1", "1 to 4096"]),
        ({**BY_SERVERS, "fan-in": 1}, ["fan-in 1", "2 to 8192"]),
        ({**BY_SERVERS, "fan-in": 2, "servers": 3}, ["fan-in 2", "8 ranks", "servers 3", "raise"]),
        ({**BY_SERVERS, "server-placement": "nowhere"}, ["'nowhere'", "dedicated, ranks"]),
        ({**BY_SERVERS, "server-placement": "ranks", "servers": 9}, ["servers 9", "8 ranks"]),
        ({**BY_SERVERS, "jobs": 3}, ["jobs 3", "divisor of 8"]),
        ({**BY_SERVERS, "topology": "fat-tree", "k": 2}, ["servers 1", "--server-placement ranks"]),
        ({**BY_SWITCHES, "values": 7}, ["7 values", "16, 32, 64, 128 or 256"]),
        ({**BY_SWITCHES, "values": 256, "mtu": 256}, ["values 256", "1040", "MTU 256"]),
        ({**BY_SWITCHES, "slots": 3}, ["slots 3", "power of 2"]),
        ({**BY_SWITCHES, "jobs": 8}, ["slots 128", "8 jobs", "512"]),
        ({**BY_SWITCHES, "dtype": "int64"}, ["'int64'", "float32, float16, bfloat16, int32"]),
        ({**BY_SWITCHES, "op": "max"}, ["'max'", "sum or average"]),
    ],
)
def test_bad_input_is_named_with_its_value_and_what_is_valid(
    options: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        from_options(options)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["leaves = ", "\x00", "algorithm = []", "a.b = 1", "leaves = 1.5"])
def test_a_bad_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"scenario\.toml"):
        read_file(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 3000, "nested too deeply"),
        ("leaves = " + "9" * 5000, "not valid TOML|out of range"),  # by Python
        ("hosts-per-leaf = 2\nhosts_per_leaf = 3", "'hosts-per-leaf' is there twice"),
        ('leaves = "1_0"', "leaves '1_0' is not a whole number"),
    ],
    ids=["nested", "digits", "twice", "text"],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_file(file)


@pytest.mark.parametrize("there", ["hosts_per_leaf", "hosts-per-leaf"])
@pytest.mark.parametrize("override", ["hosts_per_leaf", "hosts-per-leaf"])
def test_the_command_line_overrides_a_key_however_it_is_spelled(
    tmp_path: Path, there: str, override: str
) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(f"{there} = 3\npcap = true\npredict = false\n")
    (point,) = read_file(file, {override: "5", "pcap": False, "predict": True}).points
    scenario = point.scenario
    assert (scenario.hosts_per_leaf, scenario.pcap, scenario.predict) == (5, False, True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml.*No such file"):
        read_file(tmp_path / "missing.toml")


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-10, 1 << 70), st.floats(), st.text(max_size=8),
    st.lists(st.text(max_size=8), max_size=3),
)  # fmt: skip
_NAMES = st.sampled_from(
    ["leaves", "spines", "hosts-per-leaf", "k", "tiers", "rate", "mtu", "size", "algorithm",
     "chains", "loss", "fault", "queue", "timeout", "seed", "repeat", "pcap", "topology", "cutoff"]
)  # fmt: skip


@given(st.dictionaries(_NAMES, _VALUES, max_size=2))
def test_any_options_are_a_scenario_or_an_input_error(options: dict[str, object]) -> None:
    try:
        scenario = from_options(options)
    except InputError:
        return
    json.dumps(scenario.to_dict())
