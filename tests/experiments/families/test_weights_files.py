"""Models and layouts in files: safetensors, and those of NCCL's M2N extension."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Scenario, run
from weft.base.errors import InputError
from weft.experiments.families.weights.files import read_model
from weft.experiments.families.weights.layouts import read_layout
from weft.experiments.families.weights.sides import read_side

Entries = Mapping[str, tuple[list[int], str]]

LAYER = {
    "input_layernorm.weight": ([8], "BF16"),
    "self_attn.q_proj.weight": ([16, 8], "BF16"),
    "self_attn.k_proj.weight": ([8, 8], "BF16"),
    "self_attn.v_proj.weight": ([8, 8], "BF16"),
    "self_attn.o_proj.weight": ([8, 16], "BF16"),
    "mlp.gate.weight": ([2, 8], "F32"),
    "mlp.experts.0.gate_proj.weight": ([6, 8], "F8_E4M3"),
    "mlp.experts.1.gate_proj.weight": ([6, 8], "F8_E4M3"),
    "mlp.experts.0.down_proj.weight": ([8, 6], "F8_E4M3"),
    "mlp.experts.1.down_proj.weight": ([8, 6], "F8_E4M3"),
}
TENSORS = {
    "lm_head.weight": ([32, 8], "BF16"),
    "model.embed_tokens.weight": ([32, 8], "BF16"),
    **{f"model.layers.{layer}.{name}": each for layer in (0, 1) for name, each in LAYER.items()},
}


def safetensors(path: Path, entries: Entries) -> None:
    """Write a file with a header, and as many bytes behind it as it says."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, dtype) in entries.items():
        size = 2
        for each in shape:
            size *= each
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def checkpoint(folder: Path) -> Path:
    """Write a model in two files, with an index and its configuration."""
    names = [*TENSORS]
    files = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, those in files.items():
        safetensors(folder / file, {name: TENSORS[name] for name in those})
    weight_map = {name: file for file, those in files.items() for name in those}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8, "head_dim": 4}
    (folder / "config.json").write_text(json.dumps(heads))
    return index


def table(entries: Entries) -> str:
    return json.dumps({name: {"shape": shape, "dtype": dtype, "shard": "x"}
                       for name, (shape, dtype) in entries.items()})  # fmt: skip


def test_an_index_of_safetensors(tmp_path: Path) -> None:
    model = read_model(checkpoint(tmp_path))
    assert read_model(tmp_path) == model or model.name != read_model(tmp_path).name
    found = {each.name: each for each in model.weights}
    assert model.layers == 2 and len(found) == 2 + 2 * 8
    first, last = model.weights[0], model.weights[-1]
    assert first.name == "model.embed_tokens.weight" and not first.behind and first.split == 0
    assert last.name == "lm_head.weight" and last.behind and last.split == 0
    queries = found["model.layers.1.self_attn.q_proj.weight"]
    assert (queries.layer, queries.split, queries.unit) == (1, 0, 4)
    assert found["model.layers.0.self_attn.o_proj.weight"].split == 1
    gate = found["model.layers.0.mlp.experts.gate_proj.weight"]
    assert (gate.shape, gate.split, gate.experts) == ((2, 6, 8), 1, 0)
    assert gate.dtype == "float8_e4m3fn"
    assert found["model.layers.0.mlp.experts.down_proj.weight"].split == 2
    assert found["model.layers.0.mlp.gate.weight"].split is None


def test_fused_tensors_are_cut_by_their_sections(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors(
        path,
        {
            "model.layers.0.self_attn.qkv_proj.weight": ([32, 8], "BF16"),
            "model.layers.0.mlp.gate_up_proj.weight": ([12, 8], "BF16"),
        },
    )
    with pytest.raises(InputError, match=r"put the model's config\.json beside it"):
        read_model(path)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8, "head_dim": 4}
    (tmp_path / "config.json").write_text(json.dumps(heads))
    fused, gate_up = read_model(tmp_path).weights
    assert (fused.sections, fused.unit) == ((16, 8, 8), 4)
    assert gate_up.sections == (6, 6)


def test_a_table_and_a_layout_are_run(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(table(TENSORS))
    train = {"num_gpus": 8, "tp_size": 2, "ep_size": 2, "pp_size": 2, "dp_size": 1}
    layout = {"_comment": "8 to 4", "train": train,
              "generation": {"num_gpus": 4, "tp_size": 2, "dp_size": 2}}  # fmt: skip
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    assert read_layout(tmp_path / "layout.json") == ("pp=2,dp=2,tp=2/dp=2,ep=2", "dp=2,tp=2")
    results = run(
        Scenario(
            "weights", world="simulated", topology="single", hosts_per_leaf=8, devices=2,
            model=str(tmp_path / "model.json"), layout=str(tmp_path / "layout.json"),
        )
    )  # fmt: skip
    assert results.verified
    moved = {each.algorithm: each.weights for each in results.runs}
    assert moved["multicast"].copies == 1


@pytest.mark.parametrize(
    ("mesh", "side", "expected"),
    [
        ({"num_gpus": 64, "ep_size": 16, "pp_size": 4}, "train", "pp=4,dp=16/ep=16"),
        (
            {"num_gpus": 64, "tp_size": 2, "cp_size": 2, "ep_size": 16, "pp_size": 4},
            "train", "pp=4,dp=4,cp=2,tp=2/ep=16",
        ),
        ({"num_gpus": 64, "tp_size": 8, "dp_size": 8}, "generation", "dp=8,tp=8"),
        (
            {"num_gpus": 16, "tp_size": 2, "ep_size": 4, "dp_size": 2}, "generation",
            "dp=8,tp=2/dp=2,ep=4,cp=2",
        ),
        ({"num_gpus": 1}, "generation", "tp=1"),
    ],
)  # fmt: skip
def test_layouts(tmp_path: Path, mesh: dict[str, int], side: str, expected: str) -> None:
    """Trainers are folded; engines have one mesh."""
    other = {"num_gpus": 1}
    pair = (mesh, other) if side == "train" else (other, mesh)
    document = dict(zip(("train", "generation"), pair, strict=True))
    (tmp_path / "layout.json").write_text(json.dumps(document))
    found = read_layout(tmp_path / "layout.json")[side != "train"]
    assert found == expected
    assert read_side("from", found).size == mesh["num_gpus"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "it is no object with tensors by their names"),
        ("{", "it is not valid JSON"),
        ("{}", "has no tensors"),
        ('{"w": {"shape": [2, 0]}}', "dimensions are whole numbers of 1 at least"),
        ('{"w": {"shape": []}}', "dimensions are whole numbers of 1 at least"),
        ('{"w": {"shape": [2], "dtype": "F4"}}', "has dtype 'F4': choose from"),
        ('{"w": {"dtype": "F32"}}', "shape"),
        ('{"weight_map": {"w": "../b.safetensors"}}', "is not beside it"),
        ('{"weight_map": {"w": "none.safetensors"}}', "cannot be read"),
        (
            '{"m.experts.0.w": {"shape": [2]}, "m.experts.2.w": {"shape": [2]}}',
            "has 2 experts, and expert 1 is not there",
        ),
        (
            '{"m.experts.0.w": {"shape": [2]}, "m.experts.1.w": {"shape": [3]}}',
            "experts of a layer are alike",
        ),
        (
            '{"num_layers": 1, "default_tensors": [{"name": "a", "dims": [4], "tp_shard_dim": 1}]}',
            "tensor parallelism cuts dimension 1",
        ),
        (
            '{"num_layers": 1, "default_tensors": [{"name": "a", "dims": [4, 4], '
            '"tp_shard_dim": 0, "ep_shard_dim": 0}]}',
            "for tensor and for expert parallelism",
        ),
        ('{"num_layers": 0, "default_tensors": []}', "num_layers 0"),
    ],
)  # fmt: skip
def test_bad_models_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_model(path)
    assert message in str(error.value) and str(error.value).startswith("model ")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"num_gpus": 4, "tp_size": 3}, "num_gpus 4, and its axes (tp 3) are a mesh of 3"),
        ({"num_gpus": 4, "tp_size": 2, "dp_size": 3}, "are a mesh of 6"),
        ({"num_gpus": 6, "pp_size": 4}, "are a mesh of 4"),
        ({"num_gpus": 4, "tp_size": 0}, "train has a size of 0"),
        ({"tp_size": 2}, "num_gpus"),
        ({"num_gpus": "four"}, "num_gpus"),
    ],
)
def test_bad_layouts_are_refused(tmp_path: Path, train: dict[str, Any], message: str) -> None:
    path = tmp_path / "layout.json"
    path.write_text(json.dumps({"train": train, "generation": {"num_gpus": 1}}))
    with pytest.raises(InputError) as error:
        read_layout(path)
    assert message in str(error.value) and "layout.json" in str(error.value)


def test_types_that_cannot_be_converted_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(table({"packed.weight": ([8, 8], "I32")}))
    with pytest.raises(InputError, match="of int32 cannot be converted to bfloat16"):
        Scenario("weights", world="simulated", model=str(path), from_mesh="tp=2", to_mesh="tp=2",
                 devices=1, to_dtype="bfloat16")  # fmt: skip


@given(st.binary(max_size=200), st.integers(0, 1 << 20))
def test_any_bytes_are_read_or_refused(tmp_path_factory: Any, data: bytes, length: int) -> None:
    path = tmp_path_factory.mktemp("any") / "model.safetensors"
    for content in (data, struct.pack("<Q", length) + data, struct.pack("<Q", len(data)) + data):
        path.write_bytes(content)
        with pytest.raises(InputError):
            read_model(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional={
    "weight_map": JSON, "default_tensors": JSON, "num_layers": JSON, "w": JSON,
    "m.layers.1.experts.0.q": st.fixed_dictionaries({"shape": JSON, "dtype": JSON}),
    "train": JSON, "generation": JSON,
}))  # fmt: skip
def test_any_json_is_read_or_refused(tmp_path_factory: Any, document: object) -> None:
    path = tmp_path_factory.mktemp("any") / "any.json"
    path.write_text(json.dumps(document))
    for read in (read_model, read_layout):
        try:
            read(path)
        except InputError as error:
            assert "any.json" in str(error)
