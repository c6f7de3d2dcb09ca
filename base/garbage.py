"""Rest from the garbage collector, for work that makes very many objects and keeps them all."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch the garbage collector off within the block.

    A program's syntax tree or a plan's messages are all kept until the end, and looking through
    them again and again takes a fifth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
