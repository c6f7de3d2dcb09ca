"""Random reshardings, for the tests of those who plan them and who carry them out."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.names import BALANCES
from weft.experiments.families.resharding.plan import Tensor

QUICK = tuple(name for name in BALANCES if name != "exact")
"""The balancers that take any number of tasks."""


@st.composite
def alpa_specs(draw: st.DrawFn, dimensions: int, mesh: Mesh) -> str:
    """Any sharding in Alpa's notation that cuts what it says it cuts."""
    letters = [""] * dimensions
    for axis in draw(st.permutations("01")):
        where = draw(st.integers(-1, dimensions - 1))
        if where >= 0:
            letters[where] += axis
    cut = [any(mesh.shape[int(axis)] > 1 for axis in each) for each in letters]
    return "".join(f"S{each}" if is_cut else "R" for each, is_cut in zip(letters, cut, strict=True))


@st.composite
def reshardings(draw: st.DrawFn, hosts: int = 5) -> tuple[Mesh, Mesh, list[Tensor]]:
    meshes = [
        Mesh(
            tuple(draw(st.permutations(range(hosts)))[: draw(st.integers(1, 3))]),
            draw(st.integers(1, 3)),
        )
        for _ in range(2)
    ]
    tensors = []
    for _ in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
        one, other = (draw(alpa_specs(len(shape), mesh)) for mesh in meshes)
        dtype = draw(st.sampled_from(["uint8", "int16", "float32", "complex128", "bfloat16"]))
        tensors.append(Tensor(shape, dtype, one, other))
    return meshes[0], meshes[1], tensors


def asked_of(meshes: tuple[Mesh, Mesh], tensors: list[Tensor]) -> dict[str, Any]:
    """What is asked of a scenario for a resharding of tensors of one dtype."""
    names = ("source", "destination")
    specs = [[tensor.source_spec for tensor in tensors],
             [tensor.destination_spec for tensor in tensors]]  # fmt: skip
    return {
        name: f"{','.join(f'h{host}' for host in mesh.hosts)}x{mesh.devices}:{';'.join(each)}"
        for name, mesh, each in zip(names, meshes, specs, strict=True)
    } | {
        "shape": ";".join(",".join(map(str, tensor.shape)) for tensor in tensors),
        "dtype": tensors[0].dtype,
    }
