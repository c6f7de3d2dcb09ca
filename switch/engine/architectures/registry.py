"""Which architecture a program is of, by the metadata that it has."""

import json
from contextlib import suppress
from typing import Any

from weft.switch.engine.architectures.architecture import EngineArchitecture
from weft.switch.engine.architectures.psa.architecture import PSA
from weft.switch.engine.architectures.v1model import V1MODEL

Json = Any

BY_METADATA = {"psa_ingress_parser_input_metadata": PSA}
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
