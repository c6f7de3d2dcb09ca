"""What is asked of a resharding."""

from dataclasses import dataclass, replace

from weft.base.errors import InputError
from weft.base.option import (
    FACTOR,
    FLAG,
    NAMES,
    RESHARDING,
    TEXT,
    WHOLE,
    option,
)
from weft.experiments.families.resharding.names import (
    AUTO,
    BALANCE,
    BALANCES,
    LOCAL_FACTOR,
    STRATEGIES,
    strategies,
)


def _known_strategies() -> str:
    """List the resharding strategies: ``broadcast (a chain over the hosts), ... or auto``."""
    about = {name: STRATEGIES.fact(name, "about") for name in strategies() if name != AUTO}
    return ", ".join(
        f"{name} ({words})" if words else name
        for name, words in {**about, AUTO: "the best by the model"}.items()
    )


def _check_local_factor(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} {value:g}: from {low:g} to {high:g}")


STRATEGY_ROW = option(
    (),
    NAMES,
    f"How slices are sent; may be repeated. {_known_strategies()}.",
    group=RESHARDING,
    name="strategy",
    default_text=f"{' and '.join(strategies()[:2])}",
)
"""How slices of tensors get from their senders to the hosts that need them. With `balances`
these make up `algorithms`."""
BALANCE_ROW = option(
    (),
    NAMES,
    "How senders and order are chosen; may be repeated. "
    f"{', '.join(f'{name} ({about})' for name, about in BALANCES.items())}.",
    group=RESHARDING,
    name="balance",
    default_text=BALANCE,
)
LOCAL_FACTOR_ROW = option(
    None,
    replace(FACTOR, check=_check_local_factor),
    "Copies inside a host are X times as fast as its link.",
    group=RESHARDING,
    default_text=f"{LOCAL_FACTOR:g}",
    between=(0.01, 1e9),
)
"""How fast a host copies between its devices. These copies are modelled: they take this time,
and the bytes are in the tiles in the end."""


@dataclass(frozen=True)
class ReshardingAsked:
    """What is asked of a resharding, beside what is asked of all kinds of work."""

    strategies: tuple[str, ...] = STRATEGY_ROW
    balances: tuple[str, ...] = BALANCE_ROW
    case: int | None = option(
        None,
        WHOLE,
        "One of the nine cases of MLSys 2023, the tensor an eighth.",
        group=RESHARDING,
        instead_of=("one-to-many", "source", "destination"),
        between=(1, 9),
    )
    """A case of table 2 of "On Optimizing the Communication of Model Parallelism" (MLSys 2023,
    arXiv 2211.05322); its tensor's first dimension is an eighth of the paper's."""
    one_to_many: str = option(
        "",
        TEXT,
        "From one device to H hosts of D devices, like 4x2.",
        group=RESHARDING,
        metavar="HxD",
        default_text="",
        instead_of=("case", "source", "destination"),
    )
    full: bool = option(
        False,
        FLAG,
        "The paper's whole tensor.",
        group=RESHARDING,
    )
    source: str = option(
        "",
        TEXT,
        "The source mesh and the tensor's sharding, like 2x4:S0RR or h0,h3x4:Shard(0),Replicate().",
        group=RESHARDING,
        metavar="MESH:SPEC",
        default_text="",
        instead_of=("case", "one-to-many"),
    )
    """A mesh is hosts and devices a host: the first ranks, or the hosts that are named. Behind a
    slash may stand its shape, if that is not hosts x devices, with names or without: ``2x4/8``,
    ``2x4/dp=2,tp=4``. The sharding is Alpa's, or a list of DTensor's placements; of several
    tensors, with semicolons between."""
    destination: str = option(
        "",
        TEXT,
        "The same of the destination.",
        group=RESHARDING,
        metavar="MESH:SPEC",
        default_text="",
        instead_of=("case", "one-to-many"),
    )
    """The destination as `source` has it; hosts that are not named are those behind the source's.
    """
    shape: str = option(
        "",
        TEXT,
        "The tensor's shape, like 3072,1024,170, also in place of a case's.",
        group=RESHARDING,
        metavar="N,...",
        default_text="",
    )
    """The shape of the tensor, in place of a case's, too; of several tensors, with semicolons
    between."""
    local_factor: float | None = LOCAL_FACTOR_ROW
