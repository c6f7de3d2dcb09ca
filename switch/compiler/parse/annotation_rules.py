"""What annotations may have in their brackets (specification, section "Annotations")."""

from weft.switch.compiler.annotations import split
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.parse.builder import parse_integer
from weft.switch.compiler.raw_token import RawToken

OF_ONE_STRING = ("name", "deprecated", "noWarn")
"""Annotations that take one string, in round brackets."""
_ONCE = ("name", "hidden")
"""Annotations of which an element has one at most."""
_OF_PAIRS = ("pkginfo", "platform_property")
_OF_NOTHING = (
    "atomic", "defaultonly", "hidden", "noSideEffects", "optional", "pure", "tableonly",
)  # fmt: skip


def check_annotations(tokens: list[RawToken], reporter: Reporter) -> None:
    """Report errors in the annotations among the tokens of a declaration."""
    element: list[RawToken] = []  # the annotations of one element stand one behind the other
    for token in tokens:
        if token.kind != "ANNOTATION":
            element = []
            continue
        _check_brackets(token, reporter)
        if token.bracket == "[":
            _check_structured(token, reporter)
        _check_shared_keys(token, element, reporter)
        reporter.error_if(
            token.text in _ONCE and any(other.text == token.text for other in element),
            token.span,
            f"@{token.text} stands twice on one element",
        )
        for other in element:
            if other.text == token.text and "[" in (other.bracket, token.bracket):
                twice = other.bracket == token.bracket
                reporter.error(
                    token.span,
                    f"@{token.text}[] stands twice on one element"
                    if twice
                    else f"@{token.text} stands here with square brackets and without them",
                )
        element.append(token)


def _check_brackets(token: RawToken, reporter: Reporter) -> None:
    kinds = [item.kind for item in token.body]
    reporter.error_if(
        token.text == "id"
        and not (token.bracket == "(" and kinds == ["INTEGER"] and _is_id(token)),
        token.span,
        "@id takes one number in round brackets, from 1 to 4294967295, like @id(1)",
    )
    reporter.error_if(
        token.text == "name" and [item.text for item in token.body] == ['""'],
        token.span,
        "@name takes a name, not an empty string",
    )
    reporter.error_if(
        token.text in OF_ONE_STRING and (token.bracket != "(" or kinds != ["STRING_LITERAL"]),
        token.span,
        f'@{token.text} takes one string in round brackets, like @{token.text}("text")',
    )
    reporter.error_if(
        token.text in _OF_NOTHING and token.body, token.span, f"@{token.text} takes no arguments"
    )


def _is_id(token: RawToken) -> bool:
    number, _, _ = parse_integer(token.body[0].text)
    return 0 < number < 1 << 32


def _check_shared_keys(token: RawToken, before: list[RawToken], reporter: Reporter) -> None:
    """Report an error for a key of ``@pkginfo`` or the like that stands twice on an element."""
    if token.text not in _OF_PAIRS or token.bracket != "(":
        return
    others = [part for other in before if other.text == token.text for part in split(other.body)]
    keys = {part[0].text for part in others if _is_pair(part)}
    for part in filter(_is_pair, split(token.body)):
        key = part[0]
        reporter.error_if(key.text in keys, key.span, f"@{token.text} has '{key.text}' already")
        keys.add(key.text)


def _check_structured(token: RawToken, reporter: Reporter) -> None:
    """Report an error unless there are expressions or pairs of a key and an expression, with commas
    between them."""
    parts = list(split(token.body))
    name = token.text
    reporter.error_if(
        not all(parts), token.span, f"@{name}[] has nothing between two of its commas"
    )
    pairs = [part for part in parts if _is_pair(part)]
    reporter.error_if(
        pairs and len(pairs) < len(parts),
        token.span,
        f"@{name}[] has expressions or pairs of a key and a value, but not both",
    )
    keys: set[str] = set()
    for part in pairs:
        key = part[0]
        reporter.error_if(key.text in keys, key.span, f"@{name}[] has the key '{key.text}' twice")
        keys.add(key.text)
    for part in parts:
        values = part[2:] if _is_pair(part) else part
        reporter.error_if(not values and part, token.span, f"@{name}[] has a key without a value")
        listed = [item for item in values if item.kind in ("LEFT_BRACE", "ASSIGN")]
        for item in listed[:1]:
            reporter.error(
                item.span, f"@{name}[] takes strings, numbers and truth values, but no lists"
            )


def _is_pair(part: list[RawToken]) -> bool:
    return len(part) > 1 and part[1].kind == "ASSIGN"
