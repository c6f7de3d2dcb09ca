"""What is asked of a fused operator."""

from dataclasses import dataclass, replace
from functools import partial

from weft.agents.fused.device import FLOPS, LAUNCH_NS, MEMORY_BYTES_PER_S, PUT_NS
from weft.agents.operators.tasks import ORDERS
from weft.base.errors import InputError
from weft.base.option import (
    DURATION,
    FACTOR,
    FUSING,
    NAMES,
    SIZE,
    TEXT,
    WHOLE,
    WORKLOAD,
    option,
)
from weft.experiments.families.fused.names import (
    CLOCKS,
    DISPATCHES,
    OPERATORS,
    RATIO,
    SLICE_BYTES,
    THREADS,
    WAYS,
    WORKGROUPS,
)

_option = partial(option, group=FUSING)


def _check_between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} {value:g} is out of range: {low:g} to {high:g}")


@dataclass(frozen=True)
class FusedAsked:
    """What is asked of a fused operator, beside what is asked of all kinds of work."""

    slowdown: float | None = option(
        None,
        FACTOR,
        "fused: as on the device.",
        group=WORKLOAD,
        default_text="fused by ratio",
        instead_of=("ratio",),
    )
    operator: str | None = _option(
        None,
        TEXT,
        f"{'; '.join(f'{name}: {about}' for name, about in OPERATORS.items())}.",
        default_text=next(iter(OPERATORS)),
    )
    """The operator whose computation and communication are fused."""
    ways: tuple[str, ...] = _option(
        (),
        NAMES,
        "How bytes go; may be repeated. "
        f"{', '.join(f'{name} ({about})' for name, about in WAYS.items())}.",
        name="way",
        default_text=next(iter(WAYS)),
    )
    """How the bytes of an operator go. Each way is run fused and unfused, unless `algorithms` says
    what is run."""
    clock: str | None = _option(
        None,
        TEXT,
        f"Time to compute. {'; '.join(f'{name}: {about}' for name, about in CLOCKS.items())}.",
        choices=tuple(CLOCKS),
        default_text=next(iter(CLOCKS)),
    )
    """Whether computing takes the time that the declared device takes, or that which it takes on
    this machine's processors, a thread for each workgroup."""
    ratio: float | None = _option(
        None,
        replace(FACTOR, check=_check_between),
        "Time to compute over time to communicate, each alone.",
        default_text=f"{RATIO:g}",
        instead_of=("slowdown",),
        between=(0.001, 1000),
    )
    """What the kernel takes alone over what the communication takes alone: the device is made as
    slow as that needs. `slowdown` says how slow it is, in place of this."""
    flops: float | None = _option(
        None,
        replace(FACTOR, check=_check_between),
        "FLOP/s of the declared device.",
        default_text=f"{FLOPS / 1e12:g}e12",
        between=(1, 1e21),
    )
    """What all workgroups of the device compute with together. The defaults are those of AMD's data
    sheet of the Instinct MI210, with vectors of float32."""
    memory_bandwidth: float | None = _option(
        None,
        replace(FACTOR, check=_check_between),
        "Bytes/s of its memory.",
        default_text=f"{MEMORY_BYTES_PER_S / 1e12:g}e12",
        between=(1, 1e21),
    )
    """What all workgroups of the device read and write together."""
    launch_ns: int | None = _option(
        None,
        DURATION,
        "What it takes to launch a kernel on it.",
        name="launch-time",
        metavar="TIME",
        default_text=DURATION.write(int(LAUNCH_NS)),
        between=(0, 10**12),
    )
    put_ns: int | None = _option(
        None,
        DURATION,
        "What a put takes of its workgroup's time.",
        name="put-time",
        metavar="TIME",
        default_text=DURATION.write(int(PUT_NS)),
        between=(0, 10**12),
    )
    task_order: str | None = _option(
        None,
        TEXT,
        f"{'; '.join(f'{name}: {about}' for name, about in ORDERS.items())}.",
        choices=tuple(ORDERS),
        default_text="by the operator",
    )
    """The order in which a rank computes its tiles."""
    slice_bytes: int | None = _option(
        None,
        SIZE,
        "The most that one put brings, as far as tiles are not larger.",
        name="slice",
        default_text=SIZE.write(SLICE_BYTES),
        between=(4, 1 << 30),
    )
    workgroups: int | None = _option(
        None,
        WHOLE,
        "Workgroups of a device.",
        default_text=f"{WORKGROUPS}; measured {THREADS}",
        between=(1, 1024),
    )
    senders: int | None = _option(
        None,
        WHOLE,
        "Workgroups of them that only put, in a fused operator.",
        default_text="0",
        between=(0, 1023),
    )
    dispatch: str | None = _option(
        None,
        TEXT,
        "How tokens get to their experts: {choices}.",
        choices=DISPATCHES,
        default_text="none",
    )
    batch_size: int | None = _option(
        None,
        WHOLE,
        "Samples, tokens or rows of the whole input.",
        default_text="the operator's",
        between=(1, 1 << 24),
    )
    width: int | None = _option(
        None,
        WHOLE,
        "Columns of the result; of tables, numbers of a row.",
        default_text="the operator's",
        between=(1, 1 << 24),
    )
    inner: int | None = _option(
        None,
        WHOLE,
        "What a multiplication sums over.",
        default_text="the operator's",
        between=(1, 1 << 24),
    )
    tables: int | None = _option(
        None,
        WHOLE,
        "Embedding tables of all ranks.",
        default_text="the operator's",
        between=(1, 1 << 20),
    )
    table_rows: int | None = _option(
        None,
        WHOLE,
        "Rows of a table.",
        default_text="the operator's",
        between=(1, 1 << 24),
    )
    pooling: int | None = _option(
        None,
        WHOLE,
        "Rows of a table that are summed for a sample.",
        default_text="the operator's",
        between=(1, 1 << 16),
    )
    experts: int | None = _option(
        None,
        WHOLE,
        "Experts of all ranks.",
        default_text="the operator's",
        between=(1, 1 << 16),
    )
    top_k: int | None = _option(
        None,
        WHOLE,
        "Experts that a token goes to.",
        default_text="the operator's",
        between=(1, 1 << 16),
    )
    imbalance: float | None = _option(
        None,
        replace(FACTOR, check=_check_between),
        "How uneven experts are wanted: expert e in proportion to (e + 1) ** -X.",
        default_text="0",
        between=(0, 10),
    )
    tile_rows: int | None = _option(
        None,
        WHOLE,
        "Rows of a tile.",
        default_text="the operator's",
        between=(1, 1 << 24),
    )
