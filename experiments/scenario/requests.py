"""What a scenario asks of its ranks: it makes a `Request` for each of its algorithms."""

from typing import Any

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.base.entry_points import blamed
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.kinds import kinds_of, own_values
from weft.experiments.scenario.losses import repeat_ns_per_kib


def request_of(asked: Asked, ranks: int, collective: str, algorithm: str, **more: Any) -> Request:
    """Return the request of one operation.

    Args:
        collective, algorithm: those of the scenario, or of a part of it.
        more: fields of the request besides those that options set, or in place of them.
    """
    item_bytes = dtype_of(more.get("dtype", asked.dtype)).itemsize
    sizes = asked.sizes_bytes and family_of(asked.collective).shard_sizes(asked, ranks)
    fields: dict[str, Any] = {
        "counts": tuple(size // item_bytes for size in sizes) or asked.size_bytes // item_bytes,
        "dtype": asked.dtype,
        "op": asked.op,
        "root": asked.root,
        "own": own_values(asked, kinds_of(collective, algorithm)[0]),
        "timeout_ns": round((asked.timeout_s or 0) * 1e9),
        "repeat_ns": repeat_ns_per_kib(asked),
    }
    return Request(0, collective, algorithm, **{**fields, **more})


def check_requests(asked: Asked, ranks: int) -> None:
    """Raise `InputError` for what an algorithm says that it cannot do.

    No algorithm is asked about flows: ranks send them as the workload says.
    """
    family = family_of(asked.collective)
    for algorithm in asked.algorithms if not family.sends_flows else ():
        for part in family.parts(asked.collective, algorithm):
            kind = algorithm_of(*part)
            with blamed(kind, "check"):
                kind.check(request_of(asked, ranks, *part))
