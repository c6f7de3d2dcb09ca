"""What a fused operator's communication takes alone: simulated, with computing that takes no time.

It decides how slow the declared device is where a scenario asks for a ratio of both, and is what a
run's time is compared with.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace as replace_fields

from weft.base.errors import RunError, refuse
from weft.base.option import own_of
from weft.experiments.families.fused.asked import FusedAsked
from weft.experiments.families.fused.names import (
    COMMUNICATION,
    COMPUTATION,
    FUSED,
    UNFUSED,
    algorithm_named,
    parts_of_algorithm,
)
from weft.experiments.families.fused.part import FusedTimes
from weft.experiments.families.fused.resolve import plan_of
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.registry import PREDICTING

LEAST_PART, MOST_SERIAL = 0.99, 1.1
"""How much of a part alone that was carried out an operator must take at least, and an unfused one
at most of both, one after the other."""


class Alone(NamedTuple):
    """What the parts of an operator take alone."""

    compute_ns: int
    communication_ns: int


def parts_of(algorithm: str) -> tuple[str, str]:
    """Return the algorithms by which an algorithm's computation and communication run alone."""
    return COMPUTATION, algorithm_named(COMMUNICATION, parts_of_algorithm(algorithm)[1])


def communication_ns(scenario: Scenario, algorithm: str, repetition: int = 0) -> int:
    """Return how long the communication of an algorithm takes if nothing has to be computed.

    Raises:
        RunError: it did not come to its end.
    """
    own, (_, alone) = own_of(scenario, FusedAsked), parts_of(algorithm)
    if own.dispatch not in (None, "none") and parts_of_algorithm(algorithm)[0] == FUSED:
        alone = algorithm  # fused, tokens still come while products already leave
    silent = scenario.part(
        scenario.collective, alone, world=PREDICTING,
        **vars(replace(own, ways=(), slowdown=0.0, ratio=None)),
    )  # fmt: skip
    return _simulated_ns(silent, alone, repetition)


@lru_cache(maxsize=256)
def _simulated_ns(scenario: Scenario, algorithm: str, repetition: int) -> int:
    run = simulate(scenario, program_of(scenario), algorithm, repetition, lambda _: None)
    if run.completion_ns is None:
        raise RunError(f"communication alone: {run.error}")
    return run.completion_ns


def is_slowed(scenario: Scenario) -> bool:
    """Return whether it is known how slow a scenario's device is, and not said by a ratio.

    Raises:
        InputError: it says twice how slow its device is.
    """
    own = own_of(scenario, FusedAsked)
    refuse(
        own.ratio is not None and own.slowdown is not None,
        f"ratio {own.ratio} beside slowdown {own.slowdown}: both say how slow the "
        "declared device is; leave one of them out",
    )
    return own.slowdown is not None


def slowed(scenario: Scenario) -> Scenario:
    """Return a scenario whose device is as slow as its ratio needs.

    Raises:
        InputError: it says twice how slow its device is, or the device takes no time at all.
        RunError: the communication of its operator alone did not come to its end.
    """
    if is_slowed(scenario):
        return scenario
    own, algorithm = own_of(scenario, FusedAsked), scenario.algorithms[0]
    wanted_ns = (own.ratio or 0) * communication_ns(scenario, algorithm)
    # Times are whole nanoseconds: of a slow device they are more exact.
    slow = with_own(scenario, replace(own, slowdown=1e6))
    kernel_ns = plan_of(slow, algorithm, slow.ranks).kernel_ns
    refuse(
        not kernel_ns and wanted_ns,
        f"ratio {own.ratio}: the declared device computes in no time, however slow it is "
        "made; choose less of flops and memory-bandwidth, or a launch-time",
    )
    return with_own(scenario, replace(own, slowdown=wanted_ns / max(1, kernel_ns) * 1e6))


def measured(run: Run, took_ns: Callable[[str], int]) -> Alone | None:
    """Return what the parts of an operator take alone on this machine, if its time is this
    machine's.

    Args:
        took_ns: runs an algorithm and returns how long it takes.

    Raises:
        RunError: a part did not verify.
    """
    fused = run.part(FusedTimes)
    if fused is None or run.completion_ns is None or fused.clock != "measured":
        return None
    return Alone(*map(took_ns, parts_of(run.algorithm)))


def compared(run: Run, scenario: Scenario, alone: Alone | None = None) -> Run:
    """Return the run of an operator with what its communication takes alone, and with the verdict
    ``invalid`` where that contradicts its time; any other run as it is.

    Args:
        alone: what its parts took alone, if that was measured.

    Raises:
        RunError: the communication alone did not come to its end.
    """
    fused = run.part(FusedTimes)
    if fused is None or run.completion_ns is None:
        return run
    if alone is None:
        alone_ns = communication_ns(scenario, run.algorithm, run.repetition)
        alone = Alone(fused.compute_ns, alone_ns)
    fused = replace_fields(fused, **alone._asdict())
    doubt = _doubt(run.algorithm, fused, run.completion_ns)
    if scenario.lossy or scenario.injected:
        doubt = ""  # what is lost, and so what the parts take, is another matter in each run
    fidelity = run.fidelity
    if doubt:
        fidelity = replace_fields(fidelity, verdict="invalid", reasons=[doubt, *fidelity.reasons])
    parts = {**run.parts, fused.key: fused}
    return replace_fields(run, parts=parts, fidelity=fidelity)


def _doubt(algorithm: str, fused: FusedTimes, completion_ns: int) -> str:
    """Say how times contradict each other: an operator that is faster than its parts, or an unfused
    one that is slower than both, one after the other, so that it is no baseline."""
    took = f"{algorithm} took {completion_ns / 1e6:.4g} ms"
    if parts_of_algorithm(algorithm)[0] not in (FUSED, UNFUSED):
        return ""
    # What is computed may overlap with what is added, so that less than both is possible.
    parts_ns = [fused.communication_ns, *[fused.compute_ns] * (fused.clock == "measured")]
    least_ns = max(fused.bound_ns, round(LEAST_PART * max(parts_ns)))
    if completion_ns < least_ns:
        return (
            f"{took}, and at least {least_ns / 1e6:.4g} ms are needed by its bound and by its "
            "parts alone: these are not measured well"
        )
    unfused = parts_of_algorithm(algorithm)[0] == UNFUSED
    if unfused and completion_ns > MOST_SERIAL * fused.serial_ns:
        return (
            f"{took}, more than {MOST_SERIAL:g} times its parts one after the other "
            f"({fused.serial_ns / 1e6:.4g} ms): it is no baseline"
        )
    return ""
