"""The names of congestion controls, for those who ask without loading numpy."""

from typing import Any

import msgspec

from weft.base.registry import Registry
from weft.base.units import listed


class ControlFacts(msgspec.Struct):
    """What is known of a congestion control without its module: attributes of
    `weft.agents.transport.congestion.control.CongestionControl`."""

    about: str
    reacts_to_marks: bool
    options: str


CONTROLS: Registry[Any] = Registry(
    "weft.congestion_controls",
    "weft.agents.transport.congestion.controls:CONTROLS",
    facts=ControlFacts,
    kind="weft.agents.transport.congestion.control:CongestionControl",
)
"""All congestion controls: instances of
`weft.agents.transport.congestion.control.CongestionControl`."""


def reacts_to_marks(name: str | None) -> bool:
    """Return whether a congestion control uses marks, if there is one of that name."""
    return bool(name in CONTROLS and CONTROLS.fact(str(name), "reacts_to_marks"))


def controls_by(marks: bool) -> tuple[str, ...]:
    """Return the names of the congestion controls that react to marks, or of those that do not. The
    first of them is the one that is taken where nobody names one."""
    return tuple(name for name in CONTROLS if reacts_to_marks(name) is marks)


def marking_controls(word: str) -> str:
    """List the congestion controls that react to marks, with a word before the last."""
    return listed(controls_by(marks=True), word)


def described_controls() -> str:
    """Say what senders react to under each congestion control: ``to losses (window) or to marks
    (dctcp)``."""
    said = [f"to {CONTROLS.fact(name, 'about') or name} ({name})" for name in CONTROLS]
    return listed(said, "or")
