"""What is asked of a move of weights, checked and with defaults filled in."""

import os
from dataclasses import replace
from pathlib import Path

from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.errors import InputError, refuse
from weft.base.option import own_of
from weft.base.units import shown
from weft.experiments.families.resharding.carrier import Carried
from weft.experiments.families.resharding.names import LOCAL_FACTOR
from weft.experiments.families.weights.asked import WeightsAsked
from weft.experiments.families.weights.layouts import read_layout
from weft.experiments.families.weights.load import carried, plan_of
from weft.experiments.families.weights.names import MODELS, WEIGHTS
from weft.experiments.families.weights.options import WeightsOptions
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.shape import hosts_and_places


def carried_of(asked: Asked, algorithm: str) -> Carried:
    """Return what a move of weights sends, and the tensors that it carries."""
    return carried(options_of(asked, algorithm))


def options_of(asked: Asked, algorithm: str) -> WeightsOptions:
    """Return what is asked of a move of weights."""
    own = own_of(asked, WeightsAsked)
    source, destination = own.from_mesh, own.to_mesh
    if own.layout:
        source, destination = read_layout(Path(own.layout))
    model = own.model or MODELS[0]
    names, places = hosts_and_places(asked)
    return WeightsOptions(
        algorithm,
        names,
        places,
        asked.rate_bps,
        asked.mtu,
        own_of(asked, UnicastOptions).block_bytes or 0,
        own.local_factor or LOCAL_FACTOR,
        asked.seed,
        source,
        destination,
        model,
        _stamp(model),
        own.scale or 0.0,
        own.layers or 0,
        own.devices or 0,
        own.bucket_bytes or 0,
        own.from_dtype,
        own.to_dtype,
    )


def _stamp(model: str) -> tuple[int, ...]:
    if model in MODELS:
        return ()
    try:
        state = os.stat(model)
    except (OSError, ValueError):  # it is told where it is read
        return ()
    return state.st_mtime_ns, state.st_size


def with_weights(asked: Asked) -> Asked:
    """Check a move of weights, and fill in how large it is."""
    own = own_of(asked, WeightsAsked)
    for name, mesh in (("from", own.from_mesh), ("to", own.to_mesh)):
        if not (mesh or own.layout):
            raise InputError(
                f"{WEIGHTS} needs two meshes, and --{name} is not there: say --from and --to, like "
                "--from pp=4,tp=2,dp=2 --to tp=8,replicas=4, or --layout FILE.json"
            )
    if asked.dtype not in ("", "uint8"):
        raise InputError(
            f"dtype {shown(asked.dtype)} means nothing for {WEIGHTS}: a model has types of its "
            "own; leave it out, or choose --from-dtype and --to-dtype"
        )
    own = replace(
        own,
        model=own.model or MODELS[0],
        local_factor=LOCAL_FACTOR if own.local_factor is None else own.local_factor,
    )
    asked = with_own(asked, own)
    size_bytes = plan_of(options_of(asked, asked.algorithms[0])).model_bytes
    refuse(
        asked.size_bytes not in (Asked.size_bytes, size_bytes),
        f"size {asked.size_bytes} means nothing for {WEIGHTS}: the model has a size; leave it out, "
        "or scale it (--scale, --layers)",
    )
    for algorithm in asked.algorithms:
        carried_of(asked, algorithm)
    return replace(asked, size_bytes=size_bytes)
