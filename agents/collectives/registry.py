"""All algorithms by collective and name: those of Weft, and those that other packages bring."""

from functools import cache

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.names import ALGORITHMS, algorithms
from weft.agents.collectives.needs import Needs
from weft.agents.collectives.requests import Request
from weft.base.entry_points import blamed
from weft.base.errors import InputError


@cache
def algorithm_of(collective: str, name: str) -> Algorithm:
    """Return the algorithm of a collective. Raises `InputError` where there is none of that
    name."""
    known = algorithms()
    if name not in known.get(collective, ()):
        raise InputError(
            f"{collective} has no algorithm {name!r}: choose from "
            f"{', '.join(known.get(collective, ('no collective of that name',)))}"
        )
    found: Algorithm = ALGORITHMS[name]
    return found


def named(name: str) -> Algorithm | None:
    """Return the algorithm of a name, whatever it does; None where there is none of that name."""
    return ALGORITHMS.get(name)


def needs_of(request: Request) -> Needs:
    """Return what an operation needs of the network."""
    if request.flows is not None:
        return Needs()
    algorithm = algorithm_of(request.collective, request.algorithm)
    with blamed(algorithm, "needs"):
        return algorithm.needs(algorithm.own(request))


def partners(request: Request, rank: int, size: int) -> set[int]:
    """Return with whom a rank needs a queue pair for an operation, beside those that every
    communicator has."""
    if request.flows is not None:
        return request.flows.partners(rank)
    algorithm = algorithm_of(request.collective, request.algorithm)
    with blamed(algorithm, "partners"):
        return {*algorithm.partners(request, rank, size)}
