"""A program that switches run: from BMv2 JSON to a pipeline, each built once in a process."""

import hashlib
import sys

from weft.switch.engine.codegen.loading import Pipeline, load, store, write_source
from weft.switch.engine.codegen.traced import Legend, generate_traced
from weft.switch.engine.control.tables import check_given_entries
from weft.switch.engine.dataplane.layout import DROP_PORT
from weft.switch.engine.program.reader import read_program

MOST_BUILT = 16
"""How many programs a process remembers."""
_built: dict[tuple[bytes, bool, int], Pipeline] = {}


def build(text: str, *, plain: bool = False, drop_port: int = DROP_PORT) -> Pipeline:
    """Translate and compile BMv2 JSON; raises ``ProgramError``.

    Takes seconds the first time, a tenth of a second from the cache, and nothing if this process
    has built the same program already.
    """
    key = (hashlib.sha256(text.encode()).digest(), plain, drop_port)
    if key not in _built:
        while len(_built) >= MOST_BUILT:
            _forget(next(iter(_built)))
        program, path = write_source(text, drop_port)
        check_given_entries(program)
        _built[key] = load(program, path, plain=plain)
    return _built[key]


def _forget(key: tuple[bytes, bool, int]) -> None:
    stem = _built.pop(key).source_path.stem
    for name in (stem, f"plain_{stem}"):
        sys.modules.pop(name, None)


def build_traced(
    text: str, *, plain: bool = False, drop_port: int = DROP_PORT
) -> tuple[Pipeline, Legend]:
    """Return the traced form of BMv2 JSON that ``build`` takes, and what its records mean.

    It takes as long as ``build``; raises ``ProgramError``.
    """
    source, legend = generate_traced(read_program(text), drop_port)
    return load(legend.program, store(source), plain=plain), legend
