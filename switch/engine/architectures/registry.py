"""Which architecture a program is of, by the metadata that it has: v1model, or whatever folder lies
beside this module."""

import json
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from weft.switch.engine import architectures
from weft.switch.engine.architectures.architecture import EngineArchitecture
from weft.switch.engine.architectures.v1model import V1MODEL

Json = Any

BY_METADATA: dict[str, EngineArchitecture] = {
    found.header: found
    for found in (
        import_module(f"{architectures.__name__}.{each.name}").ARCHITECTURE
        for each in iter_modules(architectures.__path__)
        if each.ispkg
    )
}
"""Architectures other than v1model, by a header that no others' programs have."""

SPECIAL_PORTS = frozenset[int]().union(*(each.ports for each in BY_METADATA.values()))
"""Ports beyond those of links that some architecture has."""


def architecture_in(text: str) -> str:
    """Return the name of the architecture of a program's JSON text, "none" if it is no such."""
    with suppress(ValueError, KeyError, TypeError):
        return architecture_of(json.loads(text)).name
    return "none"


def architecture_of(document: Json) -> EngineArchitecture:
    """Return the architecture of a program in BMv2 JSON."""
    for header in document["headers"]:
        if header["name"] in BY_METADATA and header["metadata"]:
            return BY_METADATA[header["name"]]
    return V1MODEL
