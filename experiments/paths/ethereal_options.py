"""Options that Ethereal has of its own, for those who ask without loading numpy."""

from dataclasses import dataclass

from weft.base.option import SIZE, TRANSPORT, option


@dataclass(frozen=True)
class EtherealOptions:
    """Options that the command line, scenario files and Python have for Ethereal."""

    whole_below_bytes: int = option(
        0,
        SIZE,
        "Ethereal: flows of a step with fewer bytes are not cut.",
        group=TRANSPORT,
        metavar="SIZE",
        name="whole-below",
        between=(0, 1 << 32),
    )
    """A flow is what a rank sends to another in a step. Two ranks have the same lanes in all steps:
    where other flows of theirs are cut, all are."""
