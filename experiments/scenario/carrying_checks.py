"""Checks of what a scenario says of a resharding, a training step or a fused operator, and the
defaults for them.

What plans them is loaded only where there is one, since it takes numpy with it.
"""

from dataclasses import replace

from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.fused.names import (
    FUSED,
    FUSED_OPERATORS,
    OPERATORS,
    RATIO,
    UNFUSED,
    WAYS,
    check_algorithm,
)
from weft.experiments.fused.names import algorithm_named as fused_algorithm
from weft.experiments.pipeline.names import (
    COMMUNICATION,
    PIPELINE,
    PIPELINE_MODELS,
    PIPELINE_SLOWDOWN,
    STRATEGY,
)
from weft.experiments.pipeline.names import algorithm_named as algorithm_name
from weft.experiments.pipeline.schedules import INTERLEAVED
from weft.experiments.resharding.names import (
    BALANCE,
    BALANCES,
    LOCAL_FACTOR,
    RESHARD,
    algorithm_named,
    strategies,
)
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.shards import carried_of, fused_options_of, resharding_options_of
from weft.experiments.scenario.workload_checks import check_slowdown


def with_strategies(asked: Asked) -> Asked:
    """Check strategies and balancers, and fill in the algorithms that they make."""
    for name in asked.strategies:
        choose("strategy", name, strategies())
    for name in asked.balances:
        choose("balance", name, tuple(BALANCES))
    for name in asked.communications:
        choose("communication", name, tuple(COMMUNICATION))
    for name in asked.ways:
        choose("way", name, tuple(WAYS))
    if asked.collective == PIPELINE:
        return _with_schedules(asked)
    if asked.collective == FUSED_OPERATORS:
        return _with_ways(asked)
    if asked.collective != RESHARD or not (asked.strategies or asked.balances):
        return asked
    names = tuple(
        algorithm_named(strategy, balance)
        for strategy in asked.strategies or strategies()[:2]
        for balance in asked.balances or (BALANCE,)
    )
    if asked.algorithms not in ((), names):
        raise InputError(
            f"algorithms {shown(', '.join(asked.algorithms))} beside strategy or balance: name "
            "strategies and balances, or algorithms, but not both"
        )
    return replace(asked, algorithms=names)


def _with_schedules(asked: Asked) -> Asked:
    if len(asked.balances) > 1:
        raise InputError(
            f"balance {', '.join(asked.balances)}: a pipeline's reshardings have one; name one"
        )
    if not (asked.schedules or asked.strategies or asked.communications):
        return asked
    names = tuple(
        algorithm_name(schedule, strategy, way)
        for schedule in asked.schedules or ("1f1b", "eager-1f1b")
        for strategy in asked.strategies or (STRATEGY,)
        for way in asked.communications or tuple(COMMUNICATION)[:1]
    )
    if asked.algorithms not in ((), names):
        raise InputError(
            f"algorithms {shown(', '.join(asked.algorithms))} beside schedule, strategy or "
            "communication: name those, or algorithms, but not both"
        )
    return replace(asked, algorithms=names)


def _with_ways(asked: Asked) -> Asked:
    names = tuple(
        fused_algorithm(kind, way)
        for way in asked.ways or tuple(WAYS)[:1]
        for kind in (UNFUSED, FUSED)
    )
    if bool(asked.ways) and asked.algorithms not in ((), names):
        raise InputError(
            f"algorithms {shown(', '.join(asked.algorithms))} beside way: name ways, or "
            "algorithms, but not both"
        )
    return replace(asked, algorithms=asked.algorithms or names)


def with_fused(asked: Asked, ranks: int) -> Asked:
    """Check a fused operator, and fill in how large it is."""
    from weft.experiments.fused.load import fused_operator

    operator = asked.operator or next(iter(OPERATORS))
    choose("operator", operator, tuple(OPERATORS))
    for algorithm in asked.algorithms:
        check_algorithm(operator, algorithm)
    if asked.dtype not in ("", "float32"):
        raise InputError(
            f"dtype {shown(asked.dtype)} means nothing for {FUSED_OPERATORS}: operators compute in "
            "float32; leave it out"
        )
    refuse(
        asked.slowdown is not None and not 0 <= asked.slowdown <= 1e12,
        f"slowdown {asked.slowdown} is out of range: 0 to 1e12",
    )
    measured = asked.clock == "measured"
    refuse(
        measured and asked.world == "simulated",
        "clock 'measured' means nothing in the simulated world, whose time is virtual: leave it "
        "out, or choose world emulated",
    )
    refuse(
        measured and (asked.ratio is not None or asked.slowdown not in (None, 0.0)),
        "ratio and slowdown are for a declared device, and clock 'measured' takes this machine: "
        "leave them out, and choose sizes, like --inner",
    )
    declared = (asked.flops, asked.memory_bandwidth, asked.launch_ns, asked.put_ns)
    refuse(
        measured and declared != (None,) * len(declared),
        "flops, memory-bandwidth, launch-time and put-time declare a device, and clock 'measured' "
        "takes this machine: leave them out",
    )
    if measured:
        asked = replace(asked, slowdown=0.0, predict=False)
    ratio = RATIO if asked.ratio is None and asked.slowdown is None else asked.ratio
    asked = replace(asked, operator=operator, ratio=ratio, dtype="float32")
    for algorithm in asked.algorithms:
        fused_operator(fused_options_of(asked, algorithm, ranks))
    size_bytes = fused_operator(fused_options_of(asked, UNFUSED, ranks)).computed_bytes
    refuse(
        asked.size_bytes not in (Asked.size_bytes, size_bytes),
        f"size {asked.size_bytes} means nothing for {FUSED_OPERATORS}: operators have sizes of "
        "their own, like --batch-size and --width; leave it out",
    )
    return replace(asked, size_bytes=size_bytes)


def with_pipeline(asked: Asked, ranks: int) -> Asked:
    """Check a training step, and fill in how large it is."""
    from weft.experiments.pipeline.models import EFFICIENCY

    choose("model", asked.model or PIPELINE_MODELS[0], PIPELINE_MODELS)
    check_slowdown(asked.slowdown)
    if asked.dtype not in ("", "uint8"):
        raise InputError(
            f"dtype {shown(asked.dtype)} means nothing for {PIPELINE}: models have types of their "
            "own; leave it out"
        )
    refuse(
        asked.micro_batches is not None and asked.micro_batches < 1,
        f"micro-batches {asked.micro_batches} is out of range: 1 at least",
    )
    if asked.model_chunks is not None and not any(
        name.startswith(INTERLEAVED) for name in asked.algorithms
    ):
        raise InputError(
            f"model-chunks {asked.model_chunks} means nothing for "
            f"{' and '.join(asked.algorithms)}: it is for {INTERLEAVED}; leave it out"
        )
    asked = replace(
        asked,
        model=asked.model or PIPELINE_MODELS[0],
        slowdown=PIPELINE_SLOWDOWN if asked.slowdown is None else asked.slowdown,
        efficiency=EFFICIENCY if asked.efficiency is None else asked.efficiency,
        local_factor=LOCAL_FACTOR if asked.local_factor is None else asked.local_factor,
    )
    most = 0
    for algorithm in asked.algorithms:
        graph = carried_of(asked, algorithm, ranks).graph
        most = most or graph.total_bytes
    refuse(
        asked.size_bytes not in (Asked.size_bytes, most),
        f"size {asked.size_bytes} means nothing for {PIPELINE}: the model has sizes; leave it "
        "out, or scale them (--slowdown)",
    )
    return replace(asked, size_bytes=most)


def with_resharding(asked: Asked, ranks: int) -> Asked:
    """Check a resharding, and fill in how large it is."""
    from weft.experiments.resharding.load import case_of, tensor_bytes

    refuse(
        not asked.source
        and (asked.destination or (asked.shape and not (asked.one_to_many or asked.case))),
        "destination and shape are for a source mesh of one's own: say --source, too",
    )
    sized = [asked.case is not None, bool(asked.one_to_many), bool(asked.source)]
    if not any(sized):
        raise InputError(
            "reshard needs to know what: choose --case 1 to 9, --one-to-many HxD, or --source, "
            "--destination and --shape"
        )
    if asked.source and not (asked.destination and asked.shape):
        lacking = "shape" if asked.destination else "destination"
        raise InputError(f"source {shown(asked.source)} without {lacking}: say --{lacking}, too")
    refuse(
        asked.full and (bool(asked.shape) or not (asked.case or asked.one_to_many)),
        "full is for the paper's cases and their tensors: leave it out, or choose --case or "
        "--one-to-many, and no shape",
    )
    asked = replace(
        asked,
        local_factor=LOCAL_FACTOR if asked.local_factor is None else asked.local_factor,
        dtype=asked.dtype or "int32",
    )
    options = resharding_options_of(asked, asked.algorithms[0], ranks)
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
