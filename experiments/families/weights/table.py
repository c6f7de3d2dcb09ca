"""A model as a table of tensors, and what of each tensor may be cut where."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.agents.collectives.dtypes import dtype_of, is_float
from weft.base.errors import InputError, refuse
from weft.base.units import format_size, shown

MULTIPLE = 16
"""What scaled dimensions are multiples of, as far as the whole ones are, so that they can be cut as
evenly as these."""
MOST_BYTES = 1 << 42
"""The largest model."""
MOST_TENSORS = 1 << 16


@dataclass(frozen=True)
class Weight:
    """A weight is one tensor of a model.

    What several layers of a program have of their own may be one tensor in an engine: queries, keys
    and values, or gate and up. Its `sections` are then cut each by itself, so that a device has its
    part of each.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    """The type of its elements by numpy's name, or one of ml_dtypes'."""
    layer: int | None = None
    """The layer that it belongs to, from 0; None: it stands before all layers, or behind them."""
    behind: bool = False
    """Whether it stands behind all layers, if it belongs to none."""
    split: int | None = None
    """The dimension that tensor parallelism cuts; None: none."""
    sections: tuple[int, ...] = ()
    """How long the parts of that dimension are that are cut each by itself; empty: it is one."""
    unit: int = 1
    """How many indices of that dimension stay together: those of a head."""
    experts: int | None = None
    """The dimension that expert parallelism cuts; None: it is no tensor of experts."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the whole tensor."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize

    def scaled(self, factor: float) -> "Weight":
        """Return one of a narrower model, whose dimensions, but for the number of experts and of
        heads, are so many times as long."""
        if factor == 1:
            return self
        shape = [
            size if dimension == self.experts else _narrower(size, factor)
            for dimension, size in enumerate(self.shape)
        ]
        unit, sections = self.unit, self.sections
        if self.split is not None and unit > 1:
            unit = max(1, round(unit * factor))
            sections = tuple(-(-size // self.unit) * unit for size in self._parts)
        elif sections:
            sections = tuple(_narrower(size, factor) for size in sections)
        if self.split is not None and sections:
            shape[self.split] = sum(sections)
        kept = sections if self.sections else ()
        return replace(self, shape=tuple(shape), unit=unit, sections=kept)

    @property
    def _parts(self) -> tuple[int, ...]:
        assert self.split is not None
        return self.sections or (self.shape[self.split],)


def _narrower(size: int, factor: float) -> int:
    """Return a dimension so many times as long, 1 at least."""
    wanted = size * factor
    multiple = MULTIPLE if size % MULTIPLE == 0 and wanted >= MULTIPLE else 1
    return max(1, round(wanted / multiple) * multiple)


@dataclass(frozen=True)
class Model:
    """A model is a table of weights.

    Raises:
        InputError: it has no weights, too many, or one that makes no sense.
    """

    name: str
    weights: tuple[Weight, ...]
    layers: int

    def __post_init__(self) -> None:
        if not self.weights:
            raise InputError(f"model {self.name} has no tensors: it needs one at least")
        refuse(
            len(self.weights) > MOST_TENSORS,
            f"model {self.name}: {len(self.weights)} tensors; at most {MOST_TENSORS} are valid, "
            "experts of a layer counted as one",
        )
        for weight in self.weights:
            check_weight(self.name, weight)
        if self.size_bytes > MOST_BYTES:
            raise InputError(
                f"model {self.name} is {format_size(self.size_bytes)}: at most "
                f"{format_size(MOST_BYTES)} are valid"
            )

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all weights."""
        return sum(weight.size_bytes for weight in self.weights)

    @property
    def elements(self) -> int:
        """Return how many numbers all weights have: the parameters."""
        return sum(prod(weight.shape) for weight in self.weights)

    def scaled(self, scale: float) -> "Model":
        """Return a narrower model with such a part of the bytes, roughly: dimensions are cut by the
        square root."""
        factor = scale**0.5
        return replace(self, weights=tuple(each.scaled(factor) for each in self.weights))

    def of_layers(self, layers: int) -> "Model":
        """Return the model with its first layers alone. Raises `InputError`."""
        if not 1 <= layers <= self.layers:
            raise InputError(
                f"layers {layers}: model {self.name} has {self.layers}; choose 1 to {self.layers}"
            )
        kept = (each for each in self.weights if each.layer is None or each.layer < layers)
        return replace(self, weights=tuple(kept), layers=layers)


def check_weight(model: str, weight: Weight) -> None:
    """Raise `InputError` for a weight that makes no sense."""
    what = f"model {model}: tensor {shown(weight.name)}"
    if not weight.shape or min(weight.shape) < 1:
        raise InputError(
            f"{what} has shape {shown(weight.shape)}: dimensions are whole numbers of 1 at least"
        )
    for word, dimension in (("tensor", weight.split), ("expert", weight.experts)):
        if dimension is not None and not 0 <= dimension < len(weight.shape):
            raise InputError(
                f"{what} has {len(weight.shape)} dimensions, and {word} parallelism cuts dimension "
                f"{dimension}: choose 0 to {len(weight.shape) - 1}"
            )
    if weight.split is not None and weight.split == weight.experts:
        raise InputError(
            f"{what} is cut along dimension {weight.split} for tensor and for expert parallelism: "
            "give each a dimension of its own"
        )
    if weight.sections and (
        weight.split is None or sum(weight.sections) != weight.shape[weight.split]
    ):
        raise InputError(
            f"{what} has sections of {', '.join(map(str, weight.sections))}, which are not its "
            "dimension that is cut"
        )


def check_cast(model: str, weight: Weight, source: str, destination: str) -> None:
    """Raise `InputError` for types between which elements cannot be converted."""
    if source != destination and not (floats(source) and floats(destination)):
        raise InputError(
            f"model {model}: tensor {shown(weight.name)} of {source} cannot be converted to "
            f"{destination}: floating-point types can, like float32, bfloat16 and float8_e4m3fn; "
            "leave from-dtype and to-dtype out, or choose the same"
        )


def floats(name: str) -> bool:
    """Return whether a type is one of floating-point numbers."""
    return is_float(name) or name.startswith("float8")


def carried_as(source: str, destination: str) -> str:
    """Return as which of two types elements travel: the one with fewer bytes, of equals the
    destination's."""
    smaller = dtype_of(source).itemsize < dtype_of(destination).itemsize
    return source if smaller else destination


def layers_of(weights: Sequence[Weight]) -> int:
    """Return how many layers weights are of."""
    return max((each.layer + 1 for each in weights if each.layer is not None), default=0)
