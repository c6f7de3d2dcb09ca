"""Lexical analysis, and the sorting of identifiers into names of types and other names.

P4_16's grammar is LALR(1) only once the lexer tells type names from other names (specification,
section "Lexical constructs" and appendix "P4 grammar"). Types are declared before they are used, so
one pass over the tokens with a stack of scopes is enough. That pass also tells the angle brackets
of type arguments from comparisons, and folds each annotation into one token.
"""

import re
from itertools import accumulate

from weft.switch.compiler.diagnostics import Reporter, Span
from weft.switch.compiler.parse.preprocess import Preprocessed
from weft.switch.compiler.raw_token import RawToken

KEYWORDS = frozenset([
    "abstract", "action", "bit", "bool", "break", "const", "continue", "control", "default",
    "else", "enum", "error", "exit", "extern", "false", "for", "header", "header_union", "if",
    "in", "inout", "int", "match_kind", "out", "package", "parser", "return", "select", "string",
    "struct", "switch", "table", "this", "transition", "true", "tuple", "typedef", "value_set",
    "varbit", "void",
])  # fmt: skip

PUNCTUATION = {
    "&&&": "MASK", "...": "DOTS", "<<=": "SHIFT_LEFT_ASSIGN", ">>=": "SHIFT_RIGHT_ASSIGN",
    "|+|=": "SATURATING_PLUS_ASSIGN", "|-|=": "SATURATING_MINUS_ASSIGN",
    "|+|": "SATURATING_PLUS", "|-|": "SATURATING_MINUS", "{#}": "INVALID",
    "..": "RANGE", "<<": "SHIFT_LEFT", ">>": "SHIFT_RIGHT", "&&": "AND", "||": "OR",
    "==": "EQUAL", "!=": "NOT_EQUAL", "<=": "LESS_EQUAL", ">=": "GREATER_EQUAL",
    "++": "CONCATENATE", "+=": "PLUS_ASSIGN", "-=": "MINUS_ASSIGN", "*=": "TIMES_ASSIGN",
    "/=": "DIVIDE_ASSIGN", "%=": "MODULO_ASSIGN", "&=": "AND_ASSIGN", "|=": "OR_ASSIGN",
    "^=": "XOR_ASSIGN", "+:": "PLUS_COLON",
    ";": "SEMICOLON", ",": "COMMA", ":": "COLON", ".": "DOT", "(": "LEFT_PARENTHESIS",
    ")": "RIGHT_PARENTHESIS", "{": "LEFT_BRACE", "}": "RIGHT_BRACE", "[": "LEFT_BRACKET",
    "]": "RIGHT_BRACKET", "<": "LESS", ">": "GREATER", "=": "ASSIGN", "?": "QUESTION",
    "!": "NOT", "~": "TILDE", "+": "PLUS", "-": "MINUS", "*": "TIMES", "/": "DIVIDE",
    "%": "MODULO", "&": "BIT_AND", "|": "BIT_OR", "^": "BIT_XOR", "@": "AT",
}  # fmt: skip

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<integer>[0-9]+[ws]_[0-9_]*|(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|0[dD][0-9_]+|[0-9][0-9_]*))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<punctuation>"""
    + "|".join(re.escape(text) for text in sorted(PUNCTUATION, key=len, reverse=True))
    + ")",
    re.VERBOSE | re.DOTALL,
)

UNEXPECTED = "UNEXPECTED"
"""The kind of a token that may stand in the text of annotations alone (``UNEXPECTED_TOKEN`` in the
specification's grammar)."""
_NO_NAMES = KEYWORDS | {"_"}
_ANNOTATION_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")

_SIZED_TYPES = frozenset({"BIT", "INT", "VARBIT"})
_BEFORE_NAMES = frozenset({"DOT", "HEADER", "HEADER_UNION", "STRUCT", "ENUM", "EXTERN", "STATE"})
_BEFORE_STATEMENTS = frozenset({"LEFT_BRACE", "RIGHT_BRACE", "SEMICOLON"})
_BEFORE_ARGUMENTS = frozenset({"TYPE_NAME", "BIT", "INT", "VARBIT", "TUPLE", "LIST", "VALUE_SET"})
_AFTER_TYPES = frozenset({"TYPE_NAME", "TYPE_GREATER", "BOOL", "BIT", "INT", "ERROR", "STRING"})
_BEFORE_MEMBERS = frozenset(
    {
        "IDENTIFIER", "TYPE_NAME", "RIGHT_PARENTHESIS", "RIGHT_BRACKET", "ERROR", "TYPE_GREATER",
        "THIS",
    }
)  # fmt: skip
_TYPE_KEYWORDS = frozenset({"BOOL", "BIT", "INT", "VARBIT", "STRING", "ERROR", "TUPLE", "VOID"})

_IN_ARGUMENTS = _TYPE_KEYWORDS | {"COMMA", "INTEGER", "UNDERSCORE"}
_OF_TYPES = _TYPE_KEYWORDS | {"IDENTIFIER", "DOT", "HEADER", "HEADER_UNION", "STRUCT", "ENUM"}
_CLOSING = {"LEFT_PARENTHESIS": "RIGHT_PARENTHESIS", "LEFT_BRACKET": "RIGHT_BRACKET"}


def tokenize(program: Preprocessed, reporter: Reporter) -> list[RawToken]:
    """Return the program's tokens, before types are told from other names."""
    text = program.text
    tokens: list[RawToken] = []
    starts = [0, *accumulate(len(line.text) + 1 for line in program.lines)]
    position, row = 0, 0
    mapped_row, mapped_to = -1, 0
    while position < len(text):
        while position >= starts[row + 1]:
            row += 1
        line = program.lines[row]
        match = _TOKEN.match(text, position)
        column = position - starts[row]
        if match is None:
            span = Span(line.file, line.number, column + 1, line.number, column + 2)
            character = text[position]
            if character == '"':
                reporter.error(span, f"unterminated string {character!r}")
            else:  # which may stand in an annotation
                tokens.append(RawToken(UNEXPECTED, character, span))
            position += 1
            continue
        position = match.end()
        if match.lastgroup == "space":
            continue
        value = match.group()
        # A macro or a comment may have moved the token: find it in the line as it was written.
        original = program.sources.get(line.file, [])
        written = original[line.number - 1] if 0 < line.number <= len(original) else ""
        if written[column : column + len(value)] != value or mapped_row == row:
            begin = mapped_to if mapped_row == row else 0
            found = written.find(value, begin) if written[: len(line.text)] != line.text else column
            column = found if found >= 0 else min(begin, max(0, len(written) - 1))
            mapped_row, mapped_to = row, column
        newlines = value.count("\n")
        end_column = column + len(value) + 1 if not newlines else len(value) - value.rfind("\n")
        span = Span(line.file, line.number, column + 1, line.number + newlines, end_column)
        tokens.append(
            RawToken(_KINDS.get(value) or _OTHER_KINDS[match.lastgroup or ""], value, span)
        )
    return tokens


_KINDS = PUNCTUATION | {word: word.upper() for word in KEYWORDS} | {"_": "UNDERSCORE"}
_OTHER_KINDS = {"word": "IDENTIFIER", "string": "STRING_LITERAL", "integer": "INTEGER"}


class _Sorter:
    """A sorter goes over the tokens once, and decides what each identifier and angle bracket is."""

    def __init__(self, tokens: list[RawToken]) -> None:
        self.tokens = tokens
        self.scopes: list[dict[str, bool]] = [{}]
        self.pending: dict[str, bool] = {}  # for the scope of the next brace block
        self.angles: list[int] = []  # depth of parentheses at each open type-argument bracket
        self.parentheses = 0
        self.parameters: dict[str, bool] = {}  # for `pending`, once their parenthesis is closed
        self.in_loop = False  # in the parentheses of a ``for``, which uses what it declares
        self.typedef_depth = 0  # how many scopes there are where a typedef has begun
        self.declares_enum = False

    @property
    def declares_typedef(self) -> bool:
        """Return whether a name followed by a semicolon here is that of a typedef, not of a field
        of a struct in it."""
        return self.typedef_depth == len(self.scopes)

    def is_type(self, name: str) -> bool:
        scopes = (self.pending, *reversed(self.scopes))
        return next((scope[name] for scope in scopes if name in scope), False)

    def kind_at(self, index: int) -> str:
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def run(self) -> None:
        # The list grows while it is gone through: a ``>>`` may become two tokens.
        for index, token in enumerate(self.tokens):
            match token.kind:
                case "IDENTIFIER":
                    self.identifier(index, token)
                case "LEFT_BRACE":
                    self.scopes.append(self.pending)
                    self.pending = {}
                case "RIGHT_BRACE":
                    del self.scopes[max(1, len(self.scopes) - 1) :]
                    self.parentheses = 0
                    self.angles.clear()
                case "SEMICOLON" if not self.parentheses:
                    self.pending = {}
                    if self.declares_typedef:
                        self.typedef_depth = 0
                    self.declares_enum = False
                    self.angles.clear()
                case "LEFT_PARENTHESIS":
                    if not self.parentheses:
                        self.parameters = {}
                        self.in_loop = self.kind_at(index - 1) == "FOR"
                    self.parentheses += 1
                case "RIGHT_PARENTHESIS":
                    self.parentheses = max(0, self.parentheses - 1)
                    if not self.parentheses:
                        self.pending |= self.parameters
                case "LESS" if self.opens_arguments(index):
                    token.kind = "TYPE_LESS"
                    self.angles.append(self.parentheses)
                case "GREATER" | "SHIFT_RIGHT" if self.angles[-1:] == [self.parentheses]:
                    self.close_arguments(index, token)
                case "HEADER" | "HEADER_UNION" | "STRUCT" | "PARSER" | "CONTROL" | "PACKAGE":
                    self.declare_type(index + 1)
                    self.pending["struct"] = token.text in ("header", "header_union", "struct")
                case "EXTERN":
                    self.extern(index, token)
                case "ENUM":
                    self.declares_enum = True
                case "TYPEDEF":
                    self.typedef_depth = len(self.scopes)

    # Type arguments

    def opens_arguments(self, index: int) -> bool:
        """Return whether the ``<`` at `index` opens type arguments, a width or parameters."""
        before = self.kind_at(index - 1)
        return before in _BEFORE_ARGUMENTS or (
            before == "IDENTIFIER" and self.encloses_types(index)
        )

    def close_arguments(self, index: int, token: RawToken) -> None:
        """Let a ``>``, or the first half of a ``>>``, close type arguments."""
        if token.kind == "SHIFT_RIGHT":
            middle = token.span.column + 1
            self.tokens.insert(
                index + 1, RawToken("GREATER", ">", token.span._replace(column=middle))
            )
            token.text, token.span = ">", token.span._replace(end_column=middle)
        self.angles.pop()
        token.kind = "TYPE_GREATER"

    def encloses_types(self, index: int) -> bool:
        """Return whether the ``<`` at `index` opens type arguments (or parameters) of a call."""
        depth = 0
        width_depth = 0  # of the `<` that encloses a width, which may be any expression
        brackets = 0  # which enclose the size of an array
        for position in range(index, len(self.tokens)):
            kind, text = self.tokens[position].kind, self.tokens[position].text
            if kind == "LEFT_BRACKET":
                brackets += 1
            elif kind == "RIGHT_BRACKET" and brackets:
                brackets -= 1
            elif brackets:
                if kind in ("SEMICOLON", "LEFT_BRACE", "RIGHT_BRACE"):
                    return False
            elif kind == "LESS":
                depth += 1
                if not width_depth and self.kind_at(position - 1) in _SIZED_TYPES:
                    width_depth = depth
            elif kind in ("GREATER", "SHIFT_RIGHT"):
                depth -= 1 if kind == "GREATER" else 2
                if depth <= 0:
                    return depth == 0 and self.kind_at(position + 1) == "LEFT_PARENTHESIS"
                width_depth = width_depth if depth >= width_depth else 0
            elif width_depth:
                if kind in ("SEMICOLON", "LEFT_BRACE", "RIGHT_BRACE"):
                    return False
            elif kind not in _IN_ARGUMENTS and not (
                kind == "IDENTIFIER"
                and (
                    self.is_type(text)
                    or self.at_declarations
                    or (text == "list" and self.kind_at(position + 1) == "LESS")
                )
            ):
                return False
        return False

    @property
    def at_declarations(self) -> bool:
        """Return whether function prototypes may stand here."""
        in_extern = len(self.scopes) == 2 and self.scopes[-1].get("extern", False)
        return len(self.scopes) == 1 or in_extern

    # Declarations of types

    def declare_type(self, index: int) -> None:
        """Note that the name at `index` names a type; type parameters may follow it."""
        if self.kind_at(index) == "IDENTIFIER":
            self.scopes[-1][self.tokens[index].text] = True
            self.declare_parameters(index + 1)

    def declare_parameters(self, index: int) -> None:
        if self.kind_at(index) == "LESS":
            position = index + 1
            while self.kind_at(position) in ("IDENTIFIER", "COMMA"):
                if self.kind_at(position) == "IDENTIFIER":
                    self.pending[self.tokens[position].text] = True
                position += 1

    def extern(self, index: int, token: RawToken) -> None:
        position = index + 2
        if self.kind_at(position) == "LESS":
            while self.kind_at(position) not in ("GREATER", "SEMICOLON", "LEFT_BRACE", ""):
                position += 1
            position += 1
        if self.kind_at(index + 1) == "IDENTIFIER" and self.kind_at(position) == "LEFT_BRACE":
            token.kind = "EXTERN_OBJECT"
            self.declare_type(index + 1)
            self.pending["extern"] = True

    # Names

    def identifier(self, index: int, token: RawToken) -> None:
        before, after = self.kind_at(index - 1), self.kind_at(index + 1)
        if self.keyword_in_context(index, token, before, after):
            return
        if before == "AT" or (before == "DOT" and self.kind_at(index - 2) in _BEFORE_MEMBERS):
            return
        if self.declares_typedef and after == "SEMICOLON" and before not in ("TYPEDEF", "TYPE"):
            self.scopes[-1][token.text] = True
        elif self.declares_enum and after == "LEFT_BRACE":
            self.scopes[-1][token.text] = True
            self.declares_enum = False
        elif (
            after == "LESS" and self.at_declarations and not self.parentheses
            and not self.is_type(token.text) and self.encloses_types(index + 1)
        ):  # fmt: skip
            # A function prototype's type parameters, which its return type may name.
            self.declare_parameters(index + 1)
        begins_prototype = after == "IDENTIFIER" and self.kind_at(index + 2) == "LESS"
        if begins_prototype and self.at_declarations and self.encloses_types(index + 2):
            # In ``T name<T>(...)`` the return type stands before the parameter that declares it.
            self.declare_parameters(index + 2)
        if not self.is_type(token.text):
            return
        if before in ("ACTION", "TABLE"):
            self.scopes[-1][token.text] = False
            return
        # An instance or a stack may follow a bracket; a cast has nothing but a value behind it.
        follows_type = before in _AFTER_TYPES or (
            before in ("RIGHT_PARENTHESIS", "RIGHT_BRACKET") and after == "SEMICOLON"
        )
        ends = after in ("COMMA", "RIGHT_PARENTHESIS", "SEMICOLON", "ASSIGN", "IN")
        if follows_type and self.scopes[-1].get("struct", False):
            token.kind = "TYPE_NAME"  # a field hides nothing: the next may be of the type
        elif follows_type and ends and not self.declares_typedef:
            # A variable, field or parameter that has the name of a type hides the type, as actions
            # and tables do; other parameters may still be of the type.
            inside = self.pending if self.in_loop else self.parameters
            (inside if self.parentheses else self.scopes[-1])[token.text] = False
        else:
            token.kind = "TYPE_NAME"

    def keyword_in_context(self, index: int, token: RawToken, before: str, after: str) -> bool:
        """Turn a word into a keyword where it is one only in some places (specification,
        ``nonTypeName``). Return whether it became one."""
        match token.text:
            case "apply" if before not in _BEFORE_NAMES and (
                after == "LEFT_BRACE" or (after == "AT" and before in _BEFORE_STATEMENTS)
            ):
                token.kind = "APPLY"
            case "key" | "actions" | "entries" if (
                after == "ASSIGN" and self.kind_at(index + 2) == "LEFT_BRACE"
            ):
                token.kind = token.text.upper()
            case "state" if after == "IDENTIFIER" and self.kind_at(index + 2) == "LEFT_BRACE":
                token.kind = "STATE"
            case "priority" if after == "ASSIGN" and self.begins_entry(index + 2):
                token.kind = "PRIORITY"
            case "list" if after == "LESS":
                token.kind = "LIST"
            case "type" if self.begins_type(index, before):
                token.kind = "TYPE"
                self.typedef_depth = len(self.scopes)
            case _:
                return False
        return True

    def begins_type(self, index: int, before: str) -> bool:
        """Return whether the word at `index` begins the declaration of a type rather than be a
        name."""
        return (
            len(self.scopes) == 1
            and not self.parentheses
            and before != "DOT"
            and self.kind_at(index + 1) in _OF_TYPES
        )

    def begins_entry(self, index: int) -> bool:
        """Return whether an entry's priority is at `index`: a number or (expression), then a
        colon."""
        depth = 0
        if self.kind_at(index) == "INTEGER":
            return self.kind_at(index + 1) == "COLON"
        while self.kind_at(index) not in ("SEMICOLON", ""):
            kind = self.kind_at(index)
            depth += (kind == "LEFT_PARENTHESIS") - (kind == "RIGHT_PARENTHESIS")
            index += 1
            if depth <= 0:
                return kind == "RIGHT_PARENTHESIS" and self.kind_at(index) == "COLON"
        return False


def sort_tokens(tokens: list[RawToken]) -> list[RawToken]:
    """Tell types from other names (in place) and fold annotations; return the folded list."""
    _Sorter(tokens).run()
    return _fold_annotations(tokens)


def _pragma(tokens: list[RawToken], index: int) -> tuple[RawToken, int]:
    """Return the annotation that ``@pragma name ...`` is, up to its line's end, and what index
    follows it."""
    at = tokens[index]
    end = index + 2
    while end < len(tokens) and tokens[end].span[:2] == at.span[:2]:
        end += 1
    words = tokens[index + 2 : end]
    annotation = RawToken("ANNOTATION", words[0].text, at.span.to(words[-1].span))
    annotation.body = words[1:]
    annotation.bracket = "(" if annotation.body else ""
    return annotation, end


def _fold_annotations(tokens: list[RawToken]) -> list[RawToken]:
    folded: list[RawToken] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if (
            token.kind != "AT"
            or index + 1 >= len(tokens)
            or not _ANNOTATION_NAME.fullmatch(tokens[index + 1].text)
            or tokens[index + 1].text in _NO_NAMES
        ):
            folded.append(token)
            index += 1
            continue
        name = tokens[index + 1]
        on_line = [item for item in tokens[index + 2 : index + 3] if item.span[:2] == name.span[:2]]
        if name.text == "pragma" and on_line:
            pragma, index = _pragma(tokens, index)
            folded.append(pragma)
            continue
        annotation = RawToken("ANNOTATION", name.text, token.span.to(name.span))
        index += 2
        opening = tokens[index].kind if index < len(tokens) else ""
        if opening in _CLOSING:
            closing, depth, begin = _CLOSING[opening], 0, index
            while index < len(tokens):
                depth += (tokens[index].kind == opening) - (tokens[index].kind == closing)
                index += 1
                if depth == 0:
                    break
            if depth:  # never closed: the parser finds the '@' where it stands
                folded.append(token)
                index = begin - 1
                continue
            annotation.bracket = tokens[begin].text
            annotation.body = tokens[begin + 1 : index - 1]
            annotation.span = annotation.span.to(tokens[index - 1].span)
        folded.append(annotation)
    return folded


def split_declarations(tokens: list[RawToken]) -> list[list[RawToken]]:
    """Return the tokens of each top-level declaration, so that an error in one leaves the others
    alone."""
    chunks: list[list[RawToken]] = []
    current: list[RawToken] = []
    depth = 0
    initializer = False  # inside the braces of "= { ... }"
    for index, token in enumerate(tokens):
        if not current and token.kind == "SEMICOLON":
            continue
        current.append(token)
        match token.kind:
            case "LEFT_BRACE" | "LEFT_PARENTHESIS":
                if not depth and token.kind == "LEFT_BRACE":
                    initializer = index > 0 and tokens[index - 1].kind == "ASSIGN"
                depth += 1
            case "RIGHT_BRACE" | "RIGHT_PARENTHESIS":
                depth = max(0, depth - 1)
        if depth:
            continue
        keyword = next((item.kind for item in current if item.kind != "ANNOTATION"), "")
        closes = (
            token.kind == "RIGHT_BRACE" and not initializer and keyword not in ("TYPEDEF", "CONST")
        )
        if closes or token.kind == "SEMICOLON":
            chunks.append(current)
            current, initializer = [], False
    if current:
        chunks.append(current)
    return chunks
