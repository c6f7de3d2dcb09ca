"""What is asked of a resharding, checked and with defaults filled in."""

from dataclasses import replace

from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.errors import InputError, refuse
from weft.base.option import own_of
from weft.base.units import shown
from weft.experiments.families.resharding.asked import ReshardingAsked
from weft.experiments.families.resharding.carrier import Carried
from weft.experiments.families.resharding.load import carried, case_of, tensor_bytes
from weft.experiments.families.resharding.names import DTYPE, LOCAL_FACTOR, RESHARD
from weft.experiments.families.resharding.options import ReshardingOptions
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.shape import hosts_and_places


def carried_of(asked: Asked, algorithm: str, ranks: int) -> Carried:
    """Return what a resharding sends between so many ranks, and the tensors that it carries."""
    return carried(options_of(asked, algorithm, ranks))


def options_of(asked: Asked, algorithm: str, ranks: int) -> ReshardingOptions:
    """Return what is asked of a resharding."""
    own = own_of(asked, ReshardingAsked)
    names, places = hosts_and_places(asked)
    return ReshardingOptions(
        algorithm,
        names,
        places,
        asked.rate_bps,
        asked.mtu,
        own_of(asked, UnicastOptions).block_bytes or 0,
        LOCAL_FACTOR if own.local_factor is None else own.local_factor,
        asked.seed,
        asked.delay_ns,
        own.case,
        own.one_to_many,
        own.full,
        own.source,
        own.destination,
        own.shape,
        asked.dtype,
    )


def with_resharding(asked: Asked, ranks: int) -> Asked:
    """Check a resharding, and fill in how large it is."""
    own = own_of(asked, ReshardingAsked)
    refuse(
        not own.source and (own.destination or (own.shape and not (own.one_to_many or own.case))),
        "destination and shape are for a source mesh of one's own: say --source, too",
    )
    sized = [own.case is not None, bool(own.one_to_many), bool(own.source)]
    if not any(sized):
        raise InputError(
            "reshard needs to know what: choose --case 1 to 9, --one-to-many HxD, or --source, "
            "--destination and --shape"
        )
    if own.source and not (own.destination and own.shape):
        lacking = "shape" if own.destination else "destination"
        raise InputError(f"source {shown(own.source)} without {lacking}: say --{lacking}, too")
    refuse(
        own.full and (bool(own.shape) or not (own.case or own.one_to_many)),
        "full is for the paper's cases and their tensors: leave it out, or choose --case or "
        "--one-to-many, and no shape",
    )
    if own.local_factor is None:
        own = replace(own, local_factor=LOCAL_FACTOR)
    asked = with_own(asked, own, dtype=asked.dtype or DTYPE)
    options = options_of(asked, asked.algorithms[0], ranks)
    case_of(options)
    size_bytes = tensor_bytes(options)
    refuse(
        asked.size_bytes not in (Asked.size_bytes, size_bytes),
        f"size {asked.size_bytes} means nothing for {RESHARD}: the tensor has a shape; leave it "
        "out",
    )
    for algorithm in asked.algorithms:
        carried_of(asked, algorithm, ranks)
    return replace(asked, size_bytes=size_bytes)
