"""What pipelines are called: schedules, ways of communication, and the algorithms that these make
together with strategies of resharding."""

from functools import cache

from weft.base.errors import InputError, did_you_mean
from weft.base.units import shown
from weft.experiments.families.pipeline.schedules import SCHEDULES
from weft.experiments.families.resharding.names import strategies

PIPELINE = "pipeline"
"""The collective: a training step of a model that is cut into stages."""
FILE_ENDING = ".toml"
COMMUNICATION = {
    "overlapped": "stages compute while tensors are on their way",
    "blocking": "a stage sends before it computes on",
    "signal": "tensors have one element: the bound",
}
"""How stages communicate, each with what help says of it."""
PIPELINE_MODELS = ("gpt-1.3b", "gpt-2.6b", "u-transformer-1b", "u-transformer-2b", "tiny", "tiny-u")
"""The names of `weft.experiments.families.pipeline.models.MODELS`, as help lists them."""
PIPELINE_SLOWDOWN = 0.1
"""By default a step takes a tenth of the time that it takes on the paper's links and devices."""
STRATEGY = "broadcast"
"""The strategy of resharding where none is named."""


@cache
def algorithms() -> tuple[str, ...]:
    """Return what a training step can be done by, files of schedules left out."""
    names = [
        algorithm_named(schedule, strategy, way)
        for way in COMMUNICATION
        for strategy in (STRATEGY, *strategies())
        for schedule in SCHEDULES
    ]
    return tuple(dict.fromkeys(names))


def algorithm_named(schedule: str, strategy: str, way: str) -> str:
    """Return the algorithm of a schedule, a strategy and a way of communication: ``1f1b``, or
    ``1f1b/multicast``, ``1f1b/multicast/blocking``, where these are not the usual ones."""
    usual = next(iter(COMMUNICATION))
    parts = [schedule]
    if strategy != STRATEGY:
        parts.append(strategy)
    if way != usual:
        parts.append(way)
    return "/".join(parts)


def parts_of_algorithm(algorithm: str) -> tuple[str, str, str]:
    """Return the schedule, the strategy and the way of communication of an algorithm.

    Raises:
        InputError: there are no such.
    """
    schedule, *rest = algorithm.split("/") if not _is_file(algorithm) else _of_file(algorithm)
    strategy, way = STRATEGY, next(iter(COMMUNICATION))
    for part in rest:
        if part in COMMUNICATION:
            way = part
        elif part in strategies():
            strategy = part
        else:
            raise InputError(
                f"pipeline algorithm {shown(algorithm)}: {shown(part)} is neither a strategy "
                f"({', '.join(strategies())}) nor a way of communication "
                f"({', '.join(COMMUNICATION)})"
            )
    if schedule not in SCHEDULES and not schedule.endswith(FILE_ENDING):
        raise InputError(
            f"schedule {shown(schedule)} is unknown{did_you_mean(schedule, SCHEDULES)}: choose "
            f"{', '.join(SCHEDULES)}, or name a file that ends in {FILE_ENDING}"
        )
    return schedule, strategy, way


def _is_file(algorithm: str) -> bool:
    return FILE_ENDING in algorithm


def _of_file(algorithm: str) -> list[str]:
    """Return the parts of an algorithm whose schedule is a file's, which may have slashes."""
    path, _, rest = algorithm.partition(FILE_ENDING)
    return [path + FILE_ENDING, *(part for part in rest.split("/") if part)]


EFFICIENCY = 0.4
"""Which part of a V100's peak training reaches, so that a device has 50 or 6.3 TFLOP/s. Chosen; a
scenario may say otherwise."""
