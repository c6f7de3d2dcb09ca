"""Models in files: safetensors, by an index or alone, and the tables of NCCL's M2N extension.

Of safetensors nothing but headers is read (https://github.com/huggingface/safetensors: eight bytes
of length, then JSON). ``config.json`` beside them says how many heads there are. A table of M2N's
is JSON with shape and dtype by name, or `default_tensors` that each of `num_layers` layers has.

What tensor parallelism cuts is told by names, as Megatron and engines cut what is called so on
huggingface.co. Experts of a layer, a tensor each, become one tensor.
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from weft.base.documents import opened, parsed, typed
from weft.base.errors import InputError, refuse
from weft.base.files import read_bounded, told_as_input
from weft.base.units import shown
from weft.experiments.families.weights.table import Model, Weight, check_weight, layers_of

MOST_BYTES = 1 << 27
"""The largest document, or header, that is read."""
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
ENDINGS = (".json", ".safetensors")
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
"""The types of safetensors."""

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")
_EXPERT = re.compile(r"(?P<before>.+\.experts)\.(?P<number>\d{1,6})\.(?P<behind>.+)")
_COLUMNS = (
    "q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj", "q_a_proj",
    "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj",
)  # fmt: skip
"""Linear layers whose outputs are cut."""
_ROWS = ("o_proj", "down_proj")
"""Those whose inputs are cut."""
_HEADS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")
"""Those that have attention heads."""
_VOCABULARY = ("embed_tokens.weight", "lm_head.weight")


class _Entry(msgspec.Struct):
    shape: list[int]
    dtype: str = "BF16"


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class _Default(msgspec.Struct):
    name: str
    dims: list[int]
    tp_shard_dim: int | None = None
    ep_shard_dim: int | None = None
    dtype: str = "BF16"


class _Defaults(msgspec.Struct):
    num_layers: int
    default_tensors: list[_Default]


class Heads(msgspec.Struct):
    """What ``config.json`` says of attention heads."""

    num_attention_heads: int
    hidden_size: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None

    @property
    def head(self) -> int:
        """Return how many elements a head has."""
        return self.head_dim or max(1, self.hidden_size // max(1, self.num_attention_heads))


def is_file(name: str) -> bool:
    """Return whether a model is given by a path."""
    return os.sep in name or name.endswith(ENDINGS)


def read_model(path: Path) -> Model:
    """Return the model in a file or a folder.

    Raises:
        InputError: it cannot be read, or makes no sense; the message names the file and the tensor.
    """
    what = f"model {str(path)!r}"
    if path.is_dir():
        inside = path / INDEX
        path = inside if inside.exists() else path / SINGLE
    if path.name.endswith(".safetensors"):
        return _of_entries(what, _header(path), _heads(path.parent))
    document = opened(path, MOST_BYTES, what)
    if not isinstance(document, dict):
        raise InputError(f"{what} cannot be read: it is no object with tensors by their names")
    if "weight_map" in document:
        index = typed(_Index, document, f"{what} cannot be read")
        return _of_entries(what, _indexed(what, path.parent, index), _heads(path.parent))
    if "default_tensors" in document:
        return _of_defaults(what, typed(_Defaults, document, f"{what} cannot be read"))
    kept = {name: entry for name, entry in document.items() if not name.startswith("_")}
    return _of_entries(what, typed(dict[str, _Entry], kept, f"{what} cannot be read"), None)


def _header(path: Path) -> dict[str, _Entry]:
    what = f"model {str(path)!r}"
    problem = f"{what} cannot be read"
    with told_as_input(problem):
        first = read_bounded(path, 8, endings=(".safetensors",), start=True)
        (length,) = struct.unpack("<Q", first.ljust(8, b"\0"))
        if len(first) < 8 or not 2 <= length <= MOST_BYTES:
            raise InputError(f"{problem}: its first eight bytes are no length of a header")
        header = read_bounded(path, 8 + length, endings=(".safetensors",), start=True)[8:]
    refuse(
        len(header) < length,
        f"{problem}: its header has {length} bytes, and {len(header)} are there",
    )
    document = parsed(header, f"{problem}: its header is not valid JSON")
    if not isinstance(document, dict):
        raise InputError(f"{problem}: its header is no object")
    document.pop("__metadata__", None)
    return typed(dict[str, _Entry], document, problem)


def _indexed(what: str, folder: Path, index: _Index) -> dict[str, _Entry]:
    """Return all tensors of an index, from the headers of its files."""
    found: dict[str, _Entry] = {}
    for name in dict.fromkeys(index.weight_map.values()):
        if name != os.path.basename(name):
            raise InputError(f"{what}: file {shown(name)} is not beside it: name files alone")
        there = _header(folder / name)
        for tensor in (each for each, place in index.weight_map.items() if place == name):
            if tensor not in there:
                raise InputError(f"{what}: tensor {shown(tensor)} is not in {shown(name)}")
            found[tensor] = there[tensor]
    return found


def _heads(folder: Path) -> Heads | None:
    path = folder / "config.json"
    if not path.exists():
        return None
    what = f"configuration {str(path)!r}"
    document = opened(path, MOST_BYTES, what)
    if not isinstance(document, dict) or "num_attention_heads" not in document:
        return None
    return typed(Heads, document, f"{what} cannot be read")


def _of_defaults(what: str, document: _Defaults) -> Model:
    count = document.num_layers
    if not 1 <= count <= 10_000:
        raise InputError(f"{what}: num_layers {count}: 1 to 10000 are valid")
    weights = tuple(
        Weight(
            f"layers.{layer}.{each.name}", tuple(each.dims), _dtype(what, each.name, each.dtype),
            layer, split=each.tp_shard_dim, experts=each.ep_shard_dim,
        )
        for layer in range(count)
        for each in document.default_tensors
    )  # fmt: skip
    return Model(what.removeprefix("model "), weights, count)


def _of_entries(what: str, entries: Mapping[str, _Entry], heads: Heads | None) -> Model:
    """Return the model of tensors by their names."""
    grouped = _with_experts(what, entries)
    weights = [*_weights(what, grouped, heads)]
    count = layers_of(weights)
    order = {True: count, False: -1}
    weights.sort(key=lambda each: order[each.behind] if each.layer is None else each.layer)
    return Model(what.removeprefix("model "), tuple(weights), count)


def _with_experts(what: str, entries: Mapping[str, _Entry]) -> dict[str, tuple[_Entry, int]]:
    """Return all tensors, experts of a layer as one, with how many of these they are, or 0."""
    found: dict[str, tuple[_Entry, int]] = {}
    numbers: dict[str, set[int]] = {}
    for name, entry in entries.items():
        expert = _EXPERT.fullmatch(name)
        if expert is None:
            found[name] = entry, 0
            continue
        group = f"{expert['before']}.{expert['behind']}"
        there = found.setdefault(group, (entry, 0))[0]
        if (there.shape, there.dtype) != (entry.shape, entry.dtype):
            raise InputError(
                f"{what}: tensor {shown(name)} is {entry.shape} of {entry.dtype}, and that of "
                f"another expert {there.shape} of {there.dtype}: experts of a layer are alike"
            )
        numbers.setdefault(group, set()).add(int(expert["number"]))
    for group, those in numbers.items():
        lacking = next((number for number in range(len(those)) if number not in those), None)
        refuse(
            lacking is not None,
            f"{what}: {group} has {len(those)} experts, and expert {lacking} is not there",
        )
        found[group] = found[group][0], len(those)
    return found


def _weights(
    what: str, entries: Mapping[str, tuple[_Entry, int]], heads: Heads | None
) -> Iterator[Weight]:
    for name, (entry, experts) in entries.items():
        at = _LAYER.search(name)
        layer = int(at[1]) if at else None
        dtype = _dtype(what, name, entry.dtype)
        behind = layer is None and "embed" not in name
        weight = Weight(name, tuple(entry.shape), dtype, layer, behind)
        check_weight(what, weight)
        weight = _cut(what, weight, heads)
        if experts:
            split = None if weight.split is None else weight.split + 1
            weight = replace(weight, shape=(experts, *weight.shape), split=split, experts=0)
        elif ".experts." in name and len(weight.shape) > 2:
            weight = replace(weight, experts=0, split=None, sections=(), unit=1)
        yield weight


def _cut(what: str, weight: Weight, heads: Heads | None) -> Weight:
    """Return a tensor with what tensor parallelism cuts, by its name."""
    *_, layer, kind = ("", *weight.name.split("."))[-3:]
    if any(weight.name.endswith(name) for name in _VOCABULARY):
        return replace(weight, split=0)
    if kind not in ("weight", "bias") or (kind == "bias" and layer in _ROWS):
        return weight
    if layer in _ROWS and len(weight.shape) > 1:
        return _in_heads(replace(weight, split=1), layer, heads)
    if layer not in _COLUMNS:
        return weight
    rows = weight.shape[0]
    if layer == "gate_up_proj" and rows % 2 == 0:
        return replace(weight, split=0, sections=(rows // 2, rows // 2))
    if layer == "qkv_proj":
        if heads is None:
            raise InputError(
                f"{what}: tensor {shown(weight.name)} is queries, keys and values, and how many "
                "heads there are is not known: put the model's config.json beside it"
            )
        keys = (heads.num_key_value_heads or heads.num_attention_heads) * heads.head
        sections = (heads.num_attention_heads * heads.head, keys, keys)
        if sum(sections) != rows:
            raise InputError(
                f"{what}: tensor {shown(weight.name)} has {rows} rows, and by config.json its "
                f"heads have {sum(sections)}"
            )
        return replace(weight, split=0, sections=sections, unit=heads.head)
    return _in_heads(replace(weight, split=0), layer, heads)


def _in_heads(weight: Weight, layer: str, heads: Heads | None) -> Weight:
    """Return a tensor whose heads stay together, where it has whole ones."""
    assert weight.split is not None
    fits = heads is not None and layer in _HEADS and weight.shape[weight.split] % heads.head == 0
    return replace(weight, unit=heads.head) if heads is not None and fits else weight


def _dtype(what: str, name: str, dtype: str) -> str:
    if dtype not in DTYPES:
        raise InputError(
            f"{what}: tensor {shown(name)} has dtype {shown(dtype)}: choose from "
            f"{', '.join(DTYPES)}"
        )
    return DTYPES[dtype]
