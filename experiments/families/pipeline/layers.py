"""The layers of the models that are pipelined."""

from dataclasses import dataclass

Shape = tuple[int, ...]


DTYPE_BYTES = {"float16": 2, "float32": 4}


@dataclass(frozen=True)
class Layer:
    """A layer, for one sample. A multiplication and an addition are two FLOPs."""

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
    """FLOPs of a forward pass and parameters."""

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
    """What the parts of a U-Net cost."""

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
