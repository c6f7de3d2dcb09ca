"""A program that switches run: from BMv2 JSON to a pipeline, each built once in a process."""

import hashlib
import sys
from collections.abc import Callable, Container

from weft.switch.engine.codegen.loading import (
    Pipeline,
    load,
    load_at_once,
    store,
    write_source,
)
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


def build_at_once(text: str, *, drop_port: int = DROP_PORT) -> Pipeline:
    """Do as ``build`` does, but where the program is yet to be compiled return its plain form, made
    for the caller alone; raises ``ProgramError`` for what cannot be translated."""
    program, path = write_source(text, drop_port)
    check_given_entries(program)
    return load_at_once(program, path)


def _forget(key: tuple[bytes, bool, int]) -> None:
    stem = _built.pop(key).source_path.stem
    for name in (stem, f"plain_{stem}"):
        sys.modules.pop(name, None)


def build_traced(
    text: str, *, plain: bool = False, drop_port: int = DROP_PORT, at_once: bool = False
) -> tuple[Pipeline, Legend]:
    """Return the traced form of BMv2 JSON that ``build`` takes, and what its records mean.

    It takes as long as ``build``, or with ``at_once`` as ``build_at_once``; raises
    ``ProgramError``.
    """
    source, legend = generate_traced(read_program(text), drop_port)
    path = store(source)
    if at_once:
        return load_at_once(legend.program, path), legend
    return load(legend.program, path, plain=plain), legend


class Programs:
    """The programs of some switches, each built once, and their traced forms.

    ``compiling``: is called with each program that runs in the plain form until it has been
    compiled; None: programs are compiled before they are there.
    """

    def __init__(
        self, plain: bool, drop_port: int, compiling: Callable[[Pipeline], None] | None
    ) -> None:
        self.plain, self._drop_port, self._compiling = plain, drop_port, compiling
        self._built: dict[str, Pipeline] = {}
        self._traced: dict[int, tuple[Pipeline, Legend]] = {}

    def built(self, text: str, used: Callable[[], Container[int]]) -> Pipeline:
        """Return the program that BMv2 JSON is. One that is forgotten to make room is none of
        those whose identities are in use."""
        if text not in self._built:
            if len(self._built) >= MOST_BUILT:
                self._forget_all_but(used())
            if self._compiling is None:
                built = build(text, plain=self.plain, drop_port=self._drop_port)
            else:
                built = self._at_once(build_at_once(text, drop_port=self._drop_port))
            self._built[text] = built
        return self._built[text]

    def _forget_all_but(self, used: Container[int]) -> None:
        for text, built in list(self._built.items()):
            if id(built) not in used:
                del self._built[text]
                self._traced.pop(id(built), None)

    def traced(self, pipeline: Pipeline) -> tuple[Pipeline, Legend]:
        """Return the traced form of a program that was `built`. Raises ``ProgramError``."""
        if id(pipeline) not in self._traced:
            text = next(text for text, built in self._built.items() if built is pipeline)
            at_once = self._compiling is not None
            traced, legend = build_traced(
                text, plain=self.plain, drop_port=self._drop_port, at_once=at_once
            )
            self._traced[id(pipeline)] = self._at_once(traced), legend
        return self._traced[id(pipeline)]

    def _at_once(self, pipeline: Pipeline) -> Pipeline:
        if self._compiling is not None and not pipeline.compiled:
            self._compiling(pipeline)
        return pipeline

    def plain_packets(self, pipeline: Pipeline, switch: int) -> int:
        """Return how often packets of a switch have gone through the ingress of a program in the
        plain form, traced or not."""
        traced = self._traced.get(id(pipeline))
        traced_packets = 0 if traced is None else traced[0].plain_packets[switch]
        return pipeline.plain_packets[switch] + traced_packets
