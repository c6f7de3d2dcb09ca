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
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from weft.base.errors import WeftError
from weft.pytorch.messages import Recorded, RunnerLink, Settings
from weft.pytorch.steps import Steps
from weft.pytorch.timeline import Timeline

SWITCH_INTERVAL_S = 0.001
"""How long the thread of the network waits for Python's lock while the program computes in
Python."""

MOST_REASON = 1000
"""The most characters of the exception that has ended a program."""


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
    runner = _finder_of_the_runner(settings)
    _prepare_torch(settings, timeline, runner)
    process = os.getpid()
    status = _run(arguments, reason_path(settings.folder, settings.rank))
    if os.getpid() != process:  # a copy that the program has made of itself, which is no rank
        return status
    _end_threads()
    sys.stdout.flush()
    sys.stderr.flush()
    _finish(settings, timeline, status, runner)
    return status


def _prepare_torch(
    settings: Settings, timeline: Timeline, runner: Callable[[], RunnerLink | None]
) -> None:
    """Make the backend known, and have torch tell of steps and losses."""
    import torch
    from torch.distributed import distributed_c10d
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from weft.pytorch import backend, session
    from weft.pytorch.fused import operators

    session.prepare(settings, timeline)
    backend.register()
    operators.register()
    _take_note_of_groups(settings, timeline)
    given = distributed_c10d.init_process_group

    @functools.wraps(given)
    def init_process_group(backend: Any = None, *more: Any, **named: Any) -> Any:
        return given(backend or settings.backend, *more, **named)

    for module in [*sys.modules.values()]:  # also those that have imported it by its name
        if getattr(module, "__dict__", {}).get("init_process_group") is given:
            vars(module)["init_process_group"] = init_process_group
    steps = Steps(settings, timeline, runner)
    register_optimizer_step_post_hook(lambda *_: steps.ended())
    steps.slow_down()
    backward = torch.autograd.backward

    @functools.wraps(backward)
    def recorded_backward(tensors: Any, *more: Any, **named: Any) -> Any:
        with contextlib.suppress(Exception):  # of a tensor without a number
            if type(tensors) is torch.Tensor and tensors.numel() == 1:
                timeline.loss(float(tensors.detach()))
        return backward(tensors, *more, **named)

    torch.autograd.backward = recorded_backward


def _take_note_of_groups(settings: Settings, timeline: Timeline) -> None:
    """Let names of backends mean Weft that are to, and record which groups there are. All groups
    come by one function of torch's, those of a DeviceMesh, too."""
    from torch.distributed import distributed_c10d

    make = distributed_c10d._new_process_group_helper

    @functools.wraps(make)
    def make_group(size: int, rank: int, ranks: Any, backend: Any, *more: Any, **named: Any) -> Any:
        name = meant(str(backend), settings.as_weft)
        made = make(size, rank, ranks, name, *more, **named)
        if size > 1 and made[0] in distributed_c10d._world.pg_names:
            kind = distributed_c10d.BackendConfig(distributed_c10d.Backend(name))
            timeline.grouped(
                str(distributed_c10d._world.pg_names[made[0]]),
                str(kind.get_device_backend_map().get("cpu", "none")),
            )
        return made

    distributed_c10d._new_process_group_helper = make_group


def meant(backend: str, as_weft: Collection[str]) -> str:
    """Return the backend that is meant by a name, or by names for devices as in
    ``cpu:gloo,cuda:nccl``.

    Args:
        as_weft: the names that mean Weft, which is for the CPU alone.
    """
    by_device = dict(each.split(":", 1) for each in backend.lower().split(",") if ":" in each)
    name = by_device.get("cpu", "") if by_device else backend.lower()
    return "weft" if name in as_weft else backend


def reason_path(folder: str | Path, rank: int) -> Path:
    """Return where a rank writes which exception has ended its program."""
    return Path(folder) / f"reason-{rank}"


def _run(arguments: list[str], reason: Path) -> int:
    """Run the script, and return its exit status; if an exception ended it, write to a file which
    one it was."""
    process = os.getpid()

    def ended_by(text: str) -> None:
        if os.getpid() == process:
            with contextlib.suppress(OSError):
                reason.write_text(text[:MOST_REASON])

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
        ended_by(str(end.code))
        return 1
    except KeyboardInterrupt:
        ended_by("KeyboardInterrupt")
        return 130
    except BaseException as error:
        ended_by(_words_of(error))
        _print_error(error)
        return 1
    return 0


def _end_threads() -> None:
    """Do what the interpreter does at its end, while the network is there: wait for threads, and
    call what is registered with atexit."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()


def _words_of(error: BaseException) -> str:
    """Return an exception's type and the first line of what it says."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    said = next(iter(str(error).strip().splitlines()), "")
    return f"{name}: {said}" if said else name


def _print_error(error: BaseException) -> None:
    """Print what the script has raised, without the lines of those who ran it."""
    trace = error.__traceback__
    while trace is not None and Path(trace.tb_frame.f_code.co_filename).name in (
        "launch.py", "<frozen runpy>", "runpy.py"
    ):  # fmt: skip
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _finish(
    settings: Settings, timeline: Timeline, status: int, runner: Callable[[], RunnerLink | None]
) -> None:
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
    link = runner()
    if link is None:
        return
    link.say(Recorded(str(path), {} if shared is None else shared.network.finish()))
    link.all_done.wait()
    if shared is not None:
        shared.network.close()


def _finder_of_the_runner(settings: Settings) -> Callable[[], RunnerLink | None]:
    """Return what finds the connection to the runner: that of Weft's groups, once there are some;
    else one of its own, made once; None without a runner."""
    from weft.pytorch.session import open_session

    @functools.cache
    def own() -> RunnerLink | None:
        try:
            return RunnerLink(settings, lambda _: None)
        except WeftError:
            return None

    def find() -> RunnerLink | None:
        shared = open_session()
        return own() if shared is None else shared.network.runner

    return find
