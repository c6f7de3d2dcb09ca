"""The architectures that there are: whatever folder lies beside this module has one."""

from importlib import import_module
from pkgutil import iter_modules

from weft.switch.compiler import architectures
from weft.switch.compiler.lower.lower import Architecture


def known() -> list[type[Architecture]]:
    """Return the architectures: of each folder what it calls ``ARCHITECTURE``."""
    return [
        import_module(f"{architectures.__name__}.{found.name}").ARCHITECTURE
        for found in iter_modules(architectures.__path__)
        if found.ispkg
    ]
