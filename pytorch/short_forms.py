"""The short forms of calls of c10d's interface: one tensor in place of lists, values in place of
options. ``group.broadcast(tensor, root)`` is short for ``group.broadcast([tensor], options)``."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Method = TypeVar("Method", bound=Callable[..., Any])

_OPTIONS = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}
"""The members of options by the names that short forms have for them."""


def short_form(
    options: type, *values: str, tensors: int, lists: bool = True
) -> Callable[[Method], Method]:
    """Let a method that takes tensors and options be called in its short form, too.

    Args:
        options: the class of the method's own options.
        values: what the short form takes in their place, in order; a timeout comes last.
        tensors: how many arguments come before these.
        lists: whether the method takes lists of what the short form takes.
    """
    names = (*values, "timeout")

    def decorated(method: Method) -> Method:
        @functools.wraps(method)
        def called(self: Any, *arguments: Any, **named: Any) -> Any:
            given, more = list(arguments[:tensors]), arguments[tensors:]
            is_one = lists and any(isinstance(each, torch.Tensor) for each in given)
            has_values = bool(named.keys() & set(names)) or (
                bool(more) and more[0] is not None and not isinstance(more[0], options)
            )
            if not is_one and not has_values:
                return method(self, *arguments, **named)
            if is_one:  # a list that is empty is of another rank than the root
                given = [[each] if isinstance(each, torch.Tensor) or each else [] for each in given]
            made = options()
            for name, value in [*zip(names, more, strict=False), *named.items()]:
                if value is not None:
                    setattr(made, _OPTIONS[name], int(value) if name == "root" else value)
            return method(self, *given, made)

        return called  # type: ignore[return-value]

    return decorated
