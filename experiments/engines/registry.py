"""The engines there are, and what ``--on`` says."""

from dataclasses import dataclass

from weft.base.arguments import text
from weft.base.errors import InputError, did_you_mean
from weft.base.registry import Registry
from weft.experiments.engines.dask import Dask
from weft.experiments.engines.engine import Engine
from weft.experiments.engines.local import Local
from weft.experiments.engines.ray import Ray


@dataclass(frozen=True)
class EngineAddress:
    """An engine and where it is."""

    engine: Engine
    where: str
    """What follows the engine's name in ``--on``."""

    @property
    def is_here(self) -> bool:
        """Return whether workers are on this machine."""
        return self.engine.is_here(self.where)

    def __str__(self) -> str:
        return f"{self.engine.name}{self.where}"


ENGINES: Registry[Engine] = Registry(
    "weft.engines", (Local(), Dask(), Ray()), needs=("forms", "check", "open")
)
"""All engines, each an `Engine`."""


def place_of(on: str) -> EngineAddress:
    """Return what ``--on`` says. Raises InputError for an engine or a form that there is not, and
    MachineError for an engine that is not installed."""
    on = text("on", on, "'local:8'")
    name = on.replace("+", ":", 1).partition(":")[0]
    engine = ENGINES.get(name)
    if engine is None:
        forms = ", ".join(form for engine in ENGINES.values() for form in engine.forms)
        hint = did_you_mean(name, ENGINES)
        raise InputError(f"--on {on!r}: there is no engine {name!r}{hint}; say {forms}")
    where = on[len(name) :]
    engine.check(where)
    return EngineAddress(engine, where)
