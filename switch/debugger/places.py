"""Where a debugger can stop: the lines of a program's sources, and its states, tables, actions and
blocks by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.base.errors import InputError

Json = Any

DEPARSER = "deparser"


@dataclass(frozen=True)
class Line:
    """A line of a source file, which is called as the program's JSON calls it."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Named:
    """A state, table, action or block."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def line_of(source: Json) -> Line | None:
    """Return the line of a place in a source, if it is known."""
    if not source or not source.get("filename") or not isinstance(source.get("line"), int):
        return None
    return Line(str(source["filename"]), source["line"])


class Places:
    """All places of a program. ``folder`` is where its sources are."""

    def __init__(self, document: Json, folder: Path) -> None:
        self.folder = folder
        self.actions = {item["name"]: item for item in document["actions"]}
        pipelines = document["pipelines"]
        self.pipeline_of = {
            node["name"]: pipeline["name"]
            for pipeline in pipelines
            for kind in ("tables", "conditionals", "action_calls")
            for node in pipeline.get(kind) or ()
        }
        self.statements = self._statements(document)
        """Tables that the compiler made of statements, and their actions."""
        self.named = self._named(document)
        self.lines = sorted(set(self._lines(document)), key=lambda line: (line.file, line.number))

    def _statements(self, document: Json) -> set[str]:
        found = set()
        for pipeline in document["pipelines"]:
            for table in pipeline["tables"]:
                names = table["actions"]
                first = self.actions[names[0]]["primitives"][:1] if len(names) == 1 else []
                source = table.get("source_info")
                if not table["key"] and first and source == first[0].get("source_info"):
                    found |= {table["name"], names[0]}
            for call in pipeline.get("action_calls") or ():
                action = next(
                    item for item in document["actions"] if item["id"] == call["action_id"]
                )
                found |= {call["name"], action["name"]}
        return found

    def _named(self, document: Json) -> list[Named]:
        parsers = document["parsers"]
        states = [Named("state", each["name"]) for one in parsers for each in one["parse_states"]]
        tables = [
            Named("table", table["name"])
            for pipeline in document["pipelines"]
            for table in pipeline["tables"]
            if table["name"] not in self.statements
        ]
        actions = [Named("action", name) for name in self.actions if name not in self.statements]
        blocks = [one["name"] for one in (*parsers, *document["pipelines"])]
        named = (Named("block", each) for each in (*blocks, DEPARSER))
        return list(dict.fromkeys([*states, *tables, *actions, *named]))

    def _lines(self, document: Json) -> Iterator[Line]:
        sources: list[Json] = []
        for parser in document["parsers"]:
            for state in parser["parse_states"]:
                sources += [state.get("source_info"), state.get("transition_source_info")]
                sources += [item.get("source_info") for item in state["parser_ops"]]
        for pipeline in document["pipelines"]:
            sources += [
                node.get("source_info")
                for kind in ("tables", "conditionals")
                for node in pipeline.get(kind) or ()
            ]
        for action in document["actions"]:
            sources += [action.get("source_info")]
            sources += [item.get("source_info") for item in action["primitives"]]
        for deparser in document["deparsers"]:
            sources += [item.get("source_info") for item in deparser.get("primitives") or ()]
        yield from filter(None, map(line_of, sources))

    # -- asked for

    def file(self, text: str) -> str | None:
        """Return what the program calls a file, if something of it can be stopped at: by its path,
        or the end of it."""
        files = dict.fromkeys(line.file for line in self.lines)
        wanted = Path(text)
        for name in files:
            if name == text or self.path(name) == wanted.absolute().resolve():
                return name
        ends = [name for name in files if Path(name).name == text]
        return ends[0] if len(ends) == 1 else None

    def path(self, file: str) -> Path:
        """Return where a source file is."""
        return (self.folder / file).absolute().resolve()

    def line(self, file: str, number: int) -> Line:
        """Return the first line from a number on at which one can stop. Raises InputError."""
        name = self.file(file)
        if name is None:
            known = ", ".join(dict.fromkeys(line.file for line in self.lines)) or "none"
            raise InputError(f"nothing of {file!r} runs; files of the program are: {known}")
        for line in self.lines:
            if line.file == name and line.number >= number:
                return line
        raise InputError(f"{file} has no code at line {number}, nor behind it")

    def name(self, text: str) -> Named:
        """Return what a name means: whole, or its end behind a dot. A word may say of which kind:
        ``table t``. Raises InputError."""
        kind, _, rest = text.rpartition(" ")
        kinds = [one for one in self.named if not kind or one.kind == kind.strip()]
        same = [one for one in kinds if one.name == rest]
        found = same or [one for one in kinds if one.name.endswith(f".{rest}")]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{text!r} may be {', '.join(map(str, found))}: write one of these")
        raise InputError(
            f"the program has no line, state, table, action or block {text!r}; 'places' lists them"
        )
