"""What the commands of the command line have in common: types of options, and how these are
read."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from weft.base.errors import InputError, refuse

Text = Optional[str]  # noqa: UP045
Place = Text
"""A file or folder to write; `output_folder` and `output_file` read it."""
Flag = Optional[bool]  # noqa: UP045
Texts = Optional[list[str]]  # noqa: UP045


def output_file(out: str | None, option: str = "--out") -> Path | None:
    """Return the file or folder that an option names; None if it is not given. Raises
    `InputError`."""
    refuse(
        out is not None and not out.strip(),
        f"{option} {out!r} is empty: write a path, or leave the option out",
    )
    return None if out is None else Path(out)


def output_folder(out: str | None, option: str = "--out") -> Path | None:
    """Return the folder that an option names, there already or not; None if it is not given. Raises
    `InputError`."""
    path = output_file(out, option)
    refuse(
        path is not None and path.exists() and not path.is_dir(),
        f"{option} {out!r} is a file: name a folder, there already or not",
    )
    return path


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given a value."""
    return {name: value for name, value in options.items() if value is not None and value != []}


def macros(define: Sequence[str] | None, option: str = "-D") -> dict[str, str | None]:
    """Return the macros that an option defines, by name. Raises `InputError` for what is none."""
    pairs = [text.partition("=") for text in define or []]
    for key, equals, value in pairs:
        if not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
            raise InputError(
                f"{option} {key + equals + value!r}: write NAME or NAME=VALUE, the name of "
                f"letters, digits and _, like {'-D ' if option == '-D' else ''}PORTS=64"
            )
    return {key: value if equals else None for key, equals, value in pairs}
