"""The P4_16 compiler for v1model: P4 source to BMv2 JSON and P4Info.

The steps are modules: preprocess, tokens, parser and builder (to the tree in syntax), checker and
the check_* modules (names and types), lower and the lower_* modules (to the program in ir),
emit_json and p4info. Errors are collected in diagnostics and raised together as one `CompileError`.
"""

from weft.switch.compiler.diagnostics import CompileError, Diagnostic
from weft.switch.compiler.driver import (
    CompiledProgram,
    ProgramFiles,
    compile_cached,
    compile_program,
    write_outputs,
)

__all__ = [
    "CompileError",
    "CompiledProgram",
    "Diagnostic",
    "ProgramFiles",
    "compile_cached",
    "compile_program",
    "write_outputs",
]
