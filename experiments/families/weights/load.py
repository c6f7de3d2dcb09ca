"""Making of a move of weights from what a scenario asks: model, sides, plan, flows."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from weft.base.errors import InputError, MachineError, did_you_mean, refuse
from weft.base.units import format_size, shown
from weft.experiments.families.resharding.carrier import Carried, usual_block_bytes
from weft.experiments.families.resharding.names import STRATEGIES
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.weights.carry import carry
from weft.experiments.families.weights.files import is_file, read_model
from weft.experiments.families.weights.models import CONFIGURATIONS, model_named
from weft.experiments.families.weights.names import BUCKET_PARTS, DEVICES, USUAL_BYTES, parts_of
from weft.experiments.families.weights.options import WeightsOptions
from weft.experiments.families.weights.plan import Move, WeightsPlan, plan_weights
from weft.experiments.families.weights.sides import read_side
from weft.experiments.families.weights.table import Model

BLOCKS = 16
"""The largest bucket is passed on in so many blocks, as far as these are small."""


@lru_cache(maxsize=16)
def _model_of(name: str, scale: float, layers: int, stamp: tuple[int, ...]) -> Model:
    """Return the model that is asked for, in the size that is asked for. Raises `InputError`."""
    if name in CONFIGURATIONS:
        model = model_named(name)
    elif is_file(name):
        model = read_model(Path(name))
    else:
        raise InputError(
            f"model {shown(name)} is unknown{did_you_mean(name, CONFIGURATIONS)}: choose from "
            f"{', '.join(CONFIGURATIONS)}, or name a file that ends in .json or .safetensors, or a "
            "folder with a slash behind it"
        )
    if layers:
        model = model.of_layers(layers)
    return model.scaled(scale or min(1.0, USUAL_BYTES / model.size_bytes))


def move_of(options: WeightsOptions) -> Move:
    """Return the move that is asked for.

    Raises:
        InputError: what is asked makes no sense, or needs more hosts.
    """
    sides = read_side("from", options.source), read_side("to", options.destination)
    devices = [options.devices or min(DEVICES, side.size) for side in sides]
    move = Move(
        _model_of(options.model, options.scale, options.layers, options.stamp),
        *sides,
        (devices[0], devices[1]),
        options.source_dtype,
        options.destination_dtype,
    )
    hosts = sum(move.hosts)
    refuse(
        hosts > len(options.hosts),
        f"the meshes are {move.source.size} and {move.destination.size} devices, on "
        f"{move.hosts[0]} and {move.hosts[1]} hosts: the network has {len(options.hosts)} ranks; "
        "choose a larger network (--leaves, --hosts-per-leaf), more devices a host (--devices), or "
        "smaller meshes",
    )
    return move


@lru_cache(maxsize=16)
def _planned(options: WeightsOptions) -> WeightsPlan:
    move = move_of(options)
    _, balance = parts_of(options.algorithm)
    bucket_bytes = options.bucket_bytes or max(1024, move.model.size_bytes // BUCKET_PARTS)
    return plan_weights(move, balance, bucket_bytes, options.seed)


def plan_of(options: WeightsOptions) -> WeightsPlan:
    """Return the plan of a move, which is the same for all strategies. Raises `InputError` for what
    cannot be planned."""
    _, balance = parts_of(options.algorithm)
    return _planned(replace(options, algorithm=f"/{balance}"))


@lru_cache(maxsize=16)
def carried(options: WeightsOptions) -> Carried:
    """Return the flows of a move, and the tensors that they carry. Raises `InputError` for what
    makes no sense."""
    plan = plan_of(options)
    largest = max(bucket.size_bytes for bucket in plan.buckets)
    block_bytes = usual_block_bytes(options.block_bytes, largest, BLOCKS, options.mtu)
    flows = Flows(len(options.hosts), options.rate_bps, options.local_factor, block_bytes)
    strategy, _ = parts_of(options.algorithm)
    return carry(plan, STRATEGIES[strategy], flows, lambda host: options.places[host])


def check_memory(options: WeightsOptions, available_bytes: int | None) -> int:
    """Return how much memory all that hosts hold takes, roughly; raise `MachineError` for too much.

    Args:
        available_bytes: the memory that there is; None: it is not known.
    """
    plan = plan_of(options)
    copies = sum(
        bucket.size_bytes * (1 + sum(map(len, bucket.remote.values()))) for bucket in plan.buckets
    )
    if available_bytes is not None and copies > available_bytes:
        raise MachineError(
            f"weights: what all hosts hold is {format_size(copies)}, and "
            f"{format_size(available_bytes)} are free: choose a smaller --scale, fewer --layers, "
            "or in the simulated world --payload none"
        )
    return copies
