"""A scenario's options on the command line: those that a command names, made from their table."""

import inspect
import keyword
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from weft.base.command_line import Flag, Text, Texts, given
from weft.base.option import FLAG, GROUPS, Option, read_own, rows_of
from weft.base.registry import NoOptions
from weft.experiments.paths.names import scheme_names
from weft.experiments.scenario.asked import OPTIONS, is_used
from weft.experiments.scenario.families import choices, family_named

OTHERS = "Results and help"
"""The group of a command's own options."""
_WORDS = "weft.words"


def scenario_options(
    *names: str, more: type[Any] = NoOptions, **helps: str | tuple[str, str]
) -> Callable[[Callable[..., None]], Any]:
    """Give a command options of a scenario; what is given of them is its argument ``options``, by
    their names with underscores, as text.

    Args:
        names: of options, in the order in which help lists them. The command's own parameters may
            be among them; those that are not follow, arguments come first.
        more: a dataclass of options, which follow those that are named; an instance, of what is
            given of them, is the command's argument ``more``, if there are some.
        helps: another help than the table's, by the option's name with underscores; with another
            text for the default behind it.
    """
    words = [name.replace("-", "_") for name in names]
    own_rows = {row.field: row for row in rows_of(more).values()}

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        for name in ("options", *["more"] * bool(own_rows)):
            del own[name]
        taken = [word for word in words if word not in own]
        first = [each for each in own.values() if each.default is inspect.Parameter.empty]
        listed = [own.get(word) or _parameter(word, _row(word, helps.get(word))) for word in words]
        listed += [_parameter(word, row) for word, row in own_rows.items()]
        rest = [each for each in own.values() if each not in first and each not in listed]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                      for each in (*first, *listed, *rest)]  # fmt: skip

        def wanted(**values: Any) -> None:
            options = given(**{word: values.pop(_argument(word)) for word in taken})
            if own_rows:
                written = given(**{word: values.pop(_argument(word)) for word in own_rows})
                values["more"] = read_own(more, written)
            command(options=options, **values)

        wanted.__name__, wanted.__doc__ = command.__name__, command.__doc__
        wanted.__annotations__ = {each.name: each.annotation for each in parameters}
        vars(wanted)["__signature__"] = inspect.Signature(parameters)
        return wanted

    return decorated


def _row(word: str, help: str | tuple[str, str] | None) -> Option:
    row = OPTIONS[word.replace("_", "-")]
    if isinstance(help, str):
        return replace(row, help=help)
    return replace(row, help=help[0], default_text=help[1]) if help is not None else row


def _parameter(word: str, row: Option) -> inspect.Parameter:
    name = row.name
    info: Any = typer.Option(
        f"--{name}/--no-{name}" if row.kind is FLAG else f"--{name}",
        metavar=row.metavar,
        help=row.described,
        autocompletion=None if row.kind is FLAG else _completion(name, row),
    )
    kind: Any = Flag if row.kind is FLAG else Texts if row.kind.listed else Text
    return inspect.Parameter(
        _argument(word), inspect.Parameter.KEYWORD_ONLY, default=None,
        annotation=Annotated[kind, info],
    )  # fmt: skip


def _argument(word: str) -> str:
    """Return what the argument of an option is called, which may not be a word of Python's."""
    return f"{word}_" if keyword.iskeyword(word) else word


def _completion(name: str, row: Option) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: Collection[str] = row.choices
        if name == "algorithm":
            found = choices().get(_collective_in(ctx), ())
        elif name == "paths":
            found = scheme_names()
        return [choice for choice in found if choice.startswith(incomplete)]

    return complete


def complete_what(incomplete: str) -> list[str]:
    """Return collectives that a word may become."""
    return [name for name in choices() if name.startswith(incomplete)]


def _collective_in(ctx: Any) -> str:
    """Return the collective that the command line names; empty without one."""
    return next((word for word in ctx.meta.get(_WORDS, ()) if word in choices()), "")


def _is_offered(name: str, collective: str) -> bool:
    """Return whether an option means something after a collective: a command's own always does."""
    row = OPTIONS.get(name) or OPTIONS.get(name.removeprefix("no-"))
    return row is None or not collective or is_used(row, collective)


class GroupedCommand(TyperCommand):
    """A command whose help has its options in groups; after a collective, help and the shell's
    completion have those that it uses."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        collective = _collective_in(ctx)
        return [
            item
            for item in super().shell_complete(ctx, incomplete)
            if _is_offered(item.value.removeprefix("--"), collective)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        collective = _collective_in(ctx)
        sections: dict[str, list[tuple[str, str]]] = {
            name: [] for name in ("Arguments", *GROUPS, OTHERS)
        }
        for group, record in self._records(ctx, collective):
            sections[group].append(record)
        for group, records in sections.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)
        if not collective:
            formatter.write_paragraph()
            formatter.write_text(
                "weft run COLLECTIVE --help lists the options that the collective uses."
            )

    def _records(self, ctx: Any, collective: str) -> Iterator[tuple[str, tuple[str, str]]]:
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                yield "Arguments", record
                continue
            name = (parameter.name or "").replace("_", "-")
            row = OPTIONS.get(name)
            if row is None:
                yield OTHERS, record
            elif _is_offered(name, collective):
                if collective and row.name == "algorithm":
                    if not family_named(collective).lists_algorithms:
                        continue
                    names = ", ".join(choices()[collective])
                    record = record[0], f"May be repeated: {names}. [{row.default_text}]"
                yield row.group, record
