"""Templates of pages and drawings. Import this only to fill one in: Jinja2 takes a while."""

import contextlib
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from weft.base.cache import cache_dir
from weft.base.errors import MachineError


def environment(*folders: Path) -> Environment:
    """Return what fills in the templates of a folder, or of the first of several that has them.

    What templates are given is escaped, except in a ``.txt``; a name that they are not given is an
    error.
    """
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=lambda name: not (name or "").endswith(".txt"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_compiled(),
    )


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, kept between runs where there is room for them."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    with contextlib.suppress(MachineError, OSError):
        folder = cache_dir() / "templates"
        folder.mkdir(exist_ok=True)
        return _Compiled(str(folder))
    return None
