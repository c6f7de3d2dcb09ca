"""DTensor's way from Shard to Shard: an all-to-all, as on GPUs.

For a mesh of CPUs torch takes an Allgather of which each rank keeps a part, since Gloo once had no
all-to-all. It looks at the mesh's device alone, so no back end can have it otherwise; the function
that does so is put in place of, for groups of Weft's, and is as it was for all others.
"""

import functools
from typing import Any

import torch
from torch.distributed.tensor import _collective_utils, placement_types

from weft.pytorch.process_group import WeftProcessGroup


def go_by_all_to_all() -> None:
    """Let DTensors whose mesh is of Weft's groups go from Shard to Shard by an all-to-all."""
    given = _collective_utils.shard_dim_alltoall

    @functools.wraps(given)
    def shard_dim_alltoall(
        input: torch.Tensor, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int
    ) -> torch.Tensor:
        group = mesh.get_group(mesh_dim)
        if not isinstance(group, WeftProcessGroup) or input.layout != torch.strided:
            return given(input, gather_dim, shard_dim, mesh, mesh_dim)
        found: torch.Tensor = torch.ops._dtensor.shard_dim_alltoall(
            input, gather_dim, shard_dim, group.group_name
        )
        return found

    for module in (_collective_utils, placement_types):
        if getattr(module, "shard_dim_alltoall", None) is given:
            module.shard_dim_alltoall = shard_dim_alltoall
