"""What moves of weights are called; for whoever asks for one, without numpy."""

from functools import cache

from weft.experiments.families.resharding.names import AUTO, BALANCES, strategies

WEIGHTS = "weights"
"""The collective: all weights of a model are brought from one mesh to another."""
BALANCE = "least-loaded"
"""The balancer where none is named: a model is many buckets, and others take long for these."""
USUAL_STRATEGIES = ("send-recv", "multicast")
"""The strategies that are run if none is named: a copy for each device, and one for all."""
USUAL_BYTES = 16 << 20
"""If no scale is asked for, a model is scaled so that it has no more bytes than that."""
BUCKET_PARTS = 64
"""If nothing is asked, a bucket has such a part of a model."""
DEVICES = 8
"""By default, how many devices a host has at most."""
MODELS = (
    "llama-1b", "llama-8b", "llama-70b", "qwen3-0.6b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b",
    "qwen3-235b-a22b", "deepseek-v3", "kimi-k2",
)  # fmt: skip
"""The names of `weft.experiments.families.weights.models.CONFIGURATIONS`, as help lists them."""
AXES = {
    "replicas": "replicas",
    "pp": "layers in stages",
    "dp": "replicas",
    "fsdp": "first dimensions are cut",
    "ep": "experts are divided",
    "cp": "replicas",
    "tp": "tensors are cut",
}
"""What an axis of a mesh does, by its name. Devices are numbered in row-major order of the axes in
this order, whatever was written: those of one tensor parallel group follow each other, as Megatron
(``tp-cp-ep-dp-pp``, innermost first) and engines have it."""


@cache
def algorithms() -> tuple[str, ...]:
    """Return what weights can be moved by: each strategy with each balancer."""
    able = [name for name in strategies() if name != AUTO]
    order = (BALANCE, *(name for name in BALANCES if name != BALANCE))
    return tuple(named(strategy, balance) for balance in order for strategy in able)


def named(strategy: str, balance: str) -> str:
    """Return the algorithm of a strategy and a balancer: ``multicast``, where the balancer is the
    usual one, or ``multicast/greedy``."""
    return strategy if balance == BALANCE else f"{strategy}/{balance}"


def parts_of(algorithm: str) -> tuple[str, str]:
    """Return the strategy and the balancer of an algorithm, one of `algorithms`."""
    strategy, _, balance = algorithm.partition("/")
    return strategy, balance or BALANCE
