"""Public models: the shapes of all of their tensors, by their configurations.

Llama 3 (arXiv 2407.21783), Qwen3 (arXiv 2505.09388), DeepSeek-V3 (arXiv 2412.19437, without the
layer that predicts more tokens) and Kimi K2 (arXiv 2507.20534), as their configurations on
huggingface.co have them. Queries, keys and values are one tensor, and so are gate and up, as
engines have them; experts of a layer are one tensor with a dimension for them. Weights are
bfloat16.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from weft.experiments.families.weights.table import Model, Weight

DTYPE = "bfloat16"


@dataclass(frozen=True)
class Experts:
    """The feed-forward layers of a mixture of experts."""

    count: int
    width: int
    """The intermediate size of one..."""
    shared_width: int = 0
    """... and of those that all tokens go to, together."""
    dense_layers: int = 0
    """How many of the first layers have a dense one instead."""
    biased: bool = False
    """Whether the router has a bias for each expert, float32."""


@dataclass(frozen=True)
class Grouped:
    """Attention whose queries share keys and values in groups."""

    heads: int
    key_heads: int
    head: int
    """Elements of a head."""
    normed: bool = False
    """Whether queries and keys are normed."""

    def weights(self, layer: int, hidden: int) -> Iterator[Weight]:
        """Yield the weights of a layer."""
        prefix = f"model.layers.{layer}.self_attn."
        queries, keys = self.heads * self.head, self.key_heads * self.head
        sections = (queries, keys, keys)
        yield Weight(
            prefix + "qkv_proj.weight", (sum(sections), hidden), DTYPE, layer, split=0,
            sections=sections, unit=self.head,
        )  # fmt: skip
        for name in ("q_norm", "k_norm") if self.normed else ():
            yield Weight(f"{prefix}{name}.weight", (self.head,), DTYPE, layer)
        yield Weight(
            prefix + "o_proj.weight", (hidden, queries), DTYPE, layer, split=1, unit=self.head
        )


@dataclass(frozen=True)
class Latent:
    """Attention whose keys and values are made of a latent vector (MLA)."""

    heads: int
    queries_rank: int = 1536
    keys_rank: int = 512
    plain: int = 128
    rotary: int = 64
    values: int = 128

    def weights(self, layer: int, hidden: int) -> Iterator[Weight]:
        """Yield the weights of a layer."""
        prefix = f"model.layers.{layer}.self_attn."
        query, both = self.plain + self.rotary, self.plain + self.values
        for name, shape in (
            ("q_a_proj", (self.queries_rank, hidden)),
            ("q_a_layernorm", (self.queries_rank,)),
            ("kv_a_proj_with_mqa", (self.keys_rank + self.rotary, hidden)),
            ("kv_a_layernorm", (self.keys_rank,)),
        ):
            yield Weight(f"{prefix}{name}.weight", shape, DTYPE, layer)
        for name, rank, unit in (
            ("q_b_proj", self.queries_rank, query), ("kv_b_proj", self.keys_rank, both),
        ):  # fmt: skip
            yield Weight(
                f"{prefix}{name}.weight", (self.heads * unit, rank), DTYPE, layer, split=0,
                unit=unit,
            )  # fmt: skip
        yield Weight(
            prefix + "o_proj.weight", (hidden, self.heads * self.values), DTYPE, layer, split=1,
            unit=self.values,
        )  # fmt: skip


@dataclass(frozen=True)
class Transformer:
    """A transformer that predicts tokens, by its configuration."""

    hidden: int
    layers: int
    width: int
    """The intermediate size of dense layers."""
    vocabulary: int
    attention: Grouped | Latent
    tied: bool = False
    """Whether the embeddings serve at the end, too."""
    experts: Experts | None = None

    def model(self, name: str) -> Model:
        """Return the table of all tensors."""
        return Model(name, (*self._weights(),), self.layers)

    def _weights(self) -> Iterator[Weight]:
        table = (self.vocabulary, self.hidden)
        yield Weight("model.embed_tokens.weight", table, DTYPE, split=0)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield Weight(prefix + "input_layernorm.weight", (self.hidden,), DTYPE, layer)
            yield from self.attention.weights(layer, self.hidden)
            yield Weight(prefix + "post_attention_layernorm.weight", (self.hidden,), DTYPE, layer)
            if self.experts is None or layer < self.experts.dense_layers:
                yield from _dense(prefix + "mlp.", layer, self.hidden, self.width)
            else:
                yield from _mixture(prefix + "mlp.", layer, self.hidden, self.experts)
        yield Weight("model.norm.weight", (self.hidden,), DTYPE, behind=True)
        if not self.tied:
            yield Weight("lm_head.weight", table, DTYPE, behind=True, split=0)


def _dense(prefix: str, layer: int, hidden: int, width: int) -> Iterator[Weight]:
    sections = (width, width)
    yield Weight(
        prefix + "gate_up_proj.weight", (2 * width, hidden), DTYPE, layer, split=0,
        sections=sections,
    )  # fmt: skip
    yield Weight(prefix + "down_proj.weight", (hidden, width), DTYPE, layer, split=1)


def _mixture(prefix: str, layer: int, hidden: int, experts: Experts) -> Iterator[Weight]:
    count, width = experts.count, experts.width
    yield Weight(prefix + "gate.weight", (count, hidden), DTYPE, layer)
    if experts.biased:
        yield Weight(prefix + "gate.e_score_correction_bias", (count,), "float32", layer)
    yield Weight(
        prefix + "experts.gate_up_proj.weight", (count, 2 * width, hidden), DTYPE, layer, split=1,
        sections=(width, width), experts=0,
    )  # fmt: skip
    yield Weight(
        prefix + "experts.down_proj.weight", (count, hidden, width), DTYPE, layer, split=2,
        experts=0,
    )  # fmt: skip
    if experts.shared_width:
        yield from _dense(prefix + "shared_experts.", layer, hidden, experts.shared_width)


CONFIGURATIONS: dict[str, Transformer] = {
    "llama-1b": Transformer(2048, 16, 8192, 128256, Grouped(32, 8, 64), tied=True),
    "llama-8b": Transformer(4096, 32, 14336, 128256, Grouped(32, 8, 128)),
    "llama-70b": Transformer(8192, 80, 28672, 128256, Grouped(64, 8, 128)),
    "qwen3-0.6b": Transformer(1024, 28, 3072, 151936, Grouped(16, 8, 128, True), tied=True),
    "qwen3-8b": Transformer(4096, 36, 12288, 151936, Grouped(32, 8, 128, True)),
    "qwen3-32b": Transformer(5120, 64, 25600, 151936, Grouped(64, 8, 128, True)),
    "qwen3-30b-a3b": Transformer(
        2048, 48, 6144, 151936, Grouped(32, 4, 128, True), experts=Experts(128, 768)
    ),
    "qwen3-235b-a22b": Transformer(
        4096, 94, 12288, 151936, Grouped(64, 4, 128, True), experts=Experts(128, 1536)
    ),
    "deepseek-v3": Transformer(
        7168, 61, 18432, 129280, Latent(128), experts=Experts(256, 2048, 2048, 3, biased=True)
    ),
    "kimi-k2": Transformer(
        7168, 61, 18432, 163840, Latent(64), experts=Experts(384, 2048, 2048, 1, biased=True)
    ),
}
"""By the names that ``--model`` takes."""


def model_named(name: str) -> Model:
    """Return a public model, one of `CONFIGURATIONS`."""
    return CONFIGURATIONS[name].model(name)
