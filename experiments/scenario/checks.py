"""What the options of a scenario may be, alone and together; and what stands for those left out."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.agents.collectives.names import (
    ALGORITHMS,
    DATA,
    FLOW_ALGORITHMS,
    FLOWS,
    MAX_AT_ONCE,
    MAX_CHUNK_BYTES,
    OPS,
    ROOTED,
    SWITCH_DTYPES,
    VECTORS,
)
from weft.base.errors import InputError
from weft.base.units import MAX_SEED, format_seeds, parse_seeds, shown
from weft.experiments.scenario.fsdp_models import ALGORITHMS as FSDP_ALGORITHMS
from weft.experiments.scenario.fsdp_models import FSDP, MODELS, SLOWDOWN, layer_bytes
from weft.experiments.scenario.workload_checks import check_flows, default_algorithm, is_model
from weft.topo.fabric_program import fabric_macros

if TYPE_CHECKING:
    from weft.experiments.scenario.scenario import Scenario

CHOICES = {**ALGORITHMS, FSDP: FSDP_ALGORITHMS, FLOWS: FLOW_ALGORITHMS}
"""Algorithms by collective; a scenario that names none runs the first two."""
COLLECTIVES = tuple(CHOICES)
WORLDS = ("emulated", "simulated")
SWITCHES = ("weft", "bmv2")
TOPOLOGIES = ("leaf-spine", "single", "fat-tree")
MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs of the InfiniBand specification: bytes of RoCE payload a packet."""

DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
SERVER_PLACEMENTS = ("dedicated", "ranks")
NOTICES = ("never", "at-once", "late")
NOTICE_AFTER_NS = 100_000_000
MAX_SLOTS = 512
"""Of one job: a switch has 1,024 rows."""
MAX_JOBS = 16
MAX_SPLIT = 1 << 12
"""Pieces of a request. As `weft.agents.servers.plan.MAX_SPLIT`, which this module does not load."""

MAX_SIZE_BYTES = 1 << 32
MIN_CHUNK_BYTES = 64
MAX_WORKERS = 16
"""Each has a multicast group of its own, and a Linux socket may join 20."""
MAX_HOSTS = 8192
"""Of a network: what a fat tree of three tiers and 32 ports has. A larger one takes minutes."""


def check_offloading(scenario: Scenario) -> None:
    """Check and fill in what servers, aggregating switches and jobs take, as far as it says
    which network is meant."""
    choose("server-placement", scenario.server_placement, SERVER_PLACEMENTS)
    whole("jobs", scenario.jobs, 1, MAX_JOBS)
    if "optcast" in scenario.algorithms:
        if scenario.servers is None:
            object.__setattr__(scenario, "servers", scenario.default_servers())
        assert scenario.servers is not None
        whole("servers", scenario.servers, 1, MAX_HOSTS)
    if scenario.adding:
        if scenario.slots is None:
            object.__setattr__(scenario, "slots", 128)
        assert scenario.slots is not None
        whole("slots", scenario.slots, 1, MAX_SLOTS)
        if scenario.slots & scenario.slots - 1:
            raise InputError(f"slots {scenario.slots} is no power of 2: choose one, like 64")
        if scenario.slots * scenario.jobs > MAX_SLOTS:
            raise InputError(
                f"slots {scenario.slots} for each of {scenario.jobs} jobs: a switch has "
                f"{MAX_SLOTS} in all; lower slots or jobs"
            )
        if scenario.values is None:
            fitting = 1 << ((scenario.mtu - 16) // 4).bit_length() - 1
            object.__setattr__(scenario, "values", min(scenario.program_values, fitting))
        assert scenario.values is not None
        fabric_macros(scenario.values)
        if 4 * scenario.values + 16 > scenario.mtu:
            raise InputError(
                f"values {scenario.values} make {4 * scenario.values + 16} bytes of payload, more "
                f"than the path MTU {scenario.mtu}: lower values, or raise mtu"
            )


def check_seeds(scenario: Scenario) -> None:
    """Check the seeds, and fill in which of several is meant."""
    whole("seed", scenario.seed, 0, MAX_SEED)
    if not scenario.seeds:
        return
    parse_seeds(scenario.seeds)
    if scenario.repeat > 1:
        raise InputError(
            f"repeat {scenario.repeat} beside seeds {format_seeds(scenario.seeds)}: a repetition "
            "takes the seed that follows, so runs would be there twice; name more seeds, and leave "
            "repeat out (or say 1)"
        )
    if scenario.seed in scenario.seeds:
        return
    if scenario.seed != type(scenario).seed:
        raise InputError(
            f"seed {scenario.seed} is none of the seeds {format_seeds(scenario.seeds)}: leave seed "
            "out"
        )
    object.__setattr__(scenario, "seed", scenario.seeds[0])


def check_notice(scenario: Scenario) -> None:
    """Check and fill in when failures are known."""
    choose("notice", scenario.notice, NOTICES)
    if scenario.notice == "late" and scenario.notice_after_ns is None:
        object.__setattr__(scenario, "notice_after_ns", NOTICE_AFTER_NS)
    if scenario.notice_after_ns is None:
        return
    if scenario.notice != "late":
        raise InputError(
            f"notice-after {scenario.notice_after_ns} ns means nothing for notice "
            f"{scenario.notice}: it is for notice late; leave it out"
        )
    whole("notice-after", scenario.notice_after_ns, 1, 10**12)


def check_collective(scenario: Scenario, ranks: int) -> None:
    """Check and fill in what the collective and its algorithms take."""
    collective = scenario.collective
    choose("op", scenario.op, OPS)
    choose("data", scenario.data, DATA)
    _check_means_something(scenario, ranks)
    if collective == "allgather" and scenario.chains is None:
        object.__setattr__(scenario, "chains", ranks)
    if scenario.chains is not None:
        whole("chains", scenario.chains, 1, ranks)
    if "optcast" in scenario.algorithms:
        _check_servers(scenario, ranks)
    if collective == FSDP:
        _check_fsdp(scenario)
    if collective == FLOWS:
        check_flows(scenario, ranks)
    if not scenario.dtype:
        default = "float32" if scenario.reducing else "uint8"
        object.__setattr__(scenario, "dtype", default)
    choose("dtype", scenario.dtype, DTYPES)
    _check_data(scenario)
    whole("root", scenario.root, 0, ranks - 1)
    whole("radix", scenario.radix, 2, 64)
    if scenario.block_bytes is not None:
        whole("block", scenario.block_bytes, 1, MAX_SIZE_BYTES)
    whole("workers", scenario.workers, 1, MAX_WORKERS)
    whole("batch", scenario.batch, 1, 1 << 16)
    whole("operations", scenario.operations, 1, 10_000)
    whole("at-once", scenario.at_once, 1, MAX_AT_ONCE)
    if scenario.at_once > scenario.operations:
        raise InputError(
            f"at-once {scenario.at_once} is more than operations {scenario.operations}: lower it, "
            "or raise operations (--operations N), of which so many run at the same time"
        )
    if scenario.chunk_bytes is None:
        object.__setattr__(scenario, "chunk_bytes", scenario.mtu)
    chunk_bytes = scenario.chunk_bytes
    assert chunk_bytes is not None
    whole("chunk", chunk_bytes, MIN_CHUNK_BYTES, MAX_CHUNK_BYTES)
    if chunk_bytes > scenario.mtu and chunk_bytes % scenario.mtu:
        raise InputError(
            f"chunk {chunk_bytes} is larger than the path MTU and no multiple of it: choose "
            f"at most {scenario.mtu}, or a multiple of that"
        )
    if len(scenario.sizes_bytes) > ranks:
        raise InputError(
            f"sizes are {len(scenario.sizes_bytes)} for {ranks} ranks: give at most one a rank"
        )
    if scenario.adding and scenario.dtype not in SWITCH_DTYPES:
        raise InputError(
            f"dtype {scenario.dtype!r} by switch: switches add {', '.join(SWITCH_DTYPES)}; choose "
            "one of these, or other algorithms"
        )
    if scenario.adding and scenario.op not in ("sum", "average"):
        raise InputError(
            f"op {scenario.op!r} by switch: switches add; choose sum or average, or other "
            "algorithms"
        )
    item_bytes = int(scenario.dtype.lstrip("buintfloa")) // 8
    for size in scenario.sizes_bytes or (scenario.size_bytes,):
        whole("size", size, 0, MAX_SIZE_BYTES)
        if size % item_bytes and collective != FSDP:
            raise InputError(
                f"size {size} is no whole number of {scenario.dtype} elements: choose a multiple "
                f"of {item_bytes} bytes"
            )
    packet_bytes = min(chunk_bytes, scenario.mtu)
    shard_sizes = scenario.shard_sizes_of(ranks)
    packets = sum(-(-size // packet_bytes) for size in shard_sizes)
    if scenario.multicasting and -(-packets // scenario.workers) > (1 << 24) - ranks:
        raise InputError(
            f"{sum(shard_sizes)} bytes are {packets} chunks of {packet_bytes}: "
            f"the immediate's 24 bits number {1 << 24} for each worker; choose a smaller "
            "--size, a larger --mtu or --chunk, or more --workers"
        )


def _check_data(scenario: Scenario) -> None:
    """Raise InputError for data whose sums would not be rounded."""
    if scenario.data == "exact":
        return
    if "float" not in scenario.dtype:
        raise InputError(
            f"data {scenario.data!r} means nothing for dtype {scenario.dtype}: it is for "
            "floating-point numbers, since sums of integers are exact; choose a dtype like "
            "float32, or leave data out"
        )
    if scenario.op not in ("sum", "average"):
        raise InputError(
            f"data {scenario.data!r} means nothing for op {scenario.op}: it is for sum and "
            "average, since the least and the largest of numbers are exact; leave data or op out"
        )


def _check_servers(scenario: Scenario, ranks: int) -> None:
    """Check how requests are dealt to servers."""
    if scenario.split is not None:
        whole("split", scenario.split, 1, MAX_SPLIT)
    if scenario.fan_in is None:
        return
    whole("fan-in", scenario.fan_in, 2, MAX_HOSTS)
    groups = -(-ranks // scenario.fan_in)
    assert scenario.servers is not None
    if groups > scenario.servers:
        raise InputError(
            f"fan-in {scenario.fan_in}: {ranks} ranks make {groups} groups, and each needs a "
            f"server of its own, so servers {scenario.servers} are too few; raise servers or fan-in"
        )


def _check_fsdp(scenario: Scenario) -> None:
    """Check and fill in what layers are like."""
    if scenario.model is None:
        given = scenario.size_bytes != type(scenario).size_bytes
        object.__setattr__(scenario, "model", "" if given else MODELS[0])
    if scenario.layers is None:
        object.__setattr__(scenario, "layers", 6)
    assert scenario.model is not None and scenario.layers is not None
    whole("layers", scenario.layers, 1, 1000)
    if not scenario.model:
        if scenario.slowdown is not None:
            raise InputError(
                f"slowdown {scenario.slowdown:g} means nothing for a layer of "
                f"{scenario.size_bytes} bytes: it scales a model's; leave it out, or name a model "
                "in place of the size"
            )
        whole("size", scenario.size_bytes, 1, MAX_SIZE_BYTES)
        return
    choose("model", scenario.model, MODELS)
    if scenario.slowdown is None:
        object.__setattr__(scenario, "slowdown", float(SLOWDOWN))
    assert scenario.slowdown is not None
    if not 1e-6 <= scenario.slowdown <= 1e12:
        raise InputError(f"slowdown {scenario.slowdown:g} is out of range: 1e-6 to 1e12")
    size_bytes = layer_bytes(scenario.model, scenario.rate_bps, scenario.slowdown)
    if not 0 < size_bytes <= MAX_SIZE_BYTES:
        raise InputError(
            f"a layer of {scenario.model} at {scenario.rate_bps} bit/s, {scenario.slowdown:g} "
            f"times as slow, is {size_bytes} bytes: choose a slowdown with which it is 1 to "
            f"{MAX_SIZE_BYTES}"
        )
    object.__setattr__(scenario, "size_bytes", size_bytes)


def _check_means_something(scenario: Scenario, ranks: int) -> None:
    """Raise InputError for an option that nothing of what is run would heed."""
    collective, algorithms = scenario.collective, scenario.algorithms
    multicast = scenario.multicasting, "it is for the algorithm multicast"
    optcast = "optcast" in algorithms, "it is for the algorithm optcast"
    switches = scenario.adding, "it is for the algorithm switch"
    layers = collective == FSDP, f"it is for {FSDP}"
    flows = collective == FLOWS, f"it is for {FLOWS}"
    step = flows[0] and is_model(scenario.workload), f"it is for {FLOWS} of a model"
    given = {
        "root": (scenario.root, 0, collective in ROOTED, f"it is for {' and '.join(ROOTED)}"),
        "op": (
            scenario.op, "sum", scenario.reducing, "it is for reduce-scatter and allreduce"
        ),
        "data": (
            scenario.data, "exact", scenario.reducing, "it is for reduce-scatter and allreduce"
        ),
        "radix": (
            scenario.radix, 2, "k-nomial" in algorithms, "it is for broadcast by k-nomial"
        ),
        "block": (
            scenario.block_bytes, None,
            not set(algorithms) <= {"multicast", "switch", "in-network"},
            "it is for unicast algorithms (multicast has chunk, switch values)",
        ),
        "chains": (
            scenario.chains, ranks if collective == "allgather" else None,
            collective == "allgather" and multicast[0], "it is for allgather by multicast",
        ),
        "workers": (scenario.workers, 1, *multicast),
        "chunk": (scenario.chunk_bytes, scenario.mtu, *multicast),
        "batch": (scenario.batch, 1, *multicast),
        "cutoff": (scenario.cutoff, "adaptive", *multicast),
        "servers": (scenario.servers, None, *optcast),
        "server-placement": (scenario.server_placement, "dedicated", *optcast),
        "split": (scenario.split, None, *optcast),
        "fan-in": (scenario.fan_in, None, *optcast),
        "slots": (scenario.slots, None, *switches),
        "values": (scenario.values, None, *switches),
        "model": (scenario.model, None, *layers),
        "layers": (
            scenario.layers, None, layers[0] or step[0], f"it is for {FSDP}, and {FLOWS} of a model"
        ),
        "slowdown": (
            scenario.slowdown, None, layers[0] or flows[0], f"it is for {FSDP} and {FLOWS}"
        ),
        "workload": (scenario.workload, None, *flows),
        "tensor": (scenario.tensor, None, *step),
        "micro-batches": (scenario.micro_batches, None, *step),
        "jobs": (scenario.jobs, 1, not flows[0], "a workload has the network to itself"),
        "operations": (
            scenario.operations, 1, not layers[0] and not flows[0], "it has layers, or flows"
        ),
        "at-once": (scenario.at_once, 1, not layers[0], "two layers' are under way at a time"),
        "sizes": (
            scenario.sizes_bytes, (), collective not in ("broadcast", *VECTORS, FSDP, FLOWS),
            "there is one size: use size",
        ),
    }  # fmt: skip
    for name, (value, default, heeded, who) in given.items():
        if value is not None and value != default and not heeded:
            raise InputError(
                f"{name} {shown(value)} means nothing for {collective} by "
                f"{' and '.join(algorithms)}: {who}; leave {name} out"
            )


def default_algorithms(scenario: Scenario) -> tuple[str, ...]:
    """What a scenario runs that names no algorithm."""
    if scenario.collective == FLOWS:
        return default_algorithm(scenario.workload)
    return CHOICES[scenario.collective][:2]


def choose(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError(
            f"{name} {shown(value)} is unknown{hint}: choose from {', '.join(choices)}"
        )


def whole(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"{name} {shown(value)} is out of range: a whole number from {low} to {high}"
        )


def option(name: str) -> str:
    return "--" + name.replace("_", "-")
