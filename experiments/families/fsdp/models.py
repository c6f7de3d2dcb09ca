"""The sizes of language models' layers for FSDP, and the name of the collective.

`weft.experiments.families.fsdp.interleaving` has what is run; this module is for those who only
check what was asked.
"""

from weft.agents.collectives.names import FSDP, interleaved_algorithms

__all__ = [
    "ALGORITHMS", "FSDP", "MODELS", "PARTS", "SLOWDOWN", "block_parameters", "layer_bytes",
    "parts_of",
]  # fmt: skip

PARTS = interleaved_algorithms()
"""The algorithms of the Allgathers and of the Reduce-Scatters beside them."""
ALGORITHMS = tuple(PARTS)


def parts_of(algorithm: str) -> tuple[tuple[str, str], ...]:
    """Return (collective, algorithm) of the Allgathers and of the Reduce-Scatters beside them."""
    gather, scatter = PARTS[algorithm]
    return ("allgather", gather), ("reduce-scatter", scatter)


WIDTHS: dict[str, int] = {
    "gpt2-small": 768,
    "gpt2-medium": 1024,
    "gpt2-large": 1280,
    "gpt2-xl": 1600,
    "gpt3-2.7b": 2560,
    "gpt3-6.7b": 4096,
}
"""The width d of each model: GPT-2 from table 2 of Radford et al., "Language Models are
Unsupervised Multitask Learners" (2019), GPT-3 from table 2.1 of Brown et al., "Language Models are
Few-Shot Learners" (arXiv 2005.14165). Their depths are 12, 24, 36, 48, 32 and 32 blocks."""

MODELS = tuple(WIDTHS)
PARAMETER_BYTES = 2
"""The bytes of a parameter or its gradient, in half precision."""
REAL_RATE_BPS = 400_000_000_000
"""The rate of the links that sizes are scaled from."""
LAYERS = 6
"""The layers that are run by default."""
SLOWDOWN = 300
"""By default, how many times as long a step that is bound by its links takes as it would at
`REAL_RATE_BPS`. A layer of GPT-2 small is 260 KiB at 25 Mbit/s and 1 MiB at 100 Mbit/s."""


def block_parameters(model: str) -> int:
    """Return how many parameters one transformer block has: 12 d^2 + 13 d.

    Attention has 4 d^2 weights and 4 d biases (query, key, value, output), the two layers of the
    perceptron 8 d^2 and 5 d, the two normalizations 4 d. FSDP takes a block as one unit.
    """
    width = WIDTHS[model]
    return 12 * width * width + 13 * width


def layer_bytes(model: str, rate_bps: int, slowdown: float) -> int:
    """Return the bytes of a layer's parameters, and of its gradients, scaled to the links' rate.

    So many bytes take `slowdown` times as long at `rate_bps` as the real ones at `REAL_RATE_BPS`.
    """
    real_bytes = PARAMETER_BYTES * block_parameters(model)
    return round(real_bytes * slowdown * rate_bps / REAL_RATE_BPS)
