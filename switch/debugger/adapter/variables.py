"""What a packet holds, as scopes and variables of the debug adapter protocol."""

from typing import Any

from weft.base.errors import InputError
from weft.switch.debugger.expressions import assign, header_text
from weft.switch.debugger.values import View

HEADERS, METADATA, STANDARD, LOCALS = range(1, 5)
FIRST_HEADER = 16
"""References from here on are of single headers, in the program's order."""

SCOPES = (
    ("Headers", HEADERS), ("Metadata", METADATA), ("Standard metadata", STANDARD),
    ("Locals", LOCALS),
)  # fmt: skip


def scopes() -> list[dict[str, Any]]:
    """Return the scopes, which are the same in all frames: a packet is in all its blocks."""
    return [
        {"name": name, "variablesReference": reference, "expensive": False}
        for name, reference in SCOPES
    ]


def path_of(reference: int, name: str, view: View) -> str:
    """Return by which name of the source a variable of a scope goes. Raises InputError."""
    headers = view.headers()
    if FIRST_HEADER <= reference < FIRST_HEADER + len(headers):
        return f"hdr.{headers[reference - FIRST_HEADER]}.{name}"
    names = {METADATA: view.metadata(), STANDARD: view.standard()}.get(reference, [])
    return next((each for each in names if each.partition(".")[2] == name), name)


def variables(reference: int, view: View) -> list[dict[str, Any]]:
    """Return the variables of a scope, or the fields of a header. Raises InputError."""
    headers = view.headers()
    if reference == HEADERS:
        return [
            {
                "name": f"hdr.{name}",
                "value": header_text(name, view),
                "type": "header",
                "evaluateName": f"hdr.{name}",
                "variablesReference": FIRST_HEADER + number,
            }
            for number, name in enumerate(headers)
        ]
    if FIRST_HEADER <= reference < FIRST_HEADER + len(headers):
        header = headers[reference - FIRST_HEADER]
        paths = [f"hdr.{header}.{name}" for name in view.fields(header)]
        return [_variable(path.rpartition(".")[2], path, view) for path in paths]
    match reference:
        case 2:
            names = view.metadata()
        case 3:
            names = view.standard()
        case 4:
            own = [*(name for name, _ in view.parameters), *view.variables()]
            return [_variable(name, name, view) for name in own]
        case _:
            raise InputError(f"there are no variables {reference}")
    return [_variable(name.partition(".")[2], name, view) for name in names]


def set_variable(reference: int, name: str, text: str, view: View) -> str:
    """Change a variable of a scope or a field of a header, and return its value as text. Raises
    InputError."""
    path = path_of(reference, name, view)
    assign(path, text.split(" (")[0], view)
    header = view.header(path)
    return header_text(header, view) if header else view.text(view.find(path))


def _variable(name: str, path: str, view: View) -> dict[str, Any]:
    at = view.find(path)
    return {
        "name": name,
        "value": view.text(at),
        "type": f"bit<{view.width(at)}>",
        "evaluateName": path,
        "variablesReference": 0,
    }
