"""Checks of what a scenario says of FSDP interleaving, and the defaults for it."""

from dataclasses import replace

from weft.agents.collectives.names import MAX_SIZE_BYTES
from weft.base.errors import InputError
from weft.base.option import own_of, whole
from weft.experiments.families.flows.checks import MAX_LAYERS, check_slowdown
from weft.experiments.families.fsdp.asked import InterleavingAsked
from weft.experiments.families.fsdp.models import LAYERS, MODELS, SLOWDOWN, layer_bytes
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.family import with_own


def with_layers(asked: Asked) -> Asked:
    """Check and fill in what the layers of FSDP are like."""
    own = own_of(asked, InterleavingAsked)
    model = own.model
    if model is None:
        model = "" if asked.size_bytes != Asked.size_bytes else MODELS[0]
    layers = LAYERS if own.layers is None else own.layers
    whole("layers", layers, 1, MAX_LAYERS)
    own = replace(own, model=model, layers=layers)
    if not model:
        if own.slowdown is not None:
            raise InputError(
                f"slowdown {own.slowdown:g} means nothing for a layer of "
                f"{asked.size_bytes} bytes: it scales a model's; leave it out, or name a model "
                "in place of the size"
            )
        whole("size", asked.size_bytes, 1, MAX_SIZE_BYTES)
        return with_own(asked, own)
    choose("model", model, MODELS)
    slowdown = float(SLOWDOWN) if own.slowdown is None else own.slowdown
    check_slowdown(slowdown)
    size_bytes = layer_bytes(model, asked.rate_bps, slowdown)
    if not 0 < size_bytes <= MAX_SIZE_BYTES:
        raise InputError(
            f"a layer of {model} at {asked.rate_bps} bit/s, {slowdown:g} "
            f"times as slow, is {size_bytes} bytes: choose a slowdown with which it is 1 to "
            f"{MAX_SIZE_BYTES}"
        )
    return with_own(asked, replace(own, slowdown=slowdown), size_bytes=size_bytes)
