"""A rank's process (`weft.pytorch.fork_server` forks it): a script with its arguments.

It makes the backend known to torch, records steps and losses, and runs the script as
``python SCRIPT`` does (or a module, after ``-m``). A script that knows nothing of Weft gets the
backend by a bare ``init_process_group()``.
"""

import atexit
import contextlib
import functools
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from weft.base.errors import WeftError
from weft.pytorch.messages import Recorded, RunnerLink, Settings
from weft.pytorch.timeline import Timeline

SWITCH_INTERVAL_S = 0.001
"""How long the thread of the network waits for Python's lock while the program computes in
Python."""


def run() -> int:
    """Be a rank, and return its exit status; ``sys.argv`` has the script and its arguments."""
    arguments = sys.argv[1:]
    try:
        settings = Settings.read(os.environ)
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        return 2
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    timeline = Timeline(settings.rank, settings.host)
    _prepare_torch(settings, timeline)
    status = _run(arguments)
    _end_threads()
    sys.stdout.flush()
    sys.stderr.flush()
    _finish(settings, timeline, status)
    return status


def _prepare_torch(settings: Settings, timeline: Timeline) -> None:
    """Make the backend known, and have torch tell of steps and losses."""
    import torch
    from torch.distributed import distributed_c10d
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from weft.pytorch import process_group, session
    from weft.pytorch.fused import operators

    session.prepare(settings, timeline)
    process_group.register()
    operators.register()
    given = distributed_c10d.init_process_group

    @functools.wraps(given)
    def init_process_group(backend: Any = None, *more: Any, **named: Any) -> Any:
        return given(backend or settings.backend, *more, **named)

    for module in [*sys.modules.values()]:  # also those that have imported it by its name
        if getattr(module, "__dict__", {}).get("init_process_group") is given:
            vars(module)["init_process_group"] = init_process_group
    register_optimizer_step_post_hook(lambda *_: timeline.stepped())
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def recorded_backward(tensors: Any, *more: Any, **named: Any) -> Any:
        with contextlib.suppress(Exception):  # of a tensor without a number
            if type(tensors) is torch.Tensor and tensors.numel() == 1:
                timeline.loss(float(tensors.detach()))
        return backward(tensors, *more, **named)

    torch.autograd.backward = recorded_backward


def _run(arguments: list[str]) -> int:
    """Run the script, and return its exit status."""
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        _print_error(error)
        return 1
    return 0


def _end_threads() -> None:
    """Do what the interpreter does at its end, while the network is there: wait for threads, and
    call what is registered with atexit."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()


def _print_error(error: BaseException) -> None:
    """Print what the script has raised, without the lines of those who ran it."""
    trace = error.__traceback__
    while trace is not None and Path(trace.tb_frame.f_code.co_filename).name in (
        "launch.py", "<frozen runpy>", "runpy.py"
    ):  # fmt: skip
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _finish(settings: Settings, timeline: Timeline, status: int) -> None:
    """Write what was recorded; after success, serve the peers until all are done."""
    from weft.pytorch.session import open_session

    shared = open_session()
    path = Path(settings.folder) / f"rank-{settings.rank}.json"
    if shared is None:
        timeline.write(path, {}, {}, set())
    else:
        network = shared.network
        timeline.write(
            path, network.statistics(), network.background.driver.lateness_ns(), shared.notes
        )
    if status:
        return
    runner = shared.network.runner if shared is not None else _link(settings)
    if runner is None:
        return
    runner.say(Recorded(str(path), {} if shared is None else shared.network.finish()))
    runner.all_done.wait()
    if shared is not None:
        shared.network.close()


def _link(settings: Settings) -> RunnerLink | None:
    try:
        return RunnerLink(settings, lambda _: None)
    except WeftError:
        return None
