"""The backend ``weft`` of torch.distributed, for tensors on the CPU."""

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from weft.base.errors import InputError, RunError
from weft.pytorch.dispatcher import OPERATORS, complete, seen
from weft.pytorch.flight_recorder import FlightRecorder, add_to_torchs
from weft.pytorch.process_group import NAME, WeftProcessGroup
from weft.pytorch.session import open_session, session
from weft.pytorch.shard_to_shard import go_by_all_to_all
from weft.pytorch.work import WeftWork


def create(options: Any, _backend_options: Any = None) -> WeftProcessGroup:
    """Make a group, as torch asks for one (`Backend.register_backend` with `extended_api`)."""
    try:
        return WeftProcessGroup(
            options.store,
            int(options.group_rank),
            int(options.group_size),
            options.timeout,
            str(options.group_id),
            session(),
        )
    except (InputError, RunError) as error:
        raise RuntimeError(str(error)) from error


_CALLED = (
    "broadcast", "allreduce", "allreduce_coalesced", "allgather", "allgather_coalesced",
    "all_gather_single", "all_gather_single_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "all_to_all_single", "alltoall_base", "alltoall", "gather", "gather_single", "scatter",
    "reduce", "barrier", "monitored_barrier", "start_coalescing", "end_coalescing",
    "_start_coalescing", "_end_coalescing", "send", "recv", "recv_anysource",
)  # fmt: skip
"""What torch calls of a group while a program runs."""


def _prepare_methods() -> None:
    """Let torch's tools see calls of groups, and torch.compile end its graph where one is called,
    and not look into what it does."""
    complete()
    for name in OPERATORS:
        setattr(WeftProcessGroup, name, seen(name, getattr(WeftProcessGroup, name)))
    methods = [*((WeftProcessGroup, name) for name in _CALLED), (WeftWork, "wait")]
    for kind, name in methods:
        setattr(kind, name, torch.compiler.disable(getattr(kind, name)))


def _recorder() -> FlightRecorder | None:
    shared = open_session()
    return None if shared is None else shared.recorder


def register() -> None:
    """Make the backend known to torch; a bare `init_process_group` gets it on the CPU."""
    if NAME not in dist.Backend.backend_list:
        _prepare_methods()
        add_to_torchs(_recorder)
        go_by_all_to_all()
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
    with contextlib.suppress(AttributeError):
        dist.Backend.default_device_backend_map["cpu"] = NAME
