"""Warnings of declarations that nothing uses: variables, parameters, actions, tables, instances."""

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import find, string_of
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.parse.preprocess import INCLUDE_FOLDERS
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.types import BlockTypeType

_OWN_INCLUDES = tuple(map(str, INCLUDE_FOLDERS))


def warn_of_unused(program: syntax.SourceProgram, reporter: Reporter) -> None:
    """Warn of what no expression, call, table or property names, unless it has
    ``@noWarn("unused")``."""
    declared: list[tuple[str, syntax.Declaration]] = []
    used: set[int] = set()
    for node in program.declarations:
        if node.span.file.startswith(_OWN_INCLUDES):
            continue
        match node:
            case syntax.ParserDeclaration() | syntax.ControlDeclaration():
                declared += [("", item) for item in node.locals if isinstance(item, _NAMED)]
            case syntax.ActionDeclaration() | syntax.Instantiation() | syntax.Function():
                declared.append(("", node))
        for item in syntax.walk(node):
            match item:
                case syntax.Name():
                    used.add(id(item.declaration))
                case syntax.CallExpression(target=Target()):
                    used.add(id(item.target.declaration))
                case syntax.ActionDeclaration():
                    declared += [("parameter", parameter) for parameter in item.parameters]
                case syntax.Block() | syntax.ParserState():
                    variables = (i for i in item.statements if isinstance(i, syntax.Variable))
                    declared += [("", variable) for variable in variables]
    for what, found in declared:
        if id(found) not in used and found.name != "main" and not _is_kept(found):
            kind = what or _KINDS[type(found)]
            if isinstance(found, syntax.Instantiation) and isinstance(found.type, BlockTypeType):
                kind = found.type.kind
            reporter.warning(found.name_span, f"{kind} '{found.name}' is not used", "unused")


_KINDS: dict[type, str] = {
    syntax.Variable: "variable",
    syntax.ActionDeclaration: "action",
    syntax.TableDeclaration: "table",
    syntax.Instantiation: "instance",
    syntax.Function: "function",
    syntax.ValueSetDeclaration: "value set",
}
_NAMED = tuple(_KINDS)


def _is_kept(item: syntax.Declaration) -> bool:
    annotation = find(item.annotations, "noWarn")
    return annotation is not None and string_of(annotation) == "unused"
