"""The P4_16 compiler: P4 source to BMv2 JSON and P4Info.

The steps are folders: parse (from source text to the tree in syntax), check (names, types, and what
flow of control may do), lower (to the program in ir), emit (to the two outputs). The module steps
puts them together; driver calls them, unless the cache has the result. Errors are collected in
diagnostics and raised together as one `CompileError`.
"""

from weft.switch.compiler.diagnostics import CompileError, Diagnostic
from weft.switch.compiler.driver import compile_cached, compile_program
from weft.switch.compiler.outputs import CompiledProgram, ProgramFiles, write_outputs

__all__ = [
    "CompileError",
    "CompiledProgram",
    "Diagnostic",
    "ProgramFiles",
    "compile_cached",
    "compile_program",
    "write_outputs",
]
