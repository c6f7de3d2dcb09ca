"""The two sides of a move of weights: which device of a mesh has which part of a tensor."""

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod

from weft.agents.collectives.tensors import Box
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import shown
from weft.experiments.families.weights.names import AXES
from weft.experiments.families.weights.table import Weight

Axes = tuple[tuple[str, int], ...]
Span = tuple[int, int]

_ORDER = tuple(AXES)
MOST_AXES = 4
MOST_DEVICES = 1 << 14
_AXIS = re.compile(r"(?P<name>[A-Za-z]\w*)=(?P<size>[0-9]{1,6})", re.ASCII)


@dataclass(frozen=True)
class Side:
    """A side is a mesh of devices, and what they hold of a model.

    Tensors of experts may see the same devices as a mesh of other axes (Megatron's parallel
    folding): each stage's devices are then divided anew.

    Raises:
        InputError: axes that make no mesh.
    """

    what: str
    """What messages call it: ``from`` or ``to``, with what was written."""
    axes: Axes
    expert_axes: Axes
    """The axes for tensors of experts."""

    def __post_init__(self) -> None:
        for axes in (self.axes, self.expert_axes):
            _check_axes(self.what, axes)
        size = prod(size for _, size in self.expert_axes)
        refuse(
            size != self.size,
            f"{self.what}: the axes for experts are {size} devices, and the others {self.size}: "
            "choose sizes whose products are the same",
        )

    @cached_property
    def size(self) -> int:
        """Return the number of devices."""
        return prod(size for _, size in self.axes)

    def spans(self, weight: Weight, layers: int, device: int) -> list[Box | None]:
        """Return what a device, given by its number, has of each section of a tensor; None where it
        has nothing."""
        experts = weight.experts is not None
        place = _place(self.expert_axes if experts else self.axes, device)
        stage, stages = place.get("pp", (0, 1))
        if stage != _stage(weight, layers, stages):
            return [None] * max(1, len(weight.sections))
        whole: list[Span] = [(0, size) for size in weight.shape]
        if weight.experts is not None and "ep" in place:
            whole[weight.experts] = _part(whole[weight.experts], *place["ep"])
        cut = weight.split if weight.split is not None else 0
        parts = _sections(weight) if weight.split is not None else [whole[0]]
        if weight.split is not None and "tp" in place:
            parts = [_heads(part, weight.unit, *place["tp"]) for part in parts]
        if "fsdp" in place:
            if cut == 0:
                parts = _common(parts, *place["fsdp"])
            else:
                whole[0] = _part(whole[0], *place["fsdp"])
        boxes = [(*whole[:cut], part, *whole[cut + 1 :]) for part in parts]
        return [box if all(begin < end for begin, end in box) else None for box in boxes]


def read_side(what: str, text: str) -> Side:
    """Return the side that a text says: ``pp=4,tp=2,dp=2``, or with axes for experts within a stage
    behind a slash, ``pp=4,tp=2,dp=8/ep=16``. Raises `InputError`."""
    said = f"{what} {shown(text)}"
    dense, slash, experts = text.partition("/")
    axes = _axes(said, dense)
    if not slash:
        return Side(said, axes, axes)
    common = tuple(axis for axis in axes if axis[0] in ("replicas", "pp"))
    return Side(said, axes, (*common, *_axes(said, experts)))


def _axes(said: str, text: str) -> Axes:
    found = [_AXIS.fullmatch(each.strip()) for each in text.split(",")]
    if None in found:
        raise InputError(
            f"{said} is no mesh: write axes with their sizes, like pp=4,tp=2,dp=2; "
            f"axes are {', '.join(AXES)}"
        )
    return tuple((each["name"], int(each["size"])) for each in found if each)


def _check_axes(said: str, axes: Axes) -> None:
    names = [name for name, _ in axes]
    for name, size in axes:
        if name not in AXES:
            raise InputError(
                f"{said}: axis {shown(name)} is unknown{did_you_mean(name, AXES)}: choose from "
                f"{', '.join(AXES)}"
            )
        if names.count(name) > 1:
            raise InputError(f"{said}: axis {name} is there twice; name each once")
        if size < 1:
            raise InputError(f"{said}: axis {name} has {size} devices; 1 at least is valid")
    refuse(
        len(names) > MOST_AXES,
        f"{said} has {len(names)} axes: at most {MOST_AXES} are valid; leave those of one out",
    )
    size = prod(size for _, size in axes)
    refuse(
        size > MOST_DEVICES,
        f"{said} has {size} devices: at most {MOST_DEVICES} are valid",
    )


def _place(axes: Axes, device: int) -> dict[str, tuple[int, int]]:
    """Return a device's place along each axis, with the axis' size."""
    found = {}
    for name, size in sorted(axes, key=lambda axis: -_ORDER.index(axis[0])):
        device, within = divmod(device, size)
        found[name] = (within, size)
    return found


def _stage(weight: Weight, layers: int, stages: int) -> int:
    """Return the stage of a pipeline that has a tensor."""
    if weight.layer is not None:
        return weight.layer * stages // layers
    return stages - 1 if weight.behind else 0


def _part(span: Span, place: int, count: int) -> Span:
    """Return one of the parts of a span, of ceil(n / count) each, as torch.chunk makes them; the
    last ones may be smaller, or empty."""
    begin, end = span
    step = -(-(end - begin) // count)
    return min(begin + place * step, end), min(begin + (place + 1) * step, end)


def _heads(span: Span, unit: int, place: int, count: int) -> Span:
    """Return a part of a span in whole heads. Where there are fewer of them than parts, several
    have the same head."""
    begin, end = span
    heads = -(-(end - begin) // unit)
    if unit > 1 and heads < count:
        head = place * heads // count
        first, last = head, head + 1
    else:
        first, last = _part((0, heads), place, count)
    return min(begin + first * unit, end), min(begin + last * unit, end)


def _sections(weight: Weight) -> list[Span]:
    assert weight.split is not None
    found, begin = [], 0
    for size in weight.sections or (weight.shape[weight.split],):
        found.append((begin, begin + size))
        begin += size
    return found


def _common(parts: list[Span], place: int, count: int) -> list[Span]:
    """Return what one of `count` parts of spans that follow each other in memory has of each."""
    first, last = _part((0, sum(end - begin for begin, end in parts)), place, count)
    found, behind = [], 0
    for begin, end in parts:
        low, high = max(first - behind, 0), min(last - behind, end - begin)
        found.append((begin + low, begin + max(low, high)))
        behind += end - begin
    return found
