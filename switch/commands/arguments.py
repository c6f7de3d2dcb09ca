"""Options of commands that compile P4 programs, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from weft.base.command_line import Texts
from weft.base.errors import InputError

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
