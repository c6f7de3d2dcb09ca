"""A network as the text of a network file (TOML), which `weft.topo.own.read_network` reads."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from weft.base import documents
from weft.base.errors import InputError
from weft.topo.network import Topology
from weft.topo.network_document import NetworkDocument, texts_of

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def network_text(topology: Topology, folder: Path) -> str:
    """Return the text of a file that describes a network of one's own. Raises InputError for one of
    Weft's own shapes.

    Args:
        folder: where the file is to be, by which it names programs and other files.
    """
    if not topology.document:
        raise InputError(
            f"network {topology.name} is one of Weft's own shapes, which its options describe: a "
            "file has a network of one's own, or of another tool"
        )
    document = documents.decoded(NetworkDocument, topology.document, "network")
    document.programs = {name: _near(path, folder) for name, path in document.programs.items()}
    document.entries = {
        name: [_near(path, folder) for path in texts_of(paths)]
        for name, paths in document.entries.items()
    }
    document.cpu_port = topology.cpu_port
    if document.priority_queues != topology.priority_queues:
        document.priority_queues = topology.priority_queues
        document.queue_weights, document.queue_rates, document.queue_depths = [], [], []
    return "\n".join(_lines(msgspec.to_builtins(document))) + "\n"


def _near(path: str, folder: Path) -> str:
    return os.path.relpath(Path(path).absolute(), folder.absolute())


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: plain values, then tables, then the links."""
    plain = {key: value for key, value in document.items() if not _is_table(value)}
    yield from (f"{key} = {_value(value)}" for key, value in plain.items())
    for name, table in document.items():
        if isinstance(table, Mapping) and table:
            yield ""
            yield f"[{name}]"
            yield from (f"{_key(key)} = {_value(value)}" for key, value in table.items())
    for link in document.get("links", []):
        yield ""
        yield "[[links]]"
        yield from (f"{_key(key)} = {_value(value)}" for key, value in link.items())


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    text = json.dumps(value, ensure_ascii=False)  # of TOML's basic strings, numbers and booleans
    return text.replace("\x7f", "\\u007f")
