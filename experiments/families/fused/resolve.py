"""What is asked of a fused operator, checked and with defaults filled in."""

from dataclasses import replace

from weft.agents.fused import device
from weft.agents.fused.plan import FusedPlan
from weft.agents.operators.operator import Sizes
from weft.base.errors import InputError, refuse
from weft.base.option import own_of
from weft.base.units import shown
from weft.experiments.families.fused.asked import FusedAsked
from weft.experiments.families.fused.load import fused_operator, fused_plan, with_defaults
from weft.experiments.families.fused.names import (
    FUSED_OPERATORS,
    OPERATORS,
    RATIO,
    SLICE_BYTES,
    THREADS,
    UNFUSED,
    WORKGROUPS,
    check_algorithm,
)
from weft.experiments.families.fused.options import FusedOptions
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.family import with_own
from weft.topo.worlds.registry import has_real_time


def plan_of(asked: Asked, algorithm: str, ranks: int) -> FusedPlan:
    """Return a fused operator as a graph of flows. Raises `InputError` for what makes no sense."""
    return fused_plan(options_of(asked, algorithm, ranks))


def options_of(asked: Asked, algorithm: str, ranks: int) -> FusedOptions:
    """Return what is asked of a fused operator. Raises `InputError` for sizes that it does not
    have."""
    own = own_of(asked, FusedAsked)
    operator = own.operator or next(iter(OPERATORS))
    sizes = Sizes(
        own.batch_size or 0,
        own.width or 0,
        own.inner or 0,
        own.tables or 0,
        own.table_rows or 0,
        own.pooling or 0,
        own.experts or 0,
        own.top_k or 0,
        own.imbalance or 0.0,
        own.tile_rows or 0,
        "" if own.dispatch in (None, "none") else own.dispatch or "",
    )
    return FusedOptions(
        operator,
        algorithm,
        ranks,
        asked.seed,
        with_defaults(operator, sizes),
        own.task_order or "",
        own.slice_bytes or SLICE_BYTES,
        own.senders or 0,
        _device_of(own),
    )


def _device_of(own: FusedAsked) -> device.ComputeDevice:
    """Return the device that a fused operator computes on."""
    if own.clock == "measured":
        return device.ComputeDevice(own.workgroups or THREADS, 0.0, measured=True)
    return device.ComputeDevice(
        own.workgroups or WORKGROUPS,
        own.slowdown or 0.0,
        own.flops or device.FLOPS,
        own.memory_bandwidth or device.MEMORY_BYTES_PER_S,
        device.LAUNCH_NS if own.launch_ns is None else own.launch_ns,
        device.PUT_NS if own.put_ns is None else own.put_ns,
    )


def with_fused(asked: Asked, ranks: int) -> Asked:
    """Check a fused operator, and fill in how large it is."""
    own = own_of(asked, FusedAsked)
    operator = own.operator or next(iter(OPERATORS))
    choose("operator", operator, tuple(OPERATORS))
    for algorithm in asked.algorithms:
        check_algorithm(operator, algorithm)
    if asked.dtype not in ("", "float32"):
        raise InputError(
            f"dtype {shown(asked.dtype)} means nothing for {FUSED_OPERATORS}: operators compute in "
            "float32; leave it out"
        )
    refuse(
        own.slowdown is not None and not 0 <= own.slowdown <= 1e12,
        f"slowdown {own.slowdown} is out of range: 0 to 1e12",
    )
    measured = own.clock == "measured"
    refuse(
        measured and not has_real_time(asked.world),
        "clock 'measured' means nothing in the simulated world, whose time is virtual: leave it "
        "out, or choose world emulated",
    )
    refuse(
        measured and (own.ratio is not None or own.slowdown not in (None, 0.0)),
        "ratio and slowdown are for a declared device, and clock 'measured' takes this machine: "
        "leave them out, and choose sizes, like --inner",
    )
    declared = (own.flops, own.memory_bandwidth, own.launch_ns, own.put_ns)
    refuse(
        measured and declared != (None,) * len(declared),
        "flops, memory-bandwidth, launch-time and put-time declare a device, and clock 'measured' "
        "takes this machine: leave them out",
    )
    if measured:
        own, asked = replace(own, slowdown=0.0), replace(asked, predict=False)
    ratio = RATIO if own.ratio is None and own.slowdown is None else own.ratio
    asked = with_own(asked, replace(own, operator=operator, ratio=ratio), dtype="float32")
    for algorithm in asked.algorithms:
        fused_operator(options_of(asked, algorithm, ranks))
    size_bytes = fused_operator(options_of(asked, UNFUSED, ranks)).computed_bytes
    refuse(
        asked.size_bytes not in (Asked.size_bytes, size_bytes),
        f"size {asked.size_bytes} means nothing for {FUSED_OPERATORS}: operators have sizes of "
        "their own, like --batch-size and --width; leave it out",
    )
    return replace(asked, size_bytes=size_bytes)
