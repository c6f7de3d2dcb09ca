"""The plan of a move of weights: slices in buckets, who sends each, and in which order.

Each tensor is cut as a resharding cuts it (`weft.experiments.families.resharding.unit_tasks`).
Slices that the same devices have and the same devices need travel together, in buckets. Senders
and order are chosen by the balancers of reshardings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.tensors import Box, Cast, TensorShape, size_of
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.resharding.balancers import balanced
from weft.experiments.families.resharding.bounds import lower_bound
from weft.experiments.families.resharding.jobs import Job
from weft.experiments.families.resharding.meshes import MeshDevice
from weft.experiments.families.resharding.unit_tasks import UnitTask, unit_tasks
from weft.experiments.families.weights.sides import Side
from weft.experiments.families.weights.table import Model, Weight, carried_as, check_cast

MOST_BUCKETS = 1 << 16
Held = tuple[MeshDevice, Box]
"""A device, and what it has of a tensor."""
Ends = tuple[tuple[MeshDevice, ...], tuple[MeshDevice, ...]]
"""The devices that have a slice, and those that need it."""


@dataclass(frozen=True)
class Slice:
    """A part of a tensor in a bucket."""

    tensor: int
    box: Box
    size_bytes: int


@dataclass(frozen=True)
class Bucket:
    """A bucket is slices that travel together."""

    slices: tuple[Slice, ...]
    senders: tuple[int, ...]
    """The hosts that have all of them."""
    remote: Mapping[int, tuple[MeshDevice, ...]]
    """By host, the devices that need them."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all slices."""
        return sum(each.size_bytes for each in self.slices)


@dataclass(frozen=True)
class Tile:
    """What a device has of a tensor in the end."""

    device: MeshDevice
    tensor: int
    box: Box


@dataclass(frozen=True)
class WeightsPlan:
    """A plan of a move of weights, as data. Times are in bytes that a host's link carries."""

    tensors: tuple[TensorShape, ...]
    """All tensors, as they are carried."""
    buckets: tuple[Bucket, ...]
    """In the order in which they are sent."""
    senders: tuple[int, ...]
    """For each bucket, the host that sends it."""
    tiles: tuple[Tile, ...]
    """What every destination device has to have."""
    sources: tuple[int, ...]
    """The hosts of the trainer."""
    bound_bytes: int
    """Before this time no plan ends."""

    @property
    def model_bytes(self) -> int:
        """Return the bytes of all slices, each once: one model, as it is carried."""
        return sum(bucket.size_bytes for bucket in self.buckets)


@dataclass(frozen=True)
class Move:
    """A move brings the weights of a model from one side to another.

    Raises:
        InputError: a side's devices do not fill its hosts, or the two sides have a host in common.
    """

    model: Model
    source: Side
    destination: Side
    devices: tuple[int, int]
    """How many devices a host has, at each side."""
    source_dtype: str = ""
    destination_dtype: str = ""
    """The types of all elements at each side; empty: the model's."""

    def __post_init__(self) -> None:
        for side, devices in zip((self.source, self.destination), self.devices, strict=True):
            refuse(
                side.size % devices,
                f"{side.what} has {side.size} devices, which do not fill hosts of {devices}: choose"
                " another mesh, or another number of devices a host (--devices)",
            )

    @property
    def hosts(self) -> tuple[int, int]:
        """Return how many hosts each side has."""
        source, destination = self.devices
        return self.source.size // source, self.destination.size // destination

    def casts(self, weight: Weight) -> tuple[str, str, str]:
        """Return a tensor's types: at its source, on the way, at its destination. Raises
        `InputError`."""
        source = self.source_dtype or weight.dtype
        destination = self.destination_dtype or weight.dtype
        check_cast(self.model.name, weight, source, destination)
        return source, carried_as(source, destination), destination


@dataclass(frozen=True)
class Cut:
    """A section of a tensor: which device has which slice of it, and which needs which. Each
    side's slices are those of a grid."""

    tensor: int
    """The number of the tensor."""
    had: Sequence[Held]
    needed: Sequence[Held]


def plan_weights(move: Move, balance: str, bucket_bytes: int, seed: int) -> WeightsPlan:
    """Plan a move.

    Args: as `plan_cuts`.

    Raises:
        InputError: types that cannot be converted, or too many buckets.
    """
    tensors: list[TensorShape] = []
    cuts: list[Cut] = []
    first, layers = move.hosts[0], move.model.layers
    for number, weight in enumerate(move.model.weights):
        tensors.append(shape_of(weight.shape, *move.casts(weight)))
        had = _sections(move.source, weight, layers, 0, move.devices[0])
        needed = _sections(move.destination, weight, layers, first, move.devices[1])
        cuts += [Cut(number, *each) for each in zip(had, needed, strict=True)]
    names = [weight.name for weight in move.model.weights]
    return plan_cuts(names, tensors, cuts, balance, bucket_bytes, seed)


def shape_of(shape: tuple[int, ...], source: str, carried: str, destination: str) -> TensorShape:
    """Return a tensor as it is carried, by its types."""
    changes = len({source, carried, destination}) > 1
    cast = Cast(source, carried, destination) if changes else None
    return TensorShape(shape, dtype_of(carried).itemsize, cast)


def plan_cuts(
    names: Sequence[str], tensors: Sequence[TensorShape], cuts: Sequence[Cut], balance: str,
    bucket_bytes: int, seed: int,
) -> WeightsPlan:  # fmt: skip
    """Plan the bringing of tensors from devices to others, on other hosts.

    Args:
        names: what messages call the tensors.
        balance: how senders and order are chosen, one of `resharding.names.BALANCES`.
        bucket_bytes: the most that a bucket has, if a row of a slice has no more.
        seed: of what is drawn.

    Raises:
        InputError: the two sides of a cut do not have the same elements, or too many buckets.
    """
    tasks: list[UnitTask] = []
    for cut in cuts:
        _check_cover(names[cut.tensor], cut)
        tasks += unit_tasks(cut.tensor, tensors[cut.tensor].item_bytes, cut.had, cut.needed)
    buckets = [*_in_turn(_buckets(tasks, tensors, bucket_bytes))]
    refuse(
        len(buckets) > MOST_BUCKETS,
        f"bucket {bucket_bytes} bytes: {len(buckets)} buckets; at most {MOST_BUCKETS} are valid, "
        "choose larger ones (--bucket)",
    )
    jobs = [Job(bucket.size_bytes, bucket.senders, (*bucket.remote,)) for bucket in buckets]
    choice = balanced(balance, jobs, seed)
    return WeightsPlan(
        tuple(tensors),
        tuple(buckets[place] for place in choice.order),
        tuple(choice.senders[place] for place in choice.order),
        tuple(Tile(device, cut.tensor, box) for cut in cuts for device, box in cut.needed),
        tuple(sorted({device.host for cut in cuts for device, _ in cut.had})),
        lower_bound(jobs),
    )


def _sections(
    side: Side, weight: Weight, layers: int, first: int, devices: int
) -> list[list[Held]]:
    """Return, for each section of a tensor, the devices that have some of it, with what they
    have."""
    found: list[list[Held]] = [[] for _ in weight.sections or (0,)]
    for number in range(side.size):
        device = MeshDevice(first + number // devices, number % devices)
        for section, box in zip(found, side.spans(weight, layers, number), strict=True):
            if box is not None:
                section.append((device, box))
    return found


def _check_cover(name: str, cut: Cut) -> None:
    """Raise `InputError` unless both sides have the same elements, each once but for replicas."""
    had, needed = (
        sum(map(size_of, {box for _, box in each})) for each in (cut.had, cut.needed)
    )  # fmt: skip
    if had != needed:
        raise InputError(
            f"tensor {shown(name)}: the source has {had} of its elements, and the destination "
            f"{needed}: a layout has each element once, but for replicas"
        )


def _buckets(
    tasks: Iterable[UnitTask], tensors: Sequence[TensorShape], bucket_bytes: int
) -> dict[Ends, list[Bucket]]:
    """Return slices in buckets, by who has and who needs them."""
    found: dict[Ends, list[Bucket]] = {}
    slices: dict[Ends, list[Slice]] = {}
    filled: dict[Ends, int] = {}
    for task in tasks:
        ends = task.senders, task.receivers
        for each in _pieces(task, tensors[task.tensor].item_bytes, bucket_bytes):
            if ends in slices and filled[ends] + each.size_bytes > bucket_bytes:
                found.setdefault(ends, []).append(_bucket(slices.pop(ends), ends))
            if ends not in slices:
                slices[ends], filled[ends] = [], 0
            slices[ends].append(each)
            filled[ends] += each.size_bytes
    for ends, rest in slices.items():
        found.setdefault(ends, []).append(_bucket(rest, ends))
    return found


def _bucket(slices: Sequence[Slice], ends: Ends) -> Bucket:
    senders, receivers = ends
    remote: dict[int, list[MeshDevice]] = {}
    for device in receivers:
        remote.setdefault(device.host, []).append(device)
    hosts = dict.fromkeys(device.host for device in senders)
    return Bucket(tuple(slices), (*hosts,), {host: tuple(each) for host, each in remote.items()})


def _pieces(task: UnitTask, item_bytes: int, most_bytes: int) -> Iterator[Slice]:
    """Yield a slice, or parts of it by rows, each no larger than a bucket if a row is not."""
    (begin, end), *others = task.box
    row_bytes = size_of(tuple(others)) * item_bytes
    rows = max(1, most_bytes // row_bytes)
    for first in range(begin, end, rows):
        last = min(first + rows, end)
        yield Slice(task.tensor, ((first, last), *others), (last - first) * row_bytes)


def _in_turn(buckets: Mapping[Ends, Sequence[Bucket]]) -> Iterator[Bucket]:
    """Yield one bucket of each kind, then the second of each, and so on, so that all links are used
    from the start."""
    for each in zip_longest(*buckets.values()):
        yield from (bucket for bucket in each if bucket is not None)
