"""The microbenchmarks of "On Optimizing the Communication of Model Parallelism" (MLSys 2023, arXiv
2211.05322, table 2 and figure 5)."""

from dataclasses import dataclass

from weft.base.errors import refuse
from weft.experiments.families.resharding.meshes import Mesh

DTYPE = "int32"


@dataclass(frozen=True)
class Case:
    """A case is two meshes and a tensor that is brought from one to the other."""

    source: Mesh
    source_spec: str
    destination: Mesh
    destination_spec: str
    shape: tuple[int, ...]
    dtype: str = DTYPE


_WHOLE = (1024, 1024, 512)
_CASES: dict[int, tuple[tuple[int, int], str, tuple[int, int], str, tuple[int, ...]]] = {
    1: ((2, 4), "S0RR", (2, 4), "S0RR", _WHOLE),
    2: ((2, 4), "RRR", (2, 4), "S0RR", _WHOLE),
    3: ((2, 4), "RS0R", (2, 4), "S0RR", _WHOLE),
    4: ((2, 4), "RS01R", (2, 4), "S01RR", _WHOLE),
    5: ((2, 4), "S1RR", (2, 4), "S0RR", _WHOLE),
    6: ((2, 4), "S0RR", (3, 4), "S0RR", (3072, 1024, 170)),
    7: ((1, 4), "S01RR", (2, 4), "RRR", _WHOLE),
    8: ((1, 4), "RS01R", (2, 4), "RRR", _WHOLE),
    9: ((2, 4), "RS0R", (2, 4), "RRS0", _WHOLE),
}
ONE_TO_MANY = 1 << 28
"""Elements of the tensor from one device to many."""
SMALLER = 8
"""The smaller variant of a tensor has so many times fewer elements in its first dimension."""


def meshes(source: tuple[int, int], destination: tuple[int, int]) -> tuple[Mesh, Mesh]:
    """Return two meshes of (hosts, devices) on hosts that follow each other."""
    (hosts, devices), (more, others) = source, destination
    return (
        Mesh(tuple(range(hosts)), devices),
        Mesh(tuple(range(hosts, hosts + more)), others),
    )


def case(number: int, *, full: bool = False) -> Case:
    """Return one of the nine cases; its first dimension is an eighth of the paper's unless it is
    to be ``full``."""
    refuse(number not in _CASES, f"case {number}: there are 1 to {len(_CASES)}")
    source, one, destination, other, shape = _CASES[number]
    first = shape[0] if full else shape[0] // SMALLER
    source_mesh, destination_mesh = meshes(source, destination)
    return Case(source_mesh, one, destination_mesh, other, (first, *shape[1:]))


def one_to_many(hosts: int, devices: int, elements: int = ONE_TO_MANY) -> Case:
    """Return the bringing of a tensor from one device to all of a mesh."""
    refuse(
        min(hosts, devices) < 1,
        f"one-to-many {hosts}x{devices}: a mesh has a host and a device at least",
    )
    refuse(elements < 1, f"one-to-many of {elements} elements: 1 at least is valid")
    source, destination = meshes((1, 1), (hosts, devices))
    return Case(source, "R", destination, "R", (elements,))
