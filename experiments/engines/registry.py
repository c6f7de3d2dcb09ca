"""The engines there are, and what ``--on`` says."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from weft.base.arguments import text
from weft.base.entry_points import brought
from weft.base.errors import InputError, did_you_mean
from weft.experiments.engines.dask import Dask
from weft.experiments.engines.engine import Engine
from weft.experiments.engines.local import Local
from weft.experiments.engines.ray import Ray

GROUP = "weft.engines"


@dataclass(frozen=True)
class Place:
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


@cache
def engines() -> Mapping[str, Engine]:
    """Return all engines by their names, those of other packages last."""
    own: dict[str, Engine] = {each.name: each for each in (Local(), Dask(), Ray())}
    return {**own, **brought(GROUP, "forms", "check", "open", taken=tuple(own))}


def place_of(on: str) -> Place:
    """Return what ``--on`` says. Raises InputError for an engine or a form that there is not, and
    MachineError for an engine that is not installed."""
    on = text("on", on, "'local:8'")
    name = on.replace("+", ":", 1).partition(":")[0]
    engine = engines().get(name)
    if engine is None:
        forms = ", ".join(form for engine in engines().values() for form in engine.forms)
        hint = did_you_mean(name, engines())
        raise InputError(f"--on {on!r}: there is no engine {name!r}{hint}; say {forms}")
    where = on[len(name) :]
    engine.check(where)
    return Place(engine, where)
