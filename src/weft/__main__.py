"""``python -m weft`` is the ``weft`` command."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # nothing is imported before it is settled below where modules are looked for
if TYPE_CHECKING:
    from typing import NoReturn


def start() -> NoReturn:
    """Import the command line, which takes most of a second, and run it; never returns."""
    import gc
    import signal

    # Nearly all that a command imports and makes is kept until its end. With Python's threshold of
    # 700 objects the collector looks through it so often that it takes a fifth of a small run.
    gc.set_threshold(50_000, 20, 20)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until `main` sees to signals there is nothing to clean up, and no traceback to show.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # gRPC would start threads anew after each fork, and end the process where it gets none; what is
    # forked here starts another program at once.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # that a switch has ended is said by Weft
    # NumPy's library for matrices would start a thread for every processor, which first spins for a
    # while. `os.environ` does not have this, so programs on hosts do not inherit it.
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.putenv("OPENBLAS_NUM_THREADS", "1")
    from importlib.util import find_spec

    from weft.cli.command_line import main

    tools = find_spec("weft.tools")
    if tools is not None and tools.has_location:  # in a checkout; what pip installs has none
        import weft.tools.commands  # noqa: F401

    main()


if __name__ == "__main__":
    # Python 3.10 cannot be told not to look for modules in the current folder first, where a file
    # of the user's would take the place of the library's module of that name.
    _checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _first = sys.path[0]
    if _first != _checkout and os.path.exists(_first) and os.path.samefile(_first, "."):
        del sys.path[0]
    start()
