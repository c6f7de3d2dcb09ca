"""pytest in a process that may have mutants in it: which modules it gets, which tests it runs."""

from __future__ import annotations

import ast
import gc
import importlib.abc
import importlib.machinery
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest

from weft.tools.mutation import plain
from weft.tools.mutation.subjects import ROOT

MOST_EXAMPLES = 25
_SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a test; it has no public name for it."""
PROBE = "__weft_reached__"
_CRC = "agents/wire/crc.py"


class Modules(importlib.abc.MetaPathFinder):
    """Gives modules of the checkout another source than their file's."""

    def __init__(
        self,
        sources: Mapping[str, str | ast.Module],
        reached: Mapping[str, set[int]],
        *,
        plain_form: bool,
    ) -> None:
        """
        Args:
            sources: by the module's path.
            reached: by path, sets that a module's probes (see `with_probes`) put lines into.
            plain_form: whether kernels run as Python; the ICRC is left to zlib where it is not
                what is looked at.
        """
        self._sources = sources
        self._reached = reached
        self._plain_form = plain_form

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that is to have another source; None for others."""
        name = fullname.removeprefix("weft.").replace(".", "/") + ".py"
        icrc = self._plain_form and name == _CRC
        if name not in self._sources and not icrc:
            return None
        loader = _Loader(fullname, str(ROOT / name))
        loader.source = self._sources.get(name)
        loader.reached = self._reached.get(name)
        if icrc:
            mutated = name in self._sources and name not in self._reached
            loader.then = plain.crc_by_tables if mutated else plain.quicken
        return importlib.machinery.ModuleSpec(fullname, loader, origin=loader.path)


class _Loader(SourceFileLoader):
    source: str | ast.Module | None = None
    reached: set[int] | None = None
    then: Callable[[ModuleType], None] | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        if self.source is None:
            return super().get_code(fullname)
        code: CodeType = compile(self.source, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.path
        if self.reached is not None:
            vars(module)[PROBE] = self.reached.add
        super().exec_module(module)
        if self.then is not None:
            self.then(module)


def with_probes(source: str) -> ast.Module:
    """A module that notes the line of every statement that is reached."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                setattr(node, name, _probed(body))
    return ast.fix_missing_locations(tree)


def _probed(body: list[ast.stmt]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for statement in body:
        first = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not first and not future:
            probe = ast.parse(f"{PROBE}({statement.lineno})").body[0]
            made.append(ast.copy_location(probe, statement))
            for part in ast.walk(probe):
                ast.copy_location(part, statement)
        made.append(statement)
    return made


@dataclass(eq=False)
class Watch:
    """A plugin of pytest: runs chosen tests alone, stops at the first failure, limits times."""

    chosen: Collection[str] | None = None
    """Names of tests; None for all."""
    limits_s: Mapping[str, float] = field(default_factory=dict)
    """Processor time of each chosen test, after which the process ends."""
    ended: Callable[[str, bool], None] | None = None
    """Called after each test, with its name and whether it passed."""
    collected: Callable[[], None] | None = None
    began: Callable[[str], None] | None = None
    loop: Callable[[list[pytest.Item]], None] | None = None
    """Called with all tests, in place of running them."""
    longest_s: float = math.inf
    """Of this process's processor time, after which no other test begins."""
    late: bool = False
    """Whether that has come to pass with tests left."""
    failed: str = ""
    """The first test that failed, or the file that could not be imported."""
    _passed: bool = True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            _limit_examples(item)
        if self.chosen is not None:
            items[:] = [item for item in items if item.nodeid in self.chosen]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid} cannot be imported"

    def pytest_collection(self) -> None:
        """Random tests look for a failure, not for its smallest example; settings that tests have
        of their own take these up when they are imported."""
        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings.get_profile("weft"),
            derandomize=True,
            database=None,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_finish(self) -> None:
        if self.collected is not None:
            self.collected()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.loop is None:
            return None
        self.loop(session.items)
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, None]:
        self._passed = False
        if self.began is not None:
            self.began(item.nodeid)
        if limit_s := self.limits_s.get(item.nodeid, 0.0):
            # The signals' default is that the process ends, wherever it is.
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            signal.setitimer(signal.ITIMER_REAL, 30 * limit_s)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.ended is not None:
            self.ended(item.nodeid, self._passed)
        if nextitem is not None and time.process_time() > self.longest_s:
            self.late = True
            item.session.shouldstop = f"more than {self.longest_s:g} s"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._passed = report.passed
        if report.failed:
            self._passed = False
            self.failed = self.failed or report.nodeid


def _limit_examples(item: pytest.Item) -> None:
    """Let a random test draw no more than `MOST_EXAMPLES`, whatever its own settings say."""
    function = getattr(item, "obj", None)
    known = getattr(function, _SETTINGS, None)
    if isinstance(known, hypothesis.settings) and known.max_examples > MOST_EXAMPLES:
        fewer = hypothesis.settings(known, max_examples=MOST_EXAMPLES)
        setattr(getattr(function, "__func__", function), _SETTINGS, fewer)


def run_pytest(files: Sequence[str], watch: Watch, *, stop: bool) -> int:
    """Run tests of files, given from the root; pytest's exit status."""
    arguments = [
        "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider",
        "-p", "no:xdist", "-p", "no:faulthandler", "-m", "not system", "-q", "--no-header",
        "--tb=short", "--capture=no", "--continue-on-collection-errors",
    ]  # fmt: skip
    if stop:
        arguments.append("-x")
    return int(pytest.main([*arguments, *(str(ROOT / file) for file in files)], [watch]))


def prepare(
    sources: Mapping[str, str | ast.Module],
    reached: Mapping[str, set[int]] | None = None,
    *,
    plain_form: bool,
) -> None:
    """Make this process one in which modules have other sources, and kernels their plain form."""
    os.environ["CI"] = "1"  # random tests draw the same examples each time
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    if plain_form:
        plain.use_plain_form()
    sys.meta_path.insert(0, Modules(sources, reached or {}, plain_form=plain_form))


def functions_of_checkout() -> dict[str, list[FunctionType]]:
    """All functions that there are, by the path of their module."""
    found: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        # isinstance would ask the object itself, and a weak proxy of what is gone raises an error.
        if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{ROOT}/"):
            path = each.__code__.co_filename[len(f"{ROOT}/") :].removeprefix("src/weft/")
            found.setdefault(path, []).append(each)
    return found


def put_in_place(functions: Iterable[FunctionType], path: str, source: str) -> None:
    """Give a module's functions, which are imported already, the code of another source.

    Raises LookupError if it changes none.
    """
    codes: dict[tuple[str, int], CodeType] = {}
    left: list[CodeType] = [compile(source, str(ROOT / path), "exec", dont_inherit=True)]
    while left:
        for constant in left.pop().co_consts:
            if isinstance(constant, CodeType):
                codes[constant.co_name, constant.co_firstlineno] = constant
                left.append(constant)
    changed = 0
    for function in functions:
        code = codes.get((function.__code__.co_name, function.__code__.co_firstlineno))
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            changed += code != function.__code__
            function.__code__ = code
    if not changed:
        raise LookupError(f"no function of {path} has the code that is changed")
