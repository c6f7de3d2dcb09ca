"""What left a switch against what a test expects.

As p4c's runner has it: ports are looked at one by one; at each, frames are expected in the order of
the test, wherever in it the statements are; a frame may be longer than what is expected of it
unless that ends with ``$``; a port that no statement names is not looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from weft.switch.stf.report import Difference, Failure
from weft.switch.stf.statements import Expect, Packet

MOST_ALIGNED = 1000
"""The most frames at a port that are aligned; of more, each is held against the expectation in the
same place."""


@dataclass(frozen=True)
class Output:
    """A frame that left, the packet statement that it came of, and its path if that is known."""

    port: int
    frame: bytes
    cause: Packet
    path: str = ""


def difference(expect: Expect, frame: bytes) -> Difference | None:
    """Return where a frame is not as expected, or None."""
    if expect.digits is None:
        return None
    wanted, found = expect.digits.lower(), frame.hex()
    for at, digit in enumerate(wanted):
        if at >= len(found) or digit not in ("*", found[at]):
            return Difference(at, wanted, found)
    if expect.exact and len(found) > len(wanted):
        return Difference(len(wanted), wanted, found)
    return None


def compare_port(port: int, expected: Sequence[Expect], outputs: Sequence[Output]) -> list[Failure]:
    """Return everything that is not as expected at a port."""
    failures = []
    for number, (expect, output) in enumerate(_pairs(expected, outputs), 1):
        if expect is None and output is not None:
            failures.append(
                Failure(
                    "unexpected",
                    output.cause.place,
                    f"an unexpected packet of {len(output.frame)} bytes left at port {port}",
                    port,
                    frame=output.frame,
                    path=output.path,
                )
            )
        elif expect is not None and output is None:
            failures.append(
                Failure("missing", expect.place, f"no packet left at port {port} for this", port)
            )
        elif expect is not None and output is not None:
            found = difference(expect, output.frame)
            if found is not None:
                failures.append(_differs(port, number, expect, output, found))
    return failures


def _differs(port: int, number: int, expect: Expect, output: Output, found: Difference) -> Failure:
    wanted_bytes, got_bytes = (len(found.expected) + 1) // 2, len(output.frame)
    if found.digit >= len(found.got):
        what = f"is too short: {got_bytes} bytes, expected are at least {wanted_bytes}"
    elif found.digit >= len(found.expected):
        what = f"is too long: {got_bytes} bytes, expected are exactly {wanted_bytes}"
    else:
        what = f"differs at byte {found.byte_offset}"
    return Failure(
        "differs",
        expect.place,
        f"packet {number} at port {port} {what} (sent by line {output.cause.place.line})",
        port,
        found,
        output.frame,
        output.path,
    )


def _pairs(
    expected: Sequence[Expect], outputs: Sequence[Output]
) -> list[tuple[Expect | None, Output | None]]:
    """Return which frame is held against which expectation: in order, each once, and so that as
    many as possible match."""
    if max(len(expected), len(outputs)) > MOST_ALIGNED:
        return list(zip_longest(expected, outputs))
    matching = [[difference(e, o.frame) is None for o in outputs] for e in expected]
    best = [[0] * (len(outputs) + 1) for _ in range(len(expected) + 1)]
    for i in range(len(expected) - 1, -1, -1):
        for j in range(len(outputs) - 1, -1, -1):
            together = best[i + 1][j + 1] + 1 if matching[i][j] else 0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[Expect | None, Output | None]] = []
    i = j = 0
    while i < len(expected) and j < len(outputs):
        if matching[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs.append((expected[i], outputs[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((expected[i], None))
            i += 1
        else:
            pairs.append((None, outputs[j]))
            j += 1
    pairs += [(expect, None) for expect in expected[i:]]
    pairs += [(None, output) for output in outputs[j:]]
    return _rejoin(pairs)


def _rejoin(
    pairs: list[tuple[Expect | None, Output | None]],
) -> list[tuple[Expect | None, Output | None]]:
    """Hold what is missing against what is unexpected in the same stretch of pairs: the two
    differ."""
    joined: list[tuple[Expect | None, Output | None]] = []
    stretch: list[tuple[Expect | None, Output | None]] = []

    def flush() -> None:
        missing = [expect for expect, _ in stretch if expect is not None]
        extra = [output for _, output in stretch if output is not None]
        joined.extend(zip_longest(missing, extra))
        stretch.clear()

    for pair in pairs:
        if None in pair:
            stretch.append(pair)
        else:
            flush()
            joined.append(pair)
    flush()
    return joined
