"""The architectures whose ingress and egress are modules beside this one, by their names."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from weft.switch.interpreter import architectures


def own_passage(name: str) -> Any:
    """Return the module of an architecture, with its ``ingress`` and ``egress``, which take a
    `weft.switch.interpreter.interpreter.Passage` and a packet; None if it has none."""
    if all(found.name != name for found in iter_modules(architectures.__path__)):
        return None
    return import_module(f"{architectures.__name__}.{name}")
