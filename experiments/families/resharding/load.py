"""Making of a resharding from what a scenario asks: meshes, tensors, plan, flows."""

import re
from dataclasses import replace
from functools import lru_cache

from weft.agents.collectives.tensors import size_of
from weft.base.errors import InputError, MachineError, refuse
from weft.base.units import format_size, shown
from weft.experiments.families.resharding.carrier import Carried, Carrier, usual_block_bytes
from weft.experiments.families.resharding.cases import Case, case, one_to_many
from weft.experiments.families.resharding.choice import strategy_named
from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.names import strategy_and_balance
from weft.experiments.families.resharding.options import ReshardingOptions
from weft.experiments.families.resharding.plan import Resharding, ReshardingPlan, Tensor, plan
from weft.experiments.families.resharding.specs import check_text_cuts
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.resharding.timing import Links

MOST_BYTES = 1 << 40
"""The largest tensor."""
BLOCKS = 64
"""The largest slice is passed on in so many blocks, as far as these are small."""
_MESH = re.compile(r"(?P<hosts>[^:/]+)x(?P<devices>[0-9]+)(?:/(?P<dims>[^:]+))?")
_DIMENSION = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<size>[0-9]+)")


def case_of(options: ReshardingOptions) -> Resharding:
    """Return the meshes and tensors that are asked for.

    Raises:
        InputError: what is asked makes no sense, or needs more hosts.
    """
    wanted = _own(options) if options.source else _of_case(options, _case(options))
    for tensor in wanted.tensors:
        if tensor.size_bytes > MOST_BYTES:
            raise InputError(
                f"shape {','.join(map(str, tensor.shape))} of {tensor.dtype} is "
                f"{format_size(tensor.size_bytes)}: at most {format_size(MOST_BYTES)} are valid; "
                "choose a smaller tensor"
            )
    most = max(*wanted.source.hosts, *wanted.destination.hosts) + 1
    refuse(
        most > len(options.hosts),
        f"the meshes have {most} hosts: the network has {len(options.hosts)} ranks; choose a "
        "larger network (--leaves, --hosts-per-leaf), or smaller meshes",
    )
    return wanted


def _case(options: ReshardingOptions) -> Case:
    shapes = _shapes(options.shape) if options.shape else []
    if len(shapes) > 1:
        raise InputError(
            f"shape {shown(options.shape)} is of {len(shapes)} tensors, and a case has one: give "
            "one shape, or meshes of your own (--source, --destination)"
        )
    if options.case is not None:
        known = case(options.case, full=options.full)
        return replace(known, shape=shapes[0]) if shapes else known
    found = re.fullmatch(r"([0-9]+)x([0-9]+)", options.one_to_many)
    if found is None:
        raise InputError(
            f"one-to-many {shown(options.one_to_many)} is no mesh: write hosts x devices, like 4x2"
        )
    made = one_to_many(int(found[1]), int(found[2]))
    if shapes:
        return replace(made, shape=shapes[0])
    return made if options.full else replace(made, shape=(made.shape[0] // 8, *made.shape[1:]))


def _of_case(options: ReshardingOptions, one: Case) -> Resharding:
    (dtype,) = _dtypes(options.dtype, 1, "a case has one")
    tensor = Tensor(one.shape, dtype, one.source_spec, one.destination_spec)
    return Resharding(one.source, one.destination, (tensor,))


def _own(options: ReshardingOptions) -> Resharding:
    shapes = _shapes(options.shape)
    source, source_specs = _mesh("source", options.source, options.hosts, 0)
    behind = max(source.hosts) + 1
    destination, specs = _mesh("destination", options.destination, options.hosts, behind)
    for name, found in (("source", source_specs), ("destination", specs)):
        if len(found) != len(shapes):
            raise InputError(
                f"{name} {shown(getattr(options, name))} shards {len(found)} tensors, and shape "
                f"{shown(options.shape)} is of {len(shapes)}: give one for each, with semicolons "
                "between"
            )
    dtypes = _dtypes(
        options.dtype, len(shapes), f"shape {shown(options.shape)} is of {len(shapes)}"
    )
    for shape, one, other in zip(shapes, source_specs, specs, strict=True):
        check_text_cuts(one, source, shape)
        check_text_cuts(other, destination, shape)
    parts = zip(shapes, dtypes, source_specs, specs, strict=True)
    return Resharding(source, destination, tuple(Tensor(*each) for each in parts))


def _dtypes(text: str, tensors: int, why: str) -> list[str]:
    """Return the type of each tensor; one type alone is that of all."""
    dtypes = [each.strip() for each in text.split(";")]
    if len(dtypes) not in (1, tensors):
        raise InputError(
            f"dtype {shown(text)} is of {len(dtypes)} tensors, and {why}: give one for all, or one "
            "for each, with semicolons between"
        )
    return dtypes if len(dtypes) == tensors else dtypes * tensors


def _is_count(text: str) -> bool:
    """Return whether a text is a whole number, in ASCII digits."""
    return text.isascii() and text.strip().isdecimal()


def _shapes(text: str) -> list[tuple[int, ...]]:
    shapes = []
    for each in text.split(";"):
        sizes = each.split(",")
        if not all(_is_count(size) and int(size) > 0 for size in sizes):
            raise InputError(
                f"shape {shown(text)} is none: write sizes of dimensions, 1 at least, with commas, "
                "like 3072,1024,170"
            )
        shapes.append(tuple(map(int, sizes)))
    return shapes


def _mesh(name: str, text: str, known: tuple[str, ...], first: int) -> tuple[Mesh, list[str]]:
    """Return a mesh and the shardings of tensors on it, from ``MESH:SPEC``."""
    head, _, specs = text.partition(":")
    found = _MESH.fullmatch(head.strip())
    if found is None or not specs.strip():
        raise InputError(
            f"{name} {shown(text)} is no mesh with a sharding: write hosts x devices, or names of "
            "hosts x devices, then the sharding, like 2x4:S0RR or h0,h3x4:Shard(0),Replicate()"
        )
    hosts = _hosts(name, text, found["hosts"], known, first)
    shape, names = _dimensions(name, text, found["dims"])
    return Mesh(hosts, int(found["devices"]), shape or (), names or ()), [
        each.strip() for each in specs.split(";")
    ]


def _hosts(name: str, text: str, hosts: str, known: tuple[str, ...], first: int) -> tuple[int, ...]:
    if _is_count(hosts):
        count = int(hosts)
        if not count:
            raise InputError(f"{name} {shown(text)}: a mesh has one host at least")
        if count > len(known):
            raise InputError(
                f"{name} {shown(text)}: a mesh of {count} hosts, and the network has {len(known)} "
                "ranks; choose a larger network, or a smaller mesh"
            )
        return tuple(range(first, first + count))
    numbers = []
    for host in hosts.split(","):
        if host.strip() not in known:
            raise InputError(
                f"{name} {shown(text)}: {shown(host.strip())} is the host of no rank; these are "
                f"{', '.join(known[:16])}"
            )
        numbers.append(known.index(host.strip()))
    return tuple(numbers)


def _dimensions(
    name: str, text: str, dims: str | None
) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None]:
    if dims is None:
        return None, None
    parts = [_DIMENSION.fullmatch(each.strip()) for each in re.split("[x,]", dims)]
    if None in parts or len({bool(part and part["name"]) for part in parts}) > 1:
        raise InputError(
            f"{name} {shown(text)}: {shown(dims)} is no shape of a mesh; write sizes, like 2x2x2, "
            "or names and sizes, like dp=2,tp=4"
        )
    found = [part for part in parts if part]
    names = tuple(part["name"] for part in found)
    return tuple(int(part["size"]) for part in found), names if names[0] else None


@lru_cache(maxsize=64)
def plan_of(options: ReshardingOptions) -> ReshardingPlan:
    """Return the plan of a resharding. Raises InputError for what cannot be planned."""
    wanted = case_of(options)
    _, balance = strategy_and_balance(options.algorithm)
    return plan(
        wanted.source, wanted.destination, wanted.tensors, balance=balance, seed=options.seed
    )


@lru_cache(maxsize=64)
def block_bytes_of(options: ReshardingOptions) -> int:
    """Return how many bytes a flow passes on at a time."""
    tasks = plan_of(options).tasks
    largest = max((task.size_bytes for task in tasks), default=1)
    return usual_block_bytes(options.block_bytes, largest, BLOCKS, options.mtu)


@lru_cache(maxsize=16)
def carried(options: ReshardingOptions) -> Carried:
    """Return the flows of a resharding, and the tensors that they carry.

    Raises:
        InputError: what is asked makes no sense, or nothing has to be sent.
    """
    flows = Flows(
        len(options.hosts), options.rate_bps, options.local_factor, block_bytes_of(options)
    )
    carrier = Carrier(flows, lambda host: options.places[host])
    found = plan_of(options)
    if not found.senders:
        raise InputError(
            "reshard: every host has all that its devices need, so that nothing is sent; choose "
            "other meshes or shardings"
        )
    name, _ = strategy_and_balance(options.algorithm)
    links = Links(
        options.rate_bps, options.mtu, flows.block_bytes, options.delay_ns, options.places
    )
    carrier.add(found, strategy_named(name, found, carrier, links))
    return carrier.carried()


def check_memory(options: ReshardingOptions, available_bytes: int | None) -> int:
    """Return how much memory all that hosts hold may take; raise `MachineError` for too much.

    Args:
        available_bytes: the memory that there is; None: it is not known.
    """
    needed = 2 * tile_bytes(options)
    if available_bytes is not None and needed > available_bytes:
        raise MachineError(
            f"reshard: the tiles of all devices are {format_size(needed // 2)}, and up to twice as "
            f"much memory is needed, {format_size(needed)}; {format_size(available_bytes or 0)} "
            "are free: choose a smaller shape, or leave --full out"
        )
    return needed


def tensor_bytes(options: ReshardingOptions) -> int:
    """Return the bytes of all tensors, each once."""
    return sum(tensor.size_bytes for tensor in case_of(options).tensors)


def tile_bytes(options: ReshardingOptions) -> int:
    """Return the bytes of the tiles of all devices of both meshes, which is the most that their
    slices take in hosts' memories."""
    wanted = case_of(options)
    total = 0
    for number, tensor in enumerate(wanted.tensors):
        boxes = (*wanted.source_tiles(number), *wanted.destination_tiles(number))
        total += sum(map(size_of, boxes)) * tensor.item_bytes
    return total
