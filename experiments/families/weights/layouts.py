"""Files of two meshes, as NCCL's M2N extension has them: JSON with ``train`` and ``generation``.

Each has `num_gpus` and sizes of axes. Trainers are folded as Megatron's are: within a stage the
devices are dp x cp x tp for most tensors, and dp x ep for those of experts, with as many replicas
as there are devices for. Engines have one mesh; experts that ep divides are not cut by tp.
"""

from pathlib import Path

import msgspec

from weft.base.documents import load
from weft.base.errors import InputError

MOST_BYTES = 1 << 20
MOST_SIZE = 1 << 20


class _Mesh(msgspec.Struct):
    num_gpus: int
    tp_size: int = 1
    cp_size: int = 1
    ep_size: int = 1
    pp_size: int = 1
    fsdp_size: int = 1
    dp_size: int = 1


class _System(msgspec.Struct):
    train: _Mesh
    generation: _Mesh


def read_layout(path: Path) -> tuple[str, str]:
    """Return the two meshes of a file, as `sides.read_side` takes them.

    Raises:
        InputError: it cannot be read, or a mesh has another size than its number of devices.
    """
    what = f"layout {str(path)!r}"
    system = load(_System, path, MOST_BYTES, what)
    for name, mesh in (("train", system.train), ("generation", system.generation)):
        for size in msgspec.structs.astuple(mesh):
            if not 1 <= size <= MOST_SIZE:
                raise InputError(f"{what}: {name} has a size of {size}: 1 to {MOST_SIZE} are valid")
    return _trainer(f"{what}: train", system.train), _engine(
        f"{what}: generation", system.generation
    )


def _trainer(what: str, mesh: _Mesh) -> str:
    inner = mesh.tp_size * mesh.cp_size * mesh.fsdp_size
    whole = inner * mesh.ep_size * mesh.dp_size * mesh.pp_size
    folded = inner * mesh.dp_size * mesh.pp_size
    stage, rest = divmod(mesh.num_gpus, mesh.pp_size)
    fits = mesh.num_gpus in (whole, folded) or mesh.dp_size == 1
    if rest or stage % inner or stage % mesh.ep_size or not fits:
        raise InputError(_wrong(what, mesh, whole))
    dense = _axes(
        pp=mesh.pp_size, dp=stage // inner, fsdp=mesh.fsdp_size, cp=mesh.cp_size, tp=mesh.tp_size
    )
    if mesh.ep_size == 1:
        return dense
    return f"{dense}/{_axes(dp=stage // mesh.ep_size, ep=mesh.ep_size)}"


def _engine(what: str, mesh: _Mesh) -> str:
    inner = mesh.tp_size * mesh.cp_size
    size = inner * mesh.fsdp_size * mesh.ep_size * mesh.dp_size * mesh.pp_size
    if size != mesh.num_gpus:
        raise InputError(_wrong(what, mesh, size))
    dense = _axes(
        pp=mesh.pp_size, dp=mesh.dp_size * mesh.ep_size, fsdp=mesh.fsdp_size, cp=mesh.cp_size,
        tp=mesh.tp_size,
    )  # fmt: skip
    if mesh.ep_size == 1:
        return dense
    return f"{dense}/{_axes(dp=mesh.dp_size * mesh.fsdp_size, ep=mesh.ep_size, cp=inner)}"


def _wrong(what: str, mesh: _Mesh, size: int) -> str:
    sizes = ", ".join(
        f"{name.removesuffix('_size')} {size}"
        for name, size in msgspec.structs.asdict(mesh).items()
        if name != "num_gpus" and size > 1
    )
    return (
        f"{what} has num_gpus {mesh.num_gpus}, and its axes ({sizes or 'none'}) are a mesh of "
        f"{size}: choose sizes that fit each other"
    )


def _axes(**sizes: int) -> str:
    """Return axes as `sides.read_side` takes them, those of one device left out."""
    said = [f"{name}={size}" for name, size in sizes.items() if size > 1]
    return ",".join(said) or "tp=1"
