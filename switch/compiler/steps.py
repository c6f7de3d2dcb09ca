"""The compiler's steps in their order, and what they make of a program."""

from pathlib import Path

from weft.switch.compiler import syntax
from weft.switch.compiler.architectures.registry import known
from weft.switch.compiler.check.checker import Checker
from weft.switch.compiler.check.flow import FlowChecker
from weft.switch.compiler.check.names import check_control_names
from weft.switch.compiler.check.unused import warn_of_unused
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.emit.bmv2_json import Emitter
from weft.switch.compiler.emit.entries import entries_request
from weft.switch.compiler.emit.p4info import InfoEmitter, info_text
from weft.switch.compiler.emit.primitives import SourceNotes
from weft.switch.compiler.lower.lower import lower
from weft.switch.compiler.outputs import CompiledProgram
from weft.switch.compiler.parse.parser import parse_annotation_expressions, parse_program
from weft.switch.compiler.parse.preprocess import Preprocessed


def check_text(text: Preprocessed, reporter: Reporter) -> tuple[syntax.SourceProgram, Checker]:
    """Parse and check a preprocessed program, whose errors go to the reporter; return the tree, and
    the checker with all that it knows. Where there are none, warnings are looked for."""
    program = parse_program(text, reporter)
    checker = Checker(
        reporter, lambda annotation: parse_annotation_expressions(annotation, reporter)
    )
    checker.check(program)
    if not reporter.errors:
        check_control_names(program, reporter)
        warn_of_unused(program, reporter)
        FlowChecker(reporter).check(program)
    return program, checker


def compile_text(source: Path, text: Preprocessed, reporter: Reporter) -> CompiledProgram:
    """Compile a preprocessed program. Raises `CompileError` with everything that is wrong."""
    program, checker = check_text(text, reporter)
    return compile_tree(source, program, checker)


def compile_tree(source: Path, program: syntax.SourceProgram, checker: Checker) -> CompiledProgram:
    """Compile a program that is parsed and checked. Raises `CompileError` with what is wrong."""
    reporter = checker.reporter
    reporter.finish()

    def parse_annotation(annotation: syntax.Annotation) -> list[syntax.Expression]:
        return [
            checker.expressions.check(item, checker.context.globals)
            for item in parse_annotation_expressions(annotation, reporter)
        ]

    lowered = lower(program, checker.context, parse_annotation, known())
    reporter.finish()
    json_text = Emitter(lowered, reporter, SourceNotes(reporter, source.parent)).text(source.name)
    info = InfoEmitter(lowered, reporter, parse_annotation).message()
    reporter.finish()
    return CompiledProgram(
        json_text,
        info,
        info_text(info),
        tuple(reporter.sorted_warnings()),
        entries_request(lowered, info),
        program,
    )
