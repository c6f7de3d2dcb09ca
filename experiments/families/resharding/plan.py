"""The plan of a resharding: its unit tasks, who sends each, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.tensors import Box
from weft.base.arguments import items, text, whole, wholes
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.families.resharding.balancers import balanced
from weft.experiments.families.resharding.bounds import lower_bound
from weft.experiments.families.resharding.jobs import SenderChoice, job_of, times
from weft.experiments.families.resharding.meshes import Mesh, MeshDevice
from weft.experiments.families.resharding.names import BALANCE
from weft.experiments.families.resharding.specs import Spec, spec_of
from weft.experiments.families.resharding.unit_tasks import UnitTask, unit_tasks


@dataclass(frozen=True)
class Tensor:
    """A tensor that is sharded over one mesh, and is to be sharded over another.

    A list of sizes becomes a tuple, and numpy's type of elements its name.

    Raises:
        InputError: its shape or its type makes no sense, or an argument is of another type.
    """

    shape: tuple[int, ...]
    dtype: str
    """The type of its elements by numpy's name, or ``bfloat16``."""
    source_spec: str
    """How it is sharded, in Alpa's notation or as DTensor's placements (`specs.spec_of`)."""
    destination_spec: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", wholes("shape of a tensor", self.shape, "(1024, 512)"))
        for name in ("source_spec", "destination_spec"):
            text(f"{name} of a tensor", getattr(self, name), "'S0RR' or 'Shard(0),Replicate()'")
        if isinstance(self.dtype, (type, np.dtype)):
            object.__setattr__(self, "dtype", _name_of(self.dtype))
        if not self.shape or min(self.shape) < 1:
            raise InputError(f"shape {shown(self.shape)}: a tensor has dimensions of 1 at least")
        if not _is_element(self.dtype):
            raise InputError(
                f"dtype {shown(self.dtype)} is no type of numbers: choose one of numpy's, like "
                "int32 or float16, or bfloat16"
            )

    @property
    def item_bytes(self) -> int:
        """Return the bytes of an element."""
        return dtype_of(self.dtype).itemsize

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the whole tensor."""
        return prod(self.shape) * self.item_bytes


def _name_of(dtype: Any) -> str:
    """Return the name of a type of numpy's; of another type that of Python, which is refused."""
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(dtype.__name__)


def _is_element(name: str) -> bool:
    """Return whether a name is that of a type of numbers, numpy's or one registered with it."""
    if not isinstance(name, str):
        return False
    try:
        found = dtype_of(name)
    except (TypeError, ValueError, SyntaxError, AttributeError):
        return False
    plain = found.names is None and not found.shape and found.itemsize > 0
    return plain and found.kind in "biufcV" and found.char != "V"  # kind V has bfloat16, too


@dataclass(frozen=True)
class Resharding:
    """A resharding brings tensors from one mesh to another, all together.

    Raises:
        InputError: there are no tensors, or a sharding does not fit its mesh or its tensor.
    """

    source: Mesh
    destination: Mesh
    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if not self.tensors:
            raise InputError("a resharding of no tensors: it has one at least")
        for number in range(len(self.tensors)):
            self.specs(number)

    def specs(self, tensor: int) -> tuple[Spec, Spec]:
        """Return how a tensor is sharded at the source and at the destination."""
        one = self.tensors[tensor]
        return (
            spec_of(one.source_spec, self.source, one.shape),
            spec_of(one.destination_spec, self.destination, one.shape),
        )

    def source_tiles(self, tensor: int) -> list[Box]:
        """Return the tile of a tensor on each device of the source mesh."""
        return tiles(self.source, self.specs(tensor)[0], self.tensors[tensor])

    def destination_tiles(self, tensor: int) -> list[Box]:
        """Return the tile of a tensor on each device of the destination mesh."""
        return tiles(self.destination, self.specs(tensor)[1], self.tensors[tensor])

    def unit_tasks(self) -> tuple[UnitTask, ...]:
        """Return all unit tasks: tensor by tensor, by destination tile, by source tile."""
        found: list[UnitTask] = []
        for number, tensor in enumerate(self.tensors):
            source = zip(self.source.mesh_devices, self.source_tiles(number), strict=True)
            needed = zip(self.destination.mesh_devices, self.destination_tiles(number), strict=True)
            found += unit_tasks(number, tensor.item_bytes, list(source), list(needed))
        return tuple(found)


@dataclass(frozen=True)
class ReshardingPlan:
    """A plan of a resharding, as data. Times are in bytes that a host's link carries meanwhile."""

    source: Mesh
    destination: Mesh
    tensors: tuple[Tensor, ...]
    tasks: tuple[UnitTask, ...]
    """All unit tasks: tensor by tensor, by destination tile, by source tile."""
    senders: Mapping[int, MeshDevice]
    """By the number of a task that has to be sent over the network, the device that sends it."""
    order: tuple[int, ...]
    """The numbers of all tasks; those without a sender, which are copies inside hosts, are
    first."""
    spans: Mapping[int, tuple[int, int]]
    """By the number of a task, when it begins and ends by the model of
    `weft.experiments.families.resharding.balance`."""
    bound_bytes: int
    """Before this time no plan ends."""

    @property
    def resharding(self) -> Resharding:
        """Return what is planned."""
        return Resharding(self.source, self.destination, self.tensors)

    @property
    def makespan_bytes(self) -> int:
        """Return when the last task ends by the model."""
        return max((end for _, end in self.spans.values()), default=0)

    def source_tiles(self, tensor: int) -> list[Box]:
        """Return the tile of a tensor on each device of the source mesh."""
        return self.resharding.source_tiles(tensor)

    def destination_tiles(self, tensor: int) -> list[Box]:
        """Return the tile of a tensor on each device of the destination mesh."""
        return self.resharding.destination_tiles(tensor)


def tiles(mesh: Mesh, spec: Spec, tensor: Tensor) -> list[Box]:
    """Return the tile of each device of a mesh."""
    return [spec.tile(mesh, tensor.shape, device) for device in range(mesh.size)]


def plan_resharding(
    source: Mesh,
    destination: Mesh,
    tensors: Sequence[Tensor],
    balance: str = BALANCE,
    seed: int = 1,
) -> ReshardingPlan:
    """Plan a resharding ("On Optimizing the Communication of Model Parallelism", MLSys 2023, arXiv
    2211.05322, section 3).

    Args:
        source, destination: meshes, which may have hosts in common.
        tensors: one or several, which are resharded together.
        balance: how senders and order are chosen, one of `names.BALANCES`.
        seed: of what is drawn.

    Returns:
        the unit tasks, their senders and order, and bounds.

    Raises:
        InputError: a sharding does not fit its mesh or shape, a name is unknown, there is too much
            for the exact solver, or an argument is of another type.
    """
    for name, mesh in (("source", source), ("destination", destination)):
        if not isinstance(mesh, Mesh):
            raise InputError(
                f"{name} {shown(mesh)} is no mesh: give one, like weft.Mesh((0, 1), 4)"
            )
    example = "[weft.Tensor((1024, 512), 'int32', 'S0R', 'RS0')]"
    tensors = items("tensors", tensors, "tensors", example)
    for each in tensors:
        if not isinstance(each, Tensor):
            raise InputError(
                f"tensors {shown(tensors)}: {shown(each)} is no tensor: give a list of these, like "
                f"{example}"
            )
    text("balance", balance, f"{BALANCE!r}")
    seed = whole("seed", seed, "1")
    tasks = Resharding(source, destination, tensors).unit_tasks()
    sent = [number for number, task in enumerate(tasks) if task.remote]
    jobs = [job_of(tasks[number]) for number in sent]
    choice = balanced(balance, jobs, seed)
    copied = [number for number, task in enumerate(tasks) if not task.remote]
    return ReshardingPlan(
        source,
        destination,
        tensors,
        tasks,
        _devices(tasks, sent, choice),
        (*copied, *(sent[place] for place in choice.order)),
        dict(zip(sent, times(jobs, choice), strict=True)),
        lower_bound(jobs),
    )


plan = plan_resharding
"""The same by a shorter name, for whoever imports it from here."""


def _devices(
    tasks: Sequence[UnitTask], sent: Sequence[int], choice: SenderChoice
) -> dict[int, MeshDevice]:
    """Return the device that sends each task: of those of its host the least loaded."""
    load: dict[MeshDevice, int] = {}
    found: dict[int, MeshDevice] = {}
    for place in choice.order:
        number, host = sent[place], choice.senders[place]
        able = [device for device in tasks[number].senders if device.host == host]
        device = found[number] = min(able, key=lambda each: load.get(each, 0))
        load[device] = load.get(device, 0) + tasks[number].size_bytes
    return found
