"""What options of a scenario can be, and are by default: names to choose from, limits, and
numbers."""

from collections.abc import Collection

from weft.base.errors import InputError, did_you_mean
from weft.base.units import shown

SWITCHES = {"weft": "built in", "bmv2": "simple_switch_grpc"}
"""The kinds of switches, each with what help says of it."""
TOPOLOGIES: dict[str, dict[str, int]] = {
    "leaf-spine": {"leaves": 4, "spines": 2, "hosts_per_leaf": 2},
    "single": {"hosts_per_leaf": 8},
    "fat-tree": {"k": 4, "tiers": 3},
    "pods": {"pods": 2, "leaves": 2, "spines": 2, "uplinks": 2, "hosts_per_leaf": 2},
}
"""The options that say how large each topology is, and their defaults."""
COUNTS = tuple(dict.fromkeys(name for sizes in TOPOLOGIES.values() for name in sizes))
"""The fields of `weft.experiments.scenario.asked.Asked` that say how large a network is."""
TIERS = (2, 3)
"""The least and the most tiers of a fat tree."""
RATES_BPS = (100_000, 800_000_000_000)
"""The least and the largest rate of a link."""
MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs of the InfiniBand specification: bytes of RoCE payload a packet."""

DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
TENSOR_DTYPES = ("bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
"""More types, of tensors that are only moved."""
DTYPE = "uint8"
REDUCED_DTYPE = "float32"
"""The default types: the second where elements are summed, the first elsewhere."""
NOTICES = ("never", "at-once", "late")
RECOVERY = ("go-back-n", "selective")
REORDER_PACKETS = 3
SPRAYED_REORDER_PACKETS = 32
"""The default numbers: the second where paths reorder, the first elsewhere."""
MAX_ECN_PACKETS = 1 << 18
"""The largest queue depth, which has 19 bits in v1model."""
NOTICE_AFTER_NS = 100_000_000
PLACEMENTS = ("in-order", "strided", "random")

MAX_JOBS = 16


def choose(name: str, value: object, choices: Collection[str]) -> None:
    """Raise `InputError` for a value that is not among the choices; the message writes the choice
    "" as "none"."""
    if not isinstance(value, str) or value not in choices:
        hint = did_you_mean(str(value), choices)
        known = ", ".join(choice or "none" for choice in choices)
        raise InputError(f"{name} {shown(value)} is unknown{hint}: choose from {known}")


def flag(name: str) -> str:
    """Return an option's name as it is written on the command line."""
    return "--" + name.replace("_", "-")
