"""The specification's rules, each with programs that keep it and programs that break it, and the
page that lists them: ``.venv/bin/python -m tests.support.compiler_rules`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from weft.switch.compiler.diagnostics import CompileError, Reporter
from weft.switch.compiler.driver import run_deep
from weft.switch.compiler.parse.preprocess import preprocess
from weft.switch.compiler.steps import check_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "switch" / "compiler" / "rules"
PAGE = ROOT / "docs" / "p4-rules.md"
CHAPTERS = (
    "declarations", "types", "expressions", "statements", "parsers", "controls", "programs",
)  # fmt: skip
"""The files in the folder, in the order of the specification."""

_BEFORE = """#include <core.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; }
header v_t { bit<8> n; varbit<64> v; }
header_union u_t { h_t h; v_t v; }
struct s_t { bit<8> x; bit<16> y; }
enum suit_t { Clubs, Hearts }
enum bit<8> code_t { one = 1, two = 2 }
struct headers_t { h_t h; h_t[4] stack; v_t v; }
extern counter_t { counter_t(bit<32> size); void count(in bit<32> index); }
"""
_CONTROL = "control C(inout headers_t hdr, inout s_t meta) {", "}"
_PARSER = "parser P(packet_in packet, inout headers_t hdr, inout s_t meta) {", "}"
_TABLE = "action a() { } action b(bit<8> v) { } table t {", "} apply { t.apply(); }"
_FRAMES = {
    "top": ("", ""),
    "control": _CONTROL,
    "apply": (f"{_CONTROL[0]} apply {{", "} }"),
    "table": (f"{_CONTROL[0]} {_TABLE[0]}", f"{_TABLE[1]} }}"),
    "parser": _PARSER,
    "state": (f"{_PARSER[0]} state start {{", "transition accept; } }"),
    "deparser": (
        "control D(packet_out packet, in headers_t hdr, in s_t meta) { apply {", "} }",
    ),
}  # fmt: skip
"""What a text stands in; nothing of it is reached from a ``main``."""
_OTHER_PLACES = {
    "function": ("void f(inout headers_t hdr, inout s_t meta) {", "}"),
    "generic function": ("void f<T>(inout headers_t hdr, inout s_t meta, in T t) {", "}"),
    "action": (f"{_CONTROL[0]} action unused() {{", "} apply { } }"),
    "state": (f"{_PARSER[0]} state start {{ transition accept; }} state unreached {{",
              "transition accept; } }"),
    "code behind a return": (f"{_CONTROL[0]} apply {{ return; {{", "} } }"),
    "case": (f"{_CONTROL[0]} apply {{ switch (meta.x) {{ 1: {{", "} } } }"),
}  # fmt: skip
"""Where else the statements of an apply block may stand."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a program that stands in a frame of its own."""

    frame: str
    text: str


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule has the title of its section in the specification, and is checked `by` a module."""

    section: str
    text: str
    by: str
    frame: str
    accept: str
    reject: list[str | Part]

    def refused(self) -> Iterator[Part]:
        """Yield what breaks the rule."""
        for item in self.reject:
            yield item if isinstance(item, Part) else Part(self.frame, item)


class _Chapter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: list[Rule]


@lru_cache(maxsize=1)
def rules() -> dict[str, list[Rule]]:
    """The rules of each chapter."""
    return {
        name: msgspec.toml.decode((FOLDER / f"{name}.toml").read_bytes(), type=_Chapter).rule
        for name in CHAPTERS
    }


def elsewhere(rule: Rule, number: int) -> Iterator[Part]:
    """Yield what keeps a rule on statements, and then what breaks it, in another place than the
    apply block that the rule names: one for each number, if the rule holds there."""
    if rule.frame == "apply":
        place = [*_OTHER_PLACES][number % len(_OTHER_PLACES)]
        yield Part(place, rule.accept)
        yield from (Part(place, item) for item in rule.reject if isinstance(item, str))


def program(part: Part) -> str:
    """A whole program."""
    before, behind = (_FRAMES | _OTHER_PLACES)[part.frame]
    return f"{_BEFORE}{before} {part.text} {behind}\n"


def check(source: Path, text: str) -> list[str]:
    """What the compiler says about a program before it lowers it."""
    source.write_text(text)

    try:
        preprocessed = preprocess(source, (), {})
    except CompileError as problem:
        return [item.message for item in problem.diagnostics]
    reporter = Reporter(preprocessed.sources)
    run_deep(lambda: check_text(preprocessed, reporter))
    return [item.message for item in reporter.errors]


def page() -> str:
    """The page of all rules."""
    count = sum(map(len, rules().values()))
    refused = sum(len(rule.reject) for items in rules().values() for rule in items)
    lines = [
        "# What the compiler refuses",
        "",
        "The rules of the P4_16 specification that `weft p4c` checks, whether the code is reached "
        "from `main` or not. Each row has a program that is taken and the first of those that are "
        f"refused; there are {count} rules and {refused} refused programs. Sections are named by "
        "their titles, modules are those of `switch/compiler`.",
        "",
        "This page is made from `tests/switch/compiler/rules` by `.venv/bin/python -m "
        "tests.support.compiler_rules`; every row is a test.",
    ]
    for name, items in rules().items():
        lines += ["", f"## {name.capitalize()}", ""]
        lines += ["| section | rule | checked by | taken | refused |", "|---|---|---|---|---|"]
        for rule in items:
            shown = (_code(rule.accept), _code(next(rule.refused()).text))
            cells = (rule.section, rule.text, f"`{rule.by}`", *shown)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else "(nothing)"


if __name__ == "__main__":
    PAGE.write_text(page())
