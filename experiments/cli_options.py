"""What commands of the command line have in common: options, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console

from base.errors import InputError

Text = Optional[str]  # noqa: UP045
Place = Text
"""A file or folder to write; `output_folder` and `output_file` read it."""
Flag = Optional[bool]  # noqa: UP045
# Numbers are read by `experiments.scenario`, which says what is wrong with one in its own words.
Texts = Optional[list[str]]  # noqa: UP045

TopologyOption = Annotated[Text, typer.Option(help="leaf-spine, single or fat-tree.")]
Leaves = Annotated[Text, typer.Option(metavar="N", help="Leaf switches of a leaf-spine. [4]")]
Spines = Annotated[Text, typer.Option(metavar="N", help="Spine switches of a leaf-spine. [2]")]
Tensor = Annotated[
    Text,
    typer.Option(metavar="N", help="Flows of a model: ranks that share a layer. [a leaf's hosts]"),
]
MicroBatches = Annotated[
    Text, typer.Option(metavar="N", help="Flows of a model: micro-batches of a step. [1]")
]
HostsPerLeaf = Annotated[
    Text,
    typer.Option(metavar="N", help="Hosts of each leaf [2]; of --topology single: all hosts [8]."),
]
K = Annotated[
    Text, typer.Option("--k", metavar="N", help="Ports of each switch of a fat tree. [4]")
]
Tiers = Annotated[
    Text, typer.Option(metavar="N", help="Tiers of switches of a fat tree, 2 or 3. [3]")
]
Rate = Annotated[
    Text, typer.Option(help="Rate of every link. [100Mbit; 20Mbit with --switch bmv2]")
]
Oversubscription = Annotated[
    Text,
    typer.Option(
        metavar="X", help="Slower links between switches: a leaf's hosts send X times as much."
    ),
]
PlacementOption = Annotated[
    Text, typer.Option(help="Ranks on hosts: in-order, strided or random. [in-order]")
]


def make_console(*, stderr: bool = False) -> Console:
    """The terminal; a file or a pipe is given lines as long as the widest table."""
    console = Console(stderr=stderr)
    if not console.is_terminal:
        console.width = max(console.width, 100)
    return console


def output_file(out: str | None) -> Path | None:
    if out is not None and not out.strip():
        raise InputError(f"--out {out!r} is empty: write a path, or leave the option out")
    return None if out is None else Path(out)


def output_folder(out: str | None) -> Path | None:
    path = output_file(out)
    if path is not None and path.exists() and not path.is_dir():
        raise InputError(f"--out {out!r} is a file: name a folder, there already or not")
    return path


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value != []}


Includes = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("-I", help="Folder to look for includes in; may be repeated."),
]
Defines = Annotated[
    Texts, typer.Option("-D", help="NAME or NAME=VALUE for the preprocessor; may be repeated.")
]


def macros(define: Sequence[str] | None) -> dict[str, str | None]:
    """What ``-D`` defines, by name; raises `InputError` for what is no name."""
    pairs = [text.partition("=") for text in define or []]
    for key, equals, value in pairs:
        if not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            raise InputError(
                f"-D {key + equals + value!r}: write NAME or NAME=VALUE, the name of letters, "
                "digits and _, like -D PORTS=64"
            )
    return {key: value if equals else None for key, equals, value in pairs}
