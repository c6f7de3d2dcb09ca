"""Names and numbers of what the control plane sees: they differ within each kind (specification,
section "Control plane names"; P4Runtime specification, section "ID allocation")."""

from collections.abc import Iterator, Sequence

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import find, local_name
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.parse.builder import parse_integer
from weft.switch.compiler.types import ExternType

_Numbers = dict[tuple[str, int], syntax.Declaration | syntax.KeyElement]
_KINDS: dict[type[syntax.SyntaxNode], str] = {
    syntax.TableDeclaration: "table",
    syntax.ActionDeclaration: "action",
    syntax.ValueSetDeclaration: "value set",
}


def check_control_names(program: syntax.SourceProgram, reporter: Reporter) -> None:
    """Report an error where ``@name`` or ``@id`` gives two things of a kind the same one."""
    names: dict[tuple[str, str], syntax.Declaration] = {}
    numbers: _Numbers = {}
    for block, node, kind in _controlled(program):
        local = local_name(node)
        is_hidden = find(node.annotations, "hidden") is not None
        if not is_hidden and not (kind == "action" and local.startswith(".")):
            full = local[1:] if local.startswith(".") else f"{block}{local}"
            other = names.setdefault((kind, full), node)
            reporter.error_if(
                other is not node and (local, local_name(other)) != (node.name, other.name),
                node.name_span,
                f"two {kind}s have the name '{full}' (the first at line {other.name_span.line}); "
                "@name must give each its own",
            )
        _check_number(reporter, numbers, kind, node, f" of '{block}{local}'")
    for declaration in program.declarations:
        for item in syntax.walk(declaration):
            match item:
                case syntax.ActionDeclaration():
                    _check_numbers(reporter, item.parameters)
                case syntax.TableDeclaration():
                    _check_numbers(reporter, item.keys)


def _controlled(
    program: syntax.SourceProgram,
) -> Iterator[tuple[str, syntax.Declaration, str]]:
    """Yield what the control plane sees: what its name begins with, its declaration and kind."""
    for node in program.declarations:
        if isinstance(node, (syntax.ControlDeclaration, syntax.ParserDeclaration)):
            for item in node.locals:
                if kind := _kind_of(item):
                    yield f"{node.name}.", item, kind
        elif isinstance(node, syntax.Declaration) and (kind := _kind_of(node)):
            yield "", node, kind


def _kind_of(node: syntax.Declaration) -> str:
    if isinstance(node, syntax.Instantiation):
        return node.type.name if isinstance(node.type, ExternType) else ""
    return _KINDS.get(type(node), "")


def _check_numbers(
    reporter: Reporter, nodes: Sequence[syntax.Declaration | syntax.KeyElement]
) -> None:
    numbers: _Numbers = {}
    for node in nodes:
        _check_number(reporter, numbers, "", node, "")


def _check_number(
    reporter: Reporter, numbers: _Numbers, kind: str,
    node: syntax.Declaration | syntax.KeyElement, of: str,
) -> None:  # fmt: skip
    annotation = find(node.annotations, "id")
    if annotation is None or len(annotation.body) != 1 or annotation.body[0].kind != "INTEGER":
        return
    number, _, _ = parse_integer(annotation.body[0].text)
    shown = f"{number:#x}" if of else f"{number}"
    other = numbers.setdefault((kind, number), node)
    reporter.error_if(other is not node, annotation.span, f"@id({shown}){of} is given twice")
