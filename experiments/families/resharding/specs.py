"""Sharding specs: over which dimensions of a mesh each dimension of a tensor is cut.

Two notations are read. Alpa's, for meshes of two dimensions, has a letter for each dimension of the
tensor: ``R`` replicated, ``S0`` or ``S1`` cut over that dimension of the mesh, ``S01`` over both.
PyTorch's DTensor has a placement for each dimension of the mesh: ``Shard(0)``, ``Replicate()``.
A cut over dimensions of the mesh that have one device only would replicate, so in Alpa's notation
it is refused.

A dimension of n is cut into k tiles of ceil(n / k), as torch.chunk does; the last ones may be
smaller, or empty. Where a dimension is cut over several dimensions of the mesh, each tile is cut
again. If everything divides evenly, this is Alpa's way, too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.agents.collectives.tensors import Box
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.families.resharding.meshes import Mesh

_ALPA = re.compile(r"(?:R|S[0-9]+)+")
_LETTER = re.compile(r"R|S[0-9]+")
_INDEX = re.compile(r"-?[0-9]{1,9}")
_PLACEMENT = re.compile(r"(?P<kind>[A-Za-z_]+)\s*(?:\(\s*(?P<what>[^()]*?)\s*\))?")


@dataclass(frozen=True)
class Spec:
    """A spec says, for each dimension of a tensor, over which dimensions of a mesh it is cut, one
    after the other."""

    axes: tuple[tuple[int, ...], ...]

    def tile(self, mesh: Mesh, shape: Sequence[int], device: int) -> Box:
        """Return the slice that a device of the mesh has, given by its number."""
        place = mesh.coordinates(device)
        return tuple(
            _cut(size, [(mesh.shape[axis], place[axis]) for axis in axes])
            for size, axes in zip(shape, self.axes, strict=True)
        )


def _cut(size: int, parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the part of a dimension that is cut again and again: (how many parts, which)."""
    begin, end = 0, size
    for count, which in parts:
        step = -(-(end - begin) // count)
        begin, end = min(begin + which * step, end), min(begin + (which + 1) * step, end)
    return begin, end


def spec_of(text: str, mesh: Mesh, shape: Sequence[int]) -> Spec:
    """Return the spec that a text says, in Alpa's notation or as a list of placements.

    Raises:
        InputError: it is neither, or does not fit the mesh or the tensor's shape.
    """
    plain = text.strip()
    if _ALPA.fullmatch(plain) and (plain != "R" or len(mesh.shape) != 1):
        return _of_alpa(plain, mesh, shape)
    found = re.split(r",\s*(?![^()]*\))", plain)
    return spec_of_placements(found, mesh, shape)


def _of_alpa(text: str, mesh: Mesh, shape: Sequence[int]) -> Spec:
    letters = _LETTER.findall(text)
    if len(mesh.shape) != 2:
        raise InputError(
            f"sharding {shown(text)} is Alpa's, for meshes of two dimensions, and the mesh is "
            f"{mesh.describe()}: name a placement for each of its dimensions, like "
            "Shard(0),Replicate()"
        )
    if len(letters) != len(shape):
        raise InputError(
            f"sharding {shown(text)} is for tensors of {len(letters)} dimensions, and the shape "
            f"{', '.join(map(str, shape))} has {len(shape)}: write one R or S for each"
        )
    axes = tuple(tuple(map(int, letter[1:])) for letter in letters)
    used = [axis for each in axes for axis in each]
    for axis in used:
        if axis > 1:
            raise InputError(
                f"sharding {shown(text)} is over axis {axis} of the mesh, which has 0 and 1"
            )
        if used.count(axis) > 1:
            raise InputError(
                f"sharding {shown(text)} is over axis {axis} of the mesh twice: once at most is "
                "valid"
            )
    spec = Spec(axes)
    _check_cuts(text, spec, mesh)
    return spec


def _check_cuts(text: str, spec: Spec, mesh: Mesh) -> None:
    """Refuse a sharding that says of a dimension of the tensor that it is cut, over dimensions of
    the mesh that have one device: all of it would be everywhere. Raises InputError."""
    for dimension, axes in enumerate(spec.axes):
        if axes and all(mesh.shape[axis] == 1 for axis in axes):
            longer = [axis for axis, size in enumerate(mesh.shape) if size > 1]
            over = (
                f"over {' or '.join(map(str, longer))}, which has more, or not"
                if longer
                else ("not at all, since the mesh is one device")
            )
            words = "dimensions" if len(axes) > 1 else "dimension"
            raise InputError(
                f"sharding {shown(text)} cuts dimension {dimension} of the tensor over {words} "
                f"{', '.join(map(str, axes))} of the mesh {mesh.describe()}, where there is one "
                f"device, so that it would be replicated: cut it {over} (R)"
            )


def check_text_cuts(text: str, mesh: Mesh, shape: Sequence[int]) -> None:
    """Refuse what somebody writes by hand, in either notation, and that does not cut what it says
    it cuts. Placements of a program may: its mesh may have dimensions of one device, as torch's
    have. Raises InputError, also as `spec_of` does."""
    _check_cuts(text, spec_of(text, mesh, shape), mesh)


def spec_of_placements(placements: Sequence[Any], mesh: Mesh, shape: Sequence[int]) -> Spec:
    """Return the spec that DTensor's placements say, one for each dimension of the mesh.

    Args:
        placements: texts such as ``Shard(0)`` or ``S(0)`` and ``Replicate()`` or ``R``, or
            DTensor's own objects.

    Raises:
        InputError: one makes no sense, or they do not fit the mesh or the tensor's shape.
    """
    said = ",".join(map(str, placements))
    if len(placements) != len(mesh.shape):
        raise InputError(
            f"sharding {shown(said)} has {len(placements)} placements, and the mesh is "
            f"{mesh.describe()}: write one for each of its dimensions, like Shard(0),Replicate(), "
            "or Alpa's form, like S0RR"
        )
    axes: list[tuple[int, ...]] = [() for _ in shape]
    for axis, placement in enumerate(placements):
        dimension = _sharded(placement, said)
        if dimension is None:
            continue
        if not -len(shape) <= dimension < len(shape):
            raise InputError(
                f"sharding {shown(said)} cuts dimension {dimension} of a tensor that has "
                f"{len(shape)}: choose {-len(shape)} to {len(shape) - 1}"
            )
        axes[dimension] += (axis,)
    return Spec(tuple(axes))


def _sharded(placement: Any, said: str) -> int | None:
    """Return which dimension of a tensor a placement cuts; None for one that replicates."""
    # What torch calls strided is cut in another order of axes, though it says that it is a Shard.
    strided = hasattr(placement, "split_factor")
    if hasattr(placement, "is_shard") and hasattr(placement, "is_replicate") and not strided:
        if placement.is_replicate():
            return None
        if placement.is_shard():
            return int(placement.dim)
    found = None if strided else _PLACEMENT.fullmatch(str(placement).strip())
    kind = found["kind"].lower() if found else ""
    what = (found["what"] or "") if found else ""
    if kind in ("r", "replicate") and not what:
        return None
    what = re.sub(r"^dim\s*=\s*", "", what)
    if kind in ("s", "shard") and _INDEX.fullmatch(what):
        return int(what)
    why = (
        ", which has to be summed first: reduce it, then reshard it"
        if kind in ("partial", "_partial", "p")
        else ": write Shard(dimension) or Replicate(), or Alpa's form, like S0RR"
    )
    raise InputError(
        f"sharding {shown(said)}: {shown(str(placement).strip())} is no placement that can be "
        f"resharded{why}"
    )
