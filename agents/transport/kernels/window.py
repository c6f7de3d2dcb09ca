"""The window of connections, which the endpoint's congestion control governs."""

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.agents.congestion import CONTROLS
from weft.agents.transport import layout as at
from weft.agents.wire.compiled import JIT, internal
from weft.base.deferred import PLAIN, at_waking, deferred, numba
from weft.base.entry_points import blamed

SMALLEST_WINDOW = 256
"""In 1/256 packets: many senders to one receiver may each have one packet on its way."""


_NUMBERS = {
    "after_acknowledgement": 2, "after_loss": 0, "after_rash_timeout": 0, "after_round": 0,
}  # fmt: skip
"""How many numbers functions of a congestion control take, beside the two rows."""


@cache
def _part(function: Any) -> Any:
    """Return a function of a congestion control as a part of compiled code."""
    return JIT.part(function)


def _by_number(function: str) -> Any:
    """Return a compiled function that calls the function of that name of the congestion control
    whose number the endpoint has. What several have in common is there once."""
    first, *others = (getattr(control, function) for control in CONTROLS.values())
    chosen = _part(first)
    for number, other in enumerate(others, 1):
        if other is not first:
            chosen = JIT.part(_either(number, _part(other), chosen))
    return chosen


def _either(number: int, one: Any, other: Any) -> Callable[..., Any]:
    def chosen(endpoint: Any, *more: Any) -> Any:
        return one(endpoint, *more) if endpoint.congestion == number else other(endpoint, *more)

    return chosen


def _compile_others() -> None:
    """Compile first what other packages bring. Raises RunError, which names them, if that fails."""
    if PLAIN:
        return
    rows = [numba.from_dtype(each.dtype) for each in (at.EndpointState, at.PairState)]
    for control in CONTROLS.others.values():
        for name, numbers in _NUMBERS.items():
            with blamed(control, f"compiling {name}"):
                function = _part(getattr(control, name))
                function.compile((*rows, *[numba.int64] * numbers))


after_acknowledgement = deferred(lambda: _by_number("after_acknowledgement"))
after_loss = deferred(lambda: _by_number("after_loss"))
after_rash_timeout = deferred(lambda: _by_number("after_rash_timeout"))
after_round = deferred(lambda: _by_number("after_round"))
at_waking(_compile_others)


@internal
def set_window(endpoint: at.EndpointState, pair: at.PairState, window: int) -> None:
    """Set the window to what a congestion control says, within bounds."""
    pair.window = max(SMALLEST_WINDOW, min(window, 256 * endpoint.maximum_window))


@internal
def slow_down(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Take note that something is lost, once a window."""
    if pair.unacknowledged >= pair.recovery_end:
        set_window(endpoint, pair, after_loss(endpoint, pair))
        pair.recovery_end = pair.send_highest
