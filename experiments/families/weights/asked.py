"""What is asked of a move of weights."""

from dataclasses import dataclass, replace

from weft.base.errors import InputError
from weft.base.option import FACTOR, NAMES, RESHARDING, SIZE, TEXT, WHOLE, WORKLOAD, option
from weft.base.units import format_size
from weft.experiments.families.resharding.asked import LOCAL_FACTOR_ROW
from weft.experiments.families.weights.names import (
    AXES,
    BALANCE,
    BUCKET_PARTS,
    DEVICES,
    MODELS,
    USUAL_BYTES,
    USUAL_STRATEGIES,
    WEIGHTS,
)
from weft.experiments.scenario.choices import DTYPES, TENSOR_DTYPES


def _check_scale(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} {value:g}: from {low:g} to {high:g}, as a part of the model")


_TYPES = tuple(name for name in (*DTYPES, *TENSOR_DTYPES) if "float" in name)
_AXES = "; ".join(f"{name}: {words}" for name, words in AXES.items())


@dataclass(frozen=True)
class WeightsAsked:
    """What is asked of a move of weights, beside what is asked of all kinds of work."""

    model: str | None = option(
        None,
        TEXT,
        f"{WEIGHTS}: {', '.join(MODELS)}, or a file: safetensors, their index, or a table "
        "of NCCL's M2N (.json).",
        group=WORKLOAD,
        default_text=f"of {WEIGHTS} {MODELS[0]}",
    )
    layers: int | None = option(
        None,
        WHOLE,
        f"{WEIGHTS}: the first N.",
        group=WORKLOAD,
        default_text="all",
        who=f"it is for {WEIGHTS}",
    )
    from_mesh: str = option(
        "",
        TEXT,
        f"The trainer's mesh, like pp=4,tp=2,dp=2 ({_AXES}); behind a slash the axes for experts "
        "within a stage, like pp=4,dp=16/ep=16.",
        group=RESHARDING,
        name="from",
        metavar="MESH",
        default_text="",
        instead_of=("layout",),
    )
    """Up to four axes, in any order (`weft.experiments.families.weights.names.AXES`). Device i of a
    mesh is on its host i // D, where a host has D (`devices`)."""
    to_mesh: str = option(
        "",
        TEXT,
        "The same of the inference engines, like tp=8,replicas=4.",
        group=RESHARDING,
        name="to",
        metavar="MESH",
        default_text="",
        instead_of=("layout",),
    )
    layout: str = option(
        "",
        TEXT,
        "Both meshes, as NCCL's M2N has them in a file (train and generation).",
        group=RESHARDING,
        metavar="FILE.json",
        default_text="",
        instead_of=("from", "to"),
    )
    devices: int | None = option(
        None,
        WHOLE,
        "Devices of a host, which share its link.",
        group=RESHARDING,
        default_text=f"{DEVICES}, or all of a smaller mesh",
        between=(1, 1024),
    )
    scale: float | None = option(
        None,
        replace(FACTOR, check=_check_scale),
        "Such a part of the model's bytes, roughly: its dimensions are cut by the square root.",
        group=RESHARDING,
        default_text=f"so that it has {format_size(USUAL_BYTES)}, roughly",
        between=(1e-9, 1.0),
    )
    bucket_bytes: int | None = option(
        None,
        SIZE,
        "Slices from the same devices to the same devices travel together, so many bytes at a "
        "time.",
        group=RESHARDING,
        name="bucket",
        default_text=f"1/{BUCKET_PARTS} of the model",
        between=(1024, 1 << 32),
    )
    from_dtype: str = option(
        "",
        TEXT,
        "The type of all elements at the trainer.",
        group=RESHARDING,
        default_text="the model's",
        choices=_TYPES,
    )
    to_dtype: str = option(
        "",
        TEXT,
        "The type of all elements at the inference engines; they are converted on the side that "
        "makes fewer bytes travel.",
        group=RESHARDING,
        default_text="the model's",
        choices=_TYPES,
    )
    strategies: tuple[str, ...] = option(
        (),
        NAMES,
        group=RESHARDING,
        name="strategy",
        default_text=f"of {WEIGHTS} {' and '.join(USUAL_STRATEGIES)}",
    )
    balances: tuple[str, ...] = option(
        (), NAMES, group=RESHARDING, name="balance", default_text=f"of {WEIGHTS} {BALANCE}"
    )
    local_factor: float | None = LOCAL_FACTOR_ROW
