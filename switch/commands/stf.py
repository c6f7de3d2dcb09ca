"""``weft stf``: packet tests of a P4 program on the built-in switch, in this process."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from weft.base import files
from weft.base.errors import InputError
from weft.switch.engine.program.errors import ProgramError
from weft.switch.priority_queues import check_priority_queues
from weft.switch.stf import Report, read_test, run_test

MOST_JSON_BYTES = 256 << 20
"""The most bytes of a program in BMv2 JSON."""


@dataclass(frozen=True)
class StfOutcome:
    """An outcome is a test's report, or what is wrong with its file."""

    file: str
    report: Report | None
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome in the form that JSON has."""
        if self.report is None:
            return {"test": self.file, "passed": False, "error": self.error}
        return self.report.to_dict()


def load_program(program: Path, include: Sequence[Path], defines: Mapping[str, str | None]) -> str:
    """Return the BMv2 JSON of a program, which is read, or compiled from a .p4. Raises
    `InputError`."""
    from weft.switch.compiler import compile_cached

    if program.suffix == ".p4":
        program = compile_cached(program, include_dirs=include, defines=defines).json
    with files.told_as_input(f"cannot read the program {str(program)!r}"):
        return files.read_text(program, MOST_JSON_BYTES, endings=(".json",))


def run_tests(
    program: Path,
    bmv2_json: str,
    tests: Sequence[Path],
    *,
    compiled: bool,
    strict: bool,
    trace: bool = False,
    priority_queues: int = 1,
) -> list[StfOutcome]:
    """Run tests one after the other, each on a switch of its own.

    Raises:
        InputError: the program, whose BMv2 JSON is given, cannot be loaded, or there can be no such
            number of priority queues.
    """
    check_priority_queues(priority_queues)
    outcomes = []
    for test in tests:
        try:
            report = run_test(
                read_test(test), bmv2_json, compiled=compiled, strict=strict, trace=trace,
                priority_queues=priority_queues,
            )  # fmt: skip
        except ProgramError as error:
            raise InputError(f"{program}: {error}") from None
        except InputError as error:
            outcomes.append(StfOutcome(str(test), None, str(error)))
        else:
            outcomes.append(StfOutcome(str(test), report))
    return outcomes


def exit_status(outcomes: Sequence[StfOutcome]) -> int:
    """Return 0 if all expectations hold, 1 if some do not, 2 if a file is wrong."""
    if any(outcome.report is None for outcome in outcomes):
        return 2
    return 0 if all(outcome.report and outcome.report.passed for outcome in outcomes) else 1


def print_json(program: Path, outcomes: Sequence[StfOutcome]) -> None:
    """Print everything as one JSON document."""
    document = {
        "program": str(program),
        "passed": exit_status(outcomes) == 0,
        "tests": [outcome.to_dict() for outcome in outcomes],
    }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


def print_text(outcomes: Sequence[StfOutcome], console: Console, errors: Console) -> None:
    """Print a line for each test, and what is wrong with it."""

    def say(text: str, style: str = "", to: Console = console) -> None:
        to.print(
            text, style=style or None, markup=False, highlight=False, emoji=False, soft_wrap=True
        )

    for outcome in outcomes:
        report = outcome.report
        if report is None:
            say(f"weft: {outcome.error}", to=errors)
            say(f"wrong   {outcome.file}", "red")
            continue
        for warning in report.warnings:
            say(warning, to=errors)
        for note in report.notes:
            say(note)
        for path in report.paths:
            say(f"{path.place.file}:{path.place.line}: {path.place.source_line.strip()[:120]}")
            say(path.text)
        counts = f"{report.packets} packets sent, {report.expectations} expectations"
        if report.passed:
            say(f"passed  {outcome.file}: {counts}", "green")
        else:
            for failure in report.failures:
                say("\n".join(failure.lines()) + "\n")
            count = len(report.failures)
            what = f"{count} failure{'s' if count > 1 else ''}"
            say(f"FAILED  {outcome.file}: {what}; {counts}", "red")
    if len(outcomes) > 1:
        passed = sum(1 for outcome in outcomes if outcome.report and outcome.report.passed)
        say(f"{passed} of {len(outcomes)} tests passed")
