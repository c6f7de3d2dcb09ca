"""Checks of what a scenario says of a workload of flows, and the defaults for it.

What makes flows is loaded only if there is a workload, since it takes half of Weft with it.
"""

from collections.abc import Mapping

from weft.base.errors import InputError
from weft.base.units import shown

GPTS = ("gpt-7b", "gpt-13b", "gpt-small", "gpt-medium", "gpt-xl")
"""The names of `weft.experiments.families.flows.gpt.MODELS`, as help lists them."""
MODEL_SLOWDOWN = 10.0
"""The default slowdown of a model: with it an Allreduce of the 7B model is 84 KB at 100 Mbit/s, 2
MiB at 2.5 Gbit/s."""
MICRO_BATCHES = 1
"""How many micro-batches a step of a model has by default."""
BUFFER_BYTES = 1 << 20
"""The default size of a file's collective, for forms that do not say."""
MAX_MICRO_BATCHES = 64
MAX_LAYERS = 1000


def is_model(workload: str | None) -> bool:
    """Return whether a workload is a model's, and not a file."""
    return workload is not None and workload.startswith("gpt-") and "." not in workload


def default_algorithm(workload: str | None) -> tuple[str, ...]:
    """Return the algorithm that a scenario of flows runs if it names none."""
    from weft.experiments.families.flows.load import algorithms_for

    return algorithms_for(workload)[:1] if workload else ("given",)


def model_defaults(hosts_per_leaf: int) -> dict[str, float]:
    """Return the values that a model has by default."""
    return {"slowdown": MODEL_SLOWDOWN, "micro_batches": MICRO_BATCHES, "tensor": hosts_per_leaf}


def check_model(given: Mapping[str, int | None], ranks: int) -> None:
    """Raise `InputError` if a model's number of micro-batches, ranks or layers is out of range."""
    most = {"micro_batches": MAX_MICRO_BATCHES, "tensor": ranks, "layers": MAX_LAYERS}
    for name, highest in most.items():
        value = given.get(name)
        if value is not None and not 1 <= value <= highest:
            raise InputError(
                f"{name.replace('_', '-')} {shown(value)} is out of range: 1 to {highest}"
            )


def check_slowdown(slowdown: float | None) -> None:
    """Raise `InputError` if a slowdown is out of range."""
    if slowdown is not None and not 1e-6 <= slowdown <= 1e12:
        raise InputError(f"slowdown {slowdown:g} is out of range: 1e-6 to 1e12")


def check_algorithm(workload: str, algorithm: str) -> None:
    """Raise `InputError` for an algorithm that makes no sense for a workload."""
    from weft.experiments.families.flows.load import algorithms_for

    known = algorithms_for(workload)
    if algorithm not in known:
        raise InputError(
            f"algorithm {algorithm!r} means nothing for workload {shown(workload)}: "
            f"choose from {', '.join(known)}"
        )
