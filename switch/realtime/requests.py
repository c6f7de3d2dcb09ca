"""What a line at the statistics socket asks of a switch process; it is checked whole, then done.

The lines:

- ``reset``: the statistics of lateness and queues' depths start anew, after the document;
- ``loads START_NS BIN_NS``: what links carry is counted from that time of CLOCK_MONOTONIC on,
  in bins of that length, until ``loads end``;
- ``rates [SWITCH PORT BPS] ...``: the links behind these ports go on at these rates;
- ``link SWITCH PORT up|down``: the patch link at this port comes back, or loses everything;
- ``trace SWITCH start PACKETS``: so many of a switch's next packets are traced; takes as long
  as compiling its program where that has not been done before;
- ``trace SWITCH take``: the answer is that of `weft.switch.realtime.traces.Traces.take`;
- ``trace SWITCH end``: the switch is traced no longer;
- ``captures end``: the captures inside the process are written out and end; the answer's
  ``captures`` says of each file what it holds and lost.

Without a line, or with ``reset``, the answer is the process's statistics; otherwise it is empty.
"""

from __future__ import annotations

from typing import Any

from weft.base.errors import InputError
from weft.switch.realtime.process import SwitchProcess

REQUESTS = (
    "reset, loads START_NS BIN_NS, loads end, rates [SWITCH PORT BPS] ..., "
    "link SWITCH PORT up|down, trace SWITCH start PACKETS|take|end, or captures end"
)
SHOWN = 80
"""The most characters of a request, or of a word of it, that an error shows."""
MOST_DIGITS = 19
"""The digits of the largest number of 64 bits."""


def done(process: SwitchProcess, line: bytes) -> dict[str, Any]:
    """Do what a line asks for, or what an empty line does, and return the answer.

    Raises `WeftError`.
    """
    try:
        words = line.decode().split()
    except UnicodeDecodeError:
        raise InputError(f"request {_shown(repr(line)[1:])} is no text in UTF-8") from None
    match words:
        case [] | ["reset"]:
            document = process.statistics()
            if words:
                process.reset_lateness()
            return document
        case ["loads", "end"]:
            process.end_loads()
        case ["loads", start, length]:
            process.record_loads(_number("START_NS", start), _number("BIN_NS", length))
        case ["rates", *rest] if len(rest) % 3 == 0:
            triples = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
            process.set_rates(
                {(name, _number("PORT", port)): _number("BPS", bps) for name, port, bps in triples}
            )
        case ["link", name, port, "up" | "down" as state]:
            process.set_link(name, _number("PORT", port), up=state == "up")
        case ["trace", name, "start", packets]:
            process.traces.start(name, _number("PACKETS", packets))
        case ["trace", name, "take"]:
            return process.traces.take(name)
        case ["trace", name, "end"]:
            process.traces.end(name)
        case ["captures", "end"]:
            return {"captures": process.end_captures()}
        case _:
            said = _shown(repr(" ".join(words)))
            raise InputError(f"request {said} is not understood: {REQUESTS}")
    return {}


def _number(what: str, word: str) -> int:
    """Return the whole number that a word is; the process checks whether it makes sense."""
    if not (word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS):
        raise InputError(
            f"{what} {_shown(repr(word))} is no whole number of at most {MOST_DIGITS} digits"
        )
    return int(word)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
