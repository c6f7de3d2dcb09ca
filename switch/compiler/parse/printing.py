"""A preprocessed program as text: as the C preprocessor prints it, and as one tidy file."""

import re
from collections.abc import Mapping
from pathlib import Path

from weft.switch.compiler.parse.preprocess import INCLUDE_FOLDERS, Preprocessed

_INDENT = "    "
_LEXEME = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|[{}()\[\]]")


def preprocessed_text(program: Preprocessed) -> str:
    """Return the preprocessor's output. Lines ``# LINE "FILE"`` say where what follows is from."""
    result: list[str] = []
    file, number = "", 0
    for line in program.lines:
        if (line.file, line.number) != (file, number):
            result.append(f'# {line.number} "{line.file}"')
        result.append(line.text)
        file, number = line.file, line.number + 1
    return "\n".join(result) + "\n"


def pretty_text(program: Preprocessed, defines: Mapping[str, str | None]) -> str:
    """Return a program as one file that compiles to the same: without comments, macros and files
    of its own, indented by its brackets. What Weft brings, like v1model.p4, stays included;
    `defines` are the macros that these may ask for.
    """
    result = [
        f"#define {name} {'1' if value is None else value}" for name, value in defines.items()
    ]
    included: set[str] = set()
    depth = 0
    for line in program.lines:
        name = _name_of_ours(line.file)
        if name is not None:
            if name not in included:
                included.add(name)
                result.append(f"#include <{name}>")
            continue
        text = line.text.strip()
        if not text:
            if result and result[-1]:
                result.append("")
            continue
        brackets = [item for item in _LEXEME.findall(text) if not item.startswith('"')]
        leading = len(text) - len(text.lstrip("})]"))
        result.append(_INDENT * max(0, depth - leading) + text)
        depth = max(0, depth + sum(1 if item in "{([" else -1 for item in brackets))
    return "\n".join(result).rstrip() + "\n"


def _name_of_ours(file: str) -> str | None:
    """Return how a file that Weft brings is included; None for any other."""
    path = Path(file).resolve()
    folder = next((each for each in INCLUDE_FOLDERS if path.is_relative_to(each)), None)
    return None if folder is None else path.relative_to(folder).as_posix()
