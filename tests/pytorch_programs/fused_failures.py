"""Calls fused operators wrongly, or dies meanwhile; every rank prints what it was told."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def gemv(rows=1000, inner=8, **options):
    name = dist.group.WORLD.group_name
    return torch.ops.weft.gemv_allreduce(
        torch.ones(rows, inner), torch.ones(inner), name, **options
    )


def main():
    dist.init_process_group()
    rank, size, how = dist.get_rank(), dist.get_world_size(), sys.argv[1]
    name = dist.group.WORLD.group_name
    odd = rank == 1
    gemv()
    begun = time.monotonic()
    try:
        if how == "killed":
            if odd:
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGKILL)
            gemv()
        elif how == "raises":
            if odd:
                raise ValueError("bad luck")
            gemv()
        elif how == "ends":
            if not odd:
                gemv()
        elif how == "stopped":
            if odd:
                os.kill(os.getpid(), signal.SIGSTOP)
            gemv()
        elif how == "size":
            gemv(999 if odd else 1000)
        elif how == "tiles":
            gemv(tile_rows=10 if odd else 20)
        elif how == "operator":
            if odd:
                torch.ops.weft.gemm_all_to_all(
                    torch.ones(size, 8),
                    torch.ones(1, 8, 8),
                    torch.ones(size, 1, dtype=torch.int64),
                    torch.ones(size, 1, dtype=torch.int64),
                    name,
                )
            else:
                gemv()
        elif how == "collective":
            if odd:
                dist.all_reduce(torch.ones(1000))
            else:
                gemv()
        elif how == "collective of the others":
            if odd:
                gemv()
            else:
                dist.all_reduce(torch.ones(1000))
        elif how == "refused by one":
            gemv(order="backwards" if odd else "remote-first")
        elif how == "counts":
            splits = torch.full((size, 1), 2)
            returns = splits.clone()
            if odd:
                returns[0] = 3
            torch.ops.weft.gemm_all_to_all(
                torch.ones(2 * size, 8), torch.ones(1, 8, 8), splits, returns, name
            )
        elif how == "backward":
            x = torch.ones(8 * size, 8, requires_grad=True)
            splits = torch.full((size, 1), 8)
            found = torch.ops.weft.gemm_all_to_all(x, torch.ones(1, 8, 8), splits, splits, name)
            if odd:
                os._exit(3)
            found.sum().backward()
        print("not noticed" if not (how == "ends" and odd) else "ended", flush=True)
    except (RuntimeError, ValueError) as error:
        print(
            f"noticed after {time.monotonic() - begun:.1f} s: {type(error).__name__}: {error}",
            flush=True,
        )
        if how == "refused by one":
            time.sleep(1)
            try:
                gemv()
                print("not noticed again")
            except RuntimeError as again:
                print("again:", again)
        if how in ("raises",) and odd:
            raise


if __name__ == "__main__":
    main()
