"""The language server protocol for P4, by pygls, which need not be there: ``weft lsp``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.base import VERSION
from weft.switch.compiler import Diagnostic
from weft.switch.language_server.analysis import Analysis, analyse
from weft.switch.language_server.questions import Suggestion, completions, definition, hover

_KINDS = {
    "action": "Function",
    "table": "Class",
    "control": "Module",
    "parser": "Module",
    "state": "EnumMember",
    "constant": "Constant",
    "parameter": "Variable",
    "variable": "Variable",
    "instance": "Variable",
    "field": "Field",
    "method": "Method",
    "function": "Function",
    "keyword": "Keyword",
    "type": "Struct",
}
"""What the protocol calls the kinds of what can be written."""


class Documents:
    """The open documents of an editor, each with what is known of its text."""

    def __init__(self, include_dirs: Sequence[Path]) -> None:
        self.include_dirs = include_dirs
        self.analyses: dict[str, Analysis] = {}
        self.parsed: dict[str, Analysis] = {}
        """The last text of each document that had a tree, which may be older."""

    def update(self, uri: str, path: Path, text: str) -> Analysis:
        """Analyse a document's text."""
        analysis = self.analyses[uri] = analyse(path, text, self.include_dirs)
        if analysis.checker is not None:
            self.parsed[uri] = analysis
        return analysis

    def known(self, uri: str) -> Analysis | None:
        """Return what questions about a document are answered from."""
        current = self.analyses.get(uri)
        if current is None or current.checker is not None:
            return current
        return self.parsed.get(uri)

    def close(self, uri: str) -> None:
        """Forget a document."""
        self.analyses.pop(uri, None)
        self.parsed.pop(uri, None)


class _Messages:
    """What the protocol's messages are made of: places, diagnostics and suggestions."""

    def __init__(self, types: Any) -> None:
        self.types = types

    def range(self, line: int, column: int, end_line: int, end_column: int) -> Any:
        """Return a range of the protocol, whose lines and columns count from 0."""
        position = self.types.Position
        return self.types.Range(
            position(max(0, line - 1), max(0, column - 1)),
            position(max(0, end_line - 1), max(0, end_column - 1)),
        )

    def diagnostic(self, analysis: Analysis, item: Diagnostic) -> Any:
        """Return a diagnostic; one of an included file stands in the first line."""
        message, line, column, length = item.message, item.line, item.column, item.length
        if not analysis.is_of(item.file):
            message, line, column, length = f"{item.file}:{line}: {message}", 1, 1, 1
        levels = self.types.DiagnosticSeverity
        return self.types.Diagnostic(
            self.range(line, column, line, column + length),
            message,
            severity=levels.Warning if item.severity == "warning" else levels.Error,
            code=item.kind or None,
            source="weft",
        )

    def suggestion(self, item: Suggestion) -> Any:
        """Return what can be written."""
        kind = self.types.CompletionItemKind[_KINDS[item.kind]]
        return self.types.CompletionItem(item.word, kind=kind, detail=item.detail or None)


def make_server(include_dirs: Sequence[Path] = ()) -> Any:
    """Return a server for one editor, pygls's ``LanguageServer``; its ``start_io`` starts it."""
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer
    from pygls.uris import from_fs_path, to_fs_path

    messages = _Messages(types)
    server = LanguageServer("weft-p4", VERSION)
    documents = Documents(include_dirs)

    def path_of(uri: str) -> Path:
        return Path(to_fs_path(uri) or uri)

    def publish(uri: str) -> None:
        text = server.workspace.get_text_document(uri).source
        analysis = documents.update(uri, path_of(uri), text)
        found = [messages.diagnostic(analysis, item) for item in analysis.diagnostics]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    def opened(given: Any) -> None:
        publish(given.text_document.uri)

    def changed(given: Any) -> None:
        publish(given.text_document.uri)

    def saved(given: Any) -> None:
        for uri in list(documents.analyses):  # which may include what was saved
            publish(uri)

    def closed(given: Any) -> None:
        uri = given.text_document.uri
        documents.close(uri)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def asked(given: Any) -> tuple[Analysis, int, int] | None:
        analysis = documents.known(given.text_document.uri)
        if analysis is None or given.position.line >= len(analysis.lines):
            return None
        return analysis, given.position.line + 1, given.position.character + 1

    def find_definition(given: Any) -> Any:
        place = asked(given)
        span = None if place is None else definition(*place)
        if span is None:
            return None
        uri = from_fs_path(str(Path(span.file).resolve()))
        where = messages.range(span.line, span.column, span.end_line, span.end_column)
        return types.Location(uri or given.text_document.uri, where)

    def show(given: Any) -> Any:
        place = asked(given)
        text = None if place is None else hover(*place)
        if text is None:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    def complete(given: Any) -> Any:
        uri = given.text_document.uri
        text = server.workspace.get_text_document(uri).source
        line, column = given.position.line + 1, given.position.character + 1
        found = completions(path_of(uri), text, line, column, documents.include_dirs)
        items = [messages.suggestion(item) for item in found]
        return types.CompletionList(is_incomplete=False, items=items)

    handlers: dict[str, Callable[[Any], Any]] = {
        types.TEXT_DOCUMENT_DID_OPEN: opened,
        types.TEXT_DOCUMENT_DID_CHANGE: changed,
        types.TEXT_DOCUMENT_DID_SAVE: saved,
        types.TEXT_DOCUMENT_DID_CLOSE: closed,
        types.TEXT_DOCUMENT_DEFINITION: find_definition,
        types.TEXT_DOCUMENT_HOVER: show,
    }
    for name, handler in handlers.items():
        server.feature(name)(handler)
    dots = types.CompletionOptions(trigger_characters=["."])
    server.feature(types.TEXT_DOCUMENT_COMPLETION, dots)(complete)
    return server
