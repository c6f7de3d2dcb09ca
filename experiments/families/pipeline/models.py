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
from weft.experiments.families.pipeline.names import EFFICIENCY
from weft.experiments.families.pipeline.timing import Times

Shape = tuple[int, ...]
DTYPE_BYTES = {"float16": 2, "float32": 4}


@dataclass(frozen=True)
class Layer:
    """Describe a layer, for one sample. A multiplication and an addition are two FLOPs."""

    name: str
    weight_flops: int
    """FLOPs of the forward pass between weights and activations. Gradients of activations take as
    many, and so do those of weights."""
    output: Shape
    parameters: int = 0
    other_flops: int = 0
    """FLOPs of the forward pass between activations, as in attention. Their gradients take twice as
    many; gradients of weights take none."""
    skips: tuple[int, ...] = ()
    """The numbers of earlier layers of which it takes what they kept."""
    kept: Shape | None = None
    """What it keeps for skips. None: its output."""


@dataclass(frozen=True)
class StageWork:
    """Hold the computation of a virtual stage for a micro-batch, and its parameters."""

    forward_flops: int
    backward_flops: int
    """FLOPs of the gradients of activations, and of what has to be computed again for them."""
    weight_flops: int
    parameters: int


@dataclass(frozen=True)
class Boundary:
    """Describe a tensor that goes forward from one virtual stage to a later one for every
    micro-batch. Its gradient, of the same shape, goes back."""

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
    """Describe a model, and how it is trained unless one says otherwise.

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


def gpt_layers(
    width: int, blocks: int, sequence: int, vocabulary: int = 51_200
) -> tuple[Layer, ...]:
    """Return the layers of a GPT: embedding, blocks, and a head that shares the embedding's
    weights. A block has 12 d^2 + 13 d parameters (Narayanan et al., arXiv 2104.04473, section 5.1
    and appendix, for these and for its FLOPs). The number of heads changes none of this."""
    output = (sequence, width)
    embedding = Layer("embedding", 0, output, (vocabulary + sequence) * width)
    block = 24 * sequence * width**2
    attention = 4 * sequence**2 * width
    inner = [
        Layer(f"block {number}", block, output, (12 * width + 13) * width, attention)
        for number in range(blocks)
    ]
    head = Layer("head", 2 * sequence * width * vocabulary, (sequence, vocabulary), 2 * width)
    return embedding, *inner, head


def u_transformer_layers(channels: int, image: int) -> tuple[Layer, ...]:
    """Return the layers of a U-Transformer (Petit et al., arXiv 2103.06104) as the released
    benchmarks have it: a diffusion U-Net of four levels with ``c``, ``2 c``, ``4 c`` and ``4 c``
    channels, in which each level has one residual block down and one up (the first level has two
    up), the first three levels down, the middle and the last three levels up have attention within
    the picture and to 4 c-channel hidden states of what the picture is conditioned on.

    It is cut into the 13 pieces of those benchmarks: a level's upsampling is the beginning of the
    next piece. The computation that does not grow with the picture is left out.

    Args:
        channels: ``c``; a multiple of 8, the number of heads.
        image: the height and the width of the picture in pixels; a multiple of 8.
    """
    c = channels
    build = _UNet(tokens=(image // 8) ** 2, context=4 * c, time=4 * c)
    sides = (image, image // 2, image // 4, image // 8)
    time = 5 * c * (4 * c) + 8 * c  # the embedding of the time step, of two linear layers
    layers = [build.piece("input", sides[0], c, build.convolution(3, c), extra=time)]
    inputs = (c, c, 2 * c, 4 * c)
    outputs = (c, 2 * c, 4 * c, 4 * c)
    for level, side in enumerate(sides):
        inside, outside = inputs[level], outputs[level]
        piece = build.residual(inside, outside)
        if level < 3:
            piece += build.attention(outside, side**2)
            # With a stride of 2, a quarter of the pixels is computed.
            sampling = build.convolution(outside, outside, share=0.25)
            layers.append(
                build.piece(f"down {level}", side, outside, piece + sampling, at=side // 2)
            )
        else:
            layers.append(build.piece(f"down {level}", side, outside, piece))
    middle = build.residual(4 * c, 4 * c)
    side = sides[3]
    layers.append(build.piece("middle 0", side, 4 * c, middle + build.attention(4 * c, side**2)))
    layers.append(build.piece("middle 1", side, 4 * c, middle))
    # A level up takes the last residual block's output of its level down; the first level up takes
    # in its second residual block the input, too.
    before = 4 * c
    for level in (3, 2, 1, 0):
        outside = outputs[level]
        piece = build.residual(before + outside, outside)
        if level < 3:
            piece += build.convolution(before, before)
        if level > 0:
            piece += build.attention(outside, sides[level] ** 2)
        layers.append(build.piece(f"up {level}", sides[level], outside, piece, skips=(level + 1,)))
        before = outside
    layers.append(build.piece("up 0, again", sides[0], c, build.residual(2 * c, c), skips=(0,)))
    layers.append(build.piece("output", sides[0], 4, build.convolution(c, 4)))
    return tuple(layers)


@dataclass(frozen=True)
class _Cost:
    """Hold FLOPs of a forward pass and parameters."""

    per_pixel: float = 0
    fixed: int = 0
    other: int = 0
    parameters: int = 0

    def __add__(self, more: "_Cost") -> "_Cost":
        return _Cost(
            self.per_pixel + more.per_pixel,
            self.fixed + more.fixed,
            self.other + more.other,
            self.parameters + more.parameters,
        )


@dataclass(frozen=True)
class _UNet:
    """Count what the parts of a U-Net cost."""

    tokens: int
    """How many hidden states of the condition there are..."""
    context: int
    """... and of how many channels they are."""
    time: int
    """The channels of the time step's embedding."""

    def piece(
        self,
        name: str,
        side: int,
        channels: int,
        cost: _Cost,
        *,
        at: int | None = None,
        skips: tuple[int, ...] = (),
        extra: int = 0,
    ) -> Layer:
        """Return a layer that computes at one width of the picture, and whose output has another
        one if it is given."""
        kept = (side, side, channels)
        flops = round(cost.per_pixel * side**2) + cost.fixed
        output = (at, at, channels) if at else kept
        parameters = cost.parameters + extra
        return Layer(name, flops, output, parameters, cost.other, skips, kept if at else None)

    def convolution(self, inside: int, outside: int, size: int = 3, share: float = 1.0) -> _Cost:
        weights = size**2 * inside * outside
        return _Cost(2 * weights * share, parameters=weights + outside)

    def residual(self, inside: int, outside: int) -> _Cost:
        """Return the cost of two convolutions, with the embedding of the time step in between."""
        around = (self.time + 1) * outside + 2 * (inside + outside)
        cost = self.convolution(inside, outside) + self.convolution(outside, outside)
        if inside != outside:
            cost += self.convolution(inside, outside, size=1)
        return cost + _Cost(parameters=around)

    def attention(self, width: int, pixels: int) -> _Cost:
        """Return the cost of a transformer block: attention within the picture, to the condition,
        and a gated linear unit, between two linear layers."""
        near = 2 + 4 + 2 + 12  # in and out; Q, K, V and out; Q and out; 8 d and 4 d wide
        far = 2 * self.context * width  # K and V of the condition
        biases = 3 * width + 8 * width + 1 * width + 8 * width
        return _Cost(
            per_pixel=2 * near * width**2,
            fixed=2 * far * self.tokens,
            other=4 * width * pixels * (pixels + self.tokens),
            parameters=near * width**2 + far + biases,
        )


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
    """Bring a model to a slow network: sizes become smaller and computation longer, so that a step
    takes `slowdown` times as long, and its parts are to each other as they were.

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
            refuse(not value > 0, f"{name} {value}: give more than 0")

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
