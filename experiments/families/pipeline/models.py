"""Models that are trained in a pipeline: computation of each part, and tensors between the parts.

A model is a row of layers, each of which works on the output of the one before. A layer may also
take what an earlier one has kept for it: a *skip*, which crosses all the stages between the two.
The models are those of the end-to-end experiments of Zhuang et al., "On Optimizing the
Communication of Model Parallelism" (arXiv 2211.05322, section 5), GPTs in half precision and
U-Transformers in single precision. `MODELS` says where their numbers come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil, prod

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import listed, shown
from weft.experiments.families.pipeline.layers import (
    DTYPE_BYTES,
    Layer,
    Shape,
    gpt_layers,
    u_transformer_layers,
)
from weft.experiments.families.pipeline.names import EFFICIENCY
from weft.experiments.families.pipeline.timing import Times


@dataclass(frozen=True)
class StageWork:
    """The computation of a virtual stage for a micro-batch, and its parameters."""

    forward_flops: int
    backward_flops: int
    """FLOPs of the gradients of activations, and of what has to be computed again for them."""
    weight_flops: int
    parameters: int


@dataclass(frozen=True)
class Boundary:
    """A tensor that goes forward from one virtual stage to a later one for every micro-batch. Its
    gradient, of the same shape, goes back."""

    source: int
    destination: int
    shape: Shape
    """The first dimension is that of samples."""
    dtype: str
    what: str

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the tensor."""
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Model:
    """A model, and how it is trained unless one says otherwise.

    Raises:
        InputError: the batch cannot be cut into as many micro-batches of the same size.
    """

    name: str
    layers: tuple[Layer, ...] = field(repr=False)
    dtype: str
    """The type of activations: a key of `DTYPE_BYTES`."""
    batch: int
    """How many samples a step has, over all micro-batches."""
    microbatches: int
    stages: int = 2
    hosts: int = 1
    """How many hosts a stage has..."""
    devices: int = 4
    """... and how many devices each of them has."""
    recompute: bool = True
    """Whether a backward pass computes its forward pass again, as that of the released benchmarks
    does, and does not keep it all."""
    even: bool = False
    """Whether all layers but the first and the last are the same, so that each virtual stage has as
    many of them. If not, stages are cut so that the longest one takes the least time."""

    def __post_init__(self) -> None:
        refuse(
            self.microbatches < 1 or self.batch % self.microbatches,
            f"model {self.name}: microbatches {self.microbatches}: give a divisor of the batch of "
            f"{self.batch} samples",
        )

    @property
    def microbatch(self) -> int:
        """Return how many samples a micro-batch has."""
        return self.batch // self.microbatches

    @cached_property
    def parameters(self) -> int:
        """Return how many parameters all layers have."""
        return sum(layer.parameters for layer in self.layers)

    def in_microbatches(self, microbatches: int) -> "Model":
        """Return the model with its batch cut into another number of micro-batches."""
        return replace(self, microbatches=microbatches)

    def parts(self, virtual_stages: int) -> tuple[range, ...]:
        """Return the numbers of the layers of each virtual stage.

        Raises:
            InputError: it has not as many layers, or not as many of the same.
        """
        refuse(virtual_stages < 1, f"model {self.name}: {virtual_stages} stages: give 1 or more")
        if self.even:
            blocks = len(self.layers) - 2
            if blocks % virtual_stages:
                raise InputError(
                    f"model {self.name}: its {blocks} blocks do not make {virtual_stages} stages "
                    f"of the same size: choose stages x chunks among {_divisors(blocks)}"
                )
            each = blocks // virtual_stages
            inner = [1 + each * stage for stage in range(1, virtual_stages)]
            return _ranges([0, *inner, blocks + 2])
        refuse(
            virtual_stages > len(self.layers),
            f"model {self.name}: its {len(self.layers)} layers do not make {virtual_stages} "
            "stages: choose fewer stages or chunks",
        )
        costs = [sum(_flops([layer], self.recompute)) for layer in self.layers]
        return _ranges(_balanced(costs, virtual_stages))

    def work(self, virtual_stages: int) -> tuple[StageWork, ...]:
        """Return the computation of each virtual stage for a micro-batch. Raises InputError as
        `parts` does."""
        found = []
        for part in self.parts(virtual_stages):
            layers = self.layers[part.start : part.stop]
            forward, backward, weight = (
                each * self.microbatch for each in _flops(layers, self.recompute)
            )
            parameters = sum(layer.parameters for layer in layers)
            found.append(StageWork(forward, backward, weight, parameters))
        return tuple(found)

    def boundaries(self, virtual_stages: int) -> tuple[Boundary, ...]:
        """Return the tensors between virtual stages for a micro-batch, by source and destination;
        what two layers of a virtual stage take goes there once. Raises InputError as `parts`
        does."""
        parts = self.parts(virtual_stages)
        stage_of = {layer: stage for stage, part in enumerate(parts) for layer in part}
        found: dict[tuple[int, int, int, Shape], Boundary] = {}

        def add(layer: int, destination: int, shape: Shape, what: str) -> None:
            source = stage_of[layer]
            if source != destination:
                found.setdefault(
                    (source, destination, layer, shape),
                    Boundary(source, destination, (self.microbatch, *shape), self.dtype, what),
                )

        for stage, part in enumerate(parts[:-1]):
            last = self.layers[part.stop - 1]
            add(part.stop - 1, stage + 1, last.output, f"output of {last.name}")
        for number, layer in enumerate(self.layers):
            for skip in layer.skips:
                kept = self.layers[skip]
                what = f"skip from {kept.name} to {layer.name}"
                add(skip, stage_of[number], kept.kept or kept.output, what)
        return tuple(found[key] for key in sorted(found, key=lambda key: key[:3]))


def _ranges(cuts: Sequence[int]) -> tuple[range, ...]:
    return tuple(range(begin, end) for begin, end in pairwise(cuts))


def _divisors(number: int) -> str:
    return ", ".join(str(each) for each in range(1, number + 1) if number % each == 0)


def _flops(layers: Sequence[Layer], recompute: bool) -> tuple[int, int, int]:
    """Return the FLOPs for a sample: forward, gradients of activations, gradients of weights."""
    weight = sum(layer.weight_flops for layer in layers)
    other = sum(layer.other_flops for layer in layers)
    forward = weight + other
    return forward, weight + 2 * other + (forward if recompute else 0), weight


def _balanced(costs: Sequence[int], parts: int) -> list[int]:
    """Return where to cut a row so that the largest sum of a part is the least."""
    before = [0, *accumulate(costs)]
    count = len(costs)
    least = [0, *[before[-1] + 1] * count]
    """The largest sum, where the first so many are cut into as many parts as yet."""
    cuts: list[list[int]] = []
    for _ in range(parts):
        row = [before[-1] + 1] * (count + 1)
        cut = [0] * (count + 1)
        for end in range(1, count + 1):
            row[end], cut[end] = min(
                (max(least[begin], before[end] - before[begin]), begin) for begin in range(end)
            )
        least = row
        cuts.append(cut)
    places = [count]
    for cut in reversed(cuts):
        places.append(cut[places[-1]])
    return places[::-1]


# -- Kinds of models -------------------------------------------------------------------------------


def _gpt(name: str, width: int, blocks: int, sequence: int, batch: int, microbatches: int) -> Model:
    layers = gpt_layers(width, blocks, sequence)
    return Model(name, layers, "float16", batch, microbatches, even=True)


MODELS = {
    model.name: model
    for model in (
        _gpt("gpt-1.3b", 2048, 24, 1024, 1024, 32),
        _gpt("gpt-2.6b", 2560, 32, 1024, 1024, 64),
        Model("u-transformer-1b", u_transformer_layers(480, 32), "float32", 2048, 32),
        Model("u-transformer-2b", u_transformer_layers(672, 32), "float32", 2048, 32),
        Model("tiny", gpt_layers(16, 8, 8, 64), "float16", 32, 8, devices=2, even=True),
        Model("tiny-u", u_transformer_layers(8, 8), "float32", 32, 8, devices=2),
    )
}
"""The models by name. ``tiny`` and ``tiny-u`` are for tests.

From the benchmarks of `alpa-projects/alpa` (``benchmark/alpa``), which the paper's authors
released: width, blocks, sequence length and vocabulary of the GPTs, their batch of 1,024 and their
micro-batches (``suite_manual_gpt.py``: the cases of two stages with 4 devices each, in which both
data and operators are parallel); channels, picture, precision, batch of 2,048 and micro-batches of
the U-Transformers (``suite_unet.py``), and that backward passes compute forward passes again. The
larger U-Transformer's two stages have 4 devices each there.

Chosen: that the smaller U-Transformer's stages have as many (2 each there); and where the
U-Transformers are cut, which the benchmarks leave to a search on profiles of their machine.
"""


def model_of(name: str) -> Model:
    """Return a model by its name. Raises InputError for an unknown one."""
    if name not in MODELS:
        raise InputError(
            f"model {shown(name)} is unknown{did_you_mean(name, MODELS)}: choose "
            f"{listed(MODELS, 'or')}"
        )
    return MODELS[name]


# -- Times, and their scale ------------------------------------------------------------------------

HOST_RATE_BPS = 10_000_000_000
"""The rate of a host's link in the paper: hosts of 4 V100 GPUs (arXiv 2211.05322, section 5)."""
V100_PEAK_FLOPS = {"float16": 125e12, "float32": 15.7e12}
"""The most FLOP/s of a V100 by type, half precision on its tensor cores (NVIDIA's data sheet of the
V100 with NVLink)."""


def device_flops(model: Model, efficiency: float = EFFICIENCY) -> float:
    """Return how many FLOP/s a V100 has for the model's type."""
    return V100_PEAK_FLOPS[model.dtype] * efficiency


def compute_ns(flops: int, devices: int, device_flops: float) -> int:
    """Return how many ns a computation takes that is shared evenly among devices of so many FLOP/s
    each, rounded up.

    Raises:
        InputError: there is no device, or it does not compute.
    """
    refuse(
        devices < 1 or not device_flops > 0,
        f"{devices} devices of {device_flops} FLOP/s: give one or more, and more than 0 FLOP/s",
    )
    return ceil(flops * 1e9 / (devices * device_flops))


def times_of(model: Model, virtual_stages: int, device_flops: float) -> Times:
    """Return how long the virtual stages of a model compute, each on all devices of a stage.
    Raises InputError as `Model.parts` and `compute_ns` do."""
    devices = model.hosts * model.devices
    work = model.work(virtual_stages)
    return Times(
        tuple(compute_ns(each.forward_flops, devices, device_flops) for each in work),
        tuple(compute_ns(each.backward_flops, devices, device_flops) for each in work),
        tuple(compute_ns(each.weight_flops, devices, device_flops) for each in work),
    )


@dataclass(frozen=True)
class Scale:
    """A scale that brings a model to a slow network: sizes become smaller and computation longer,
    so that a step takes `slowdown` times as long, and its parts are to each other as they were.

    It is `weft.experiments.families.flows.load.share` with the rate of these models' own links.

    Raises:
        InputError: a rate or the slowdown is not above 0.
    """

    rate_bps: int
    """The rate of the network's host links."""
    slowdown: float
    """How many times as long everything takes as on links of `real_rate_bps`."""
    real_rate_bps: int = HOST_RATE_BPS

    def __post_init__(self) -> None:
        for name in ("rate_bps", "slowdown", "real_rate_bps"):
            value = getattr(self, name)
            if not value > 0:
                raise InputError(f"{name} {value}: give more than 0")

    @property
    def share(self) -> float:
        """Return which part of all bytes is sent."""
        return self.slowdown * self.rate_bps / self.real_rate_bps

    def bytes(self, size_bytes: int) -> int:
        """Return the scaled size of what is sent: 1 byte at least."""
        return max(1, round(size_bytes * self.share))

    def time_ns(self, time_ns: int) -> int:
        """Return the scaled time of a computation."""
        return round(time_ns * self.slowdown)

    def times(self, times: Times) -> Times:
        """Return scaled times of virtual stages."""
        return Times(
            tuple(map(self.time_ns, times.forward_ns)),
            tuple(map(self.time_ns, times.backward_ns)),
            tuple(map(self.time_ns, times.weight_ns)),
        )

    def shape(self, shape: Shape, multiple: int = 1) -> Shape:
        """Return a smaller tensor of as many dimensions, of about `share` times as many elements.

        The largest dimensions are halved, and the last one of them is cut to fit; all stay
        multiples of `multiple`, such as the devices that they are cut among, if they were.

        Raises:
            InputError: the tensor would have to be larger.
        """
        refuse(
            self.share > 1,
            f"a tensor of shape {shape} would grow {self.share:.3g}-fold: choose a slowdown of "
            f"{self.real_rate_bps / self.rate_bps:.6g} or less",
        )
        wanted = prod(shape) * self.share
        sizes = list(shape)
        steps = [multiple if size % multiple == 0 else 1 for size in shape]
        while True:
            # The size that is the most steps can be cut the finest.
            place = max(range(len(sizes)), key=lambda each: (sizes[each] // steps[each], each))
            size, step = sizes[place], steps[place]
            needed = max(1, min(size // step, round(size // step * wanted / prod(sizes))))
            if 2 * needed * step > size or size == step:
                sizes[place] = needed * step
                return tuple(sizes)
            sizes[place] = max(1, round(size / 2 / step)) * step
