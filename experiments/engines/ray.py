"""Ray: a cluster that runs already.

Weft starts none itself: the processes of a cluster that Ray starts listen on all interfaces,
whatever address it is given.
"""

import importlib.util
import logging
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from weft.base.errors import MachineError, refuse
from weft.experiments.engines.engine import (
    Engine,
    Need,
    Workers,
    check_port,
    check_versions,
    warn_unless,
)
from weft.experiments.engines.local import ONE_THREAD
from weft.experiments.runs.identity import version

MACHINE = "machine"
"""The resource of a node that has a whole machine for emulated points."""
RETRIES = 2
"""How often a job is run again whose worker died."""
_WHERE = re.compile(r"://[^/,\s]+:[0-9]+")


class RayExecutor(Executor):
    """An executor that runs functions as tasks of Ray."""

    def __init__(self, options: dict[str, Any]) -> None:
        import ray

        self._task = ray.remote(_call).options(max_retries=RETRIES, **options)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function on a core, or a machine, that is free."""
        given: Future[Any] = self._task.remote(function, args, kwargs).future()
        taken: Future[Any] = Future()
        taken.set_running_or_notify_cancel()
        given.add_done_callback(lambda done: _pass_on(done, taken))
        return taken


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _pass_on(done: "Future[Any]", taken: "Future[Any]") -> None:
    """Hand on a result, and of an error of a task what the function itself raised."""
    error = done.exception()
    if error is None:
        taken.set_result(done.result())
    else:
        cause = getattr(error, "cause", None)
        taken.set_exception(cause if isinstance(cause, Exception) else error)


class Ray(Engine):
    """An engine that runs points as tasks of Ray, with Ray's own security."""

    name = "ray"
    forms = ("ray://HOST:PORT",)

    def check(self, where: str) -> None:
        refuse(
            _WHERE.fullmatch(where) is None,
            f"--on ray{where}: say {self.forms[0]}, a cluster that runs already",
        )
        check_port(f"ray{where}")
        refuse(
            importlib.util.find_spec("ray") is None,
            f"--on ray{where}: Ray is not installed: pip install 'weft[ray]'",
            MachineError,
        )

    @contextmanager
    def open(self, where: str, need: Need) -> Iterator[Workers]:
        import ray

        try:
            ray.init(
                f"ray{where}", log_to_driver=False, logging_level=logging.CRITICAL,
                runtime_env={"env_vars": ONE_THREAD},
            )  # fmt: skip
        except (OSError, RuntimeError, ValueError) as error:
            why = [line for line in str(error).splitlines() if line.strip(" ):")] or [repr(error)]
            raise MachineError(
                f"--on ray{where}: no cluster of Ray answers there ({why[-1]}): is it running, is "
                "this its address, and does it want a token (RAY_AUTH_MODE)?"
            ) from None
        warn_unless(
            os.environ.get("RAY_USE_TLS") == "1", f"ray{where}",
            "set RAY_USE_TLS=1 and Ray's certificates",
        )  # fmt: skip
        try:
            _check_nodes(need.machines)
            yield Workers(
                RayExecutor({"num_cpus": 1}),
                lambda: int(ray.cluster_resources().get("CPU", 1)),
                RayExecutor({"num_cpus": 0, "resources": {MACHINE: 1}}),
                lambda: int(ray.cluster_resources().get(MACHINE, 0)),
                lambda: "" if ray.is_initialized() else "its connection has closed",
            )
        finally:
            ray.shutdown()


def _check_nodes(machines: bool) -> None:
    """Raise MachineError for nodes of another version, or where none offers a whole machine."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    told = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(version).options(scheduling_strategy=there)
            try:
                told[node["NodeManagerAddress"]] = ray.get(task.remote())
            except Exception as error:
                reason = str(error).strip().splitlines()[-1]
                told[node["NodeManagerAddress"]] = f"that cannot be asked ({reason})"
    check_versions(told, version())
    refuse(
        machines and not ray.cluster_resources().get(MACHINE),
        "no node offers a machine, and emulated points take a whole one: start one on each as "
        f"root, with ray start --resources '{{\"{MACHINE}\": 1}}'",
        MachineError,
    )
