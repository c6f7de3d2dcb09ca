"""Colours: an algorithm has the same one in every plot and page, and the colour-blind can tell them
apart."""

import re
from collections.abc import Iterable

from weft.agents.collectives.names import ALGORITHMS as REGISTERED
from weft.agents.collectives.names import algorithms
from weft.base.errors import InputError
from weft.experiments.paths.registry import scheme_of
from weft.experiments.scenario.families import families

ALGORITHMS: dict[str, tuple[str, str]] = {
    **{name: both for each in families() for name, both in each.colours().items()},
    **{name: REGISTERED.fact(name, "colours") for known in algorithms().values() for name in known},
}
"""Colours on white and on a dark page: those of Okabe and Ito (2008) that no other algorithm of the
same collective has. Of algorithms that are made of parts they are those of the parts."""

OTHER = ("#6a51a3", "#ab95dd")

PHASES: dict[str, tuple[str, str]] = {
    "barrier": ("#b9c4d0", "#7f8ea0"),
    "data": ("#44546a", "#a9b8cb"),
    "recovery": ("#e69f00", "#f3bd4a"),
    "handshake": ("#56b4e9", "#8fd0f5"),
}

OTHER_PHASES = (("#cc79a7", "#e09cc2"), ("#b35c5c", "#d08a8a"), ("#8c6d31", "#c4a968"))


def colour(algorithm: str) -> str:
    """Return the colour on white of an algorithm, or of a scheme of path assignment."""
    name = _coloured(algorithm)
    if name in ALGORITHMS:
        return ALGORITHMS[name][0]
    try:
        return scheme_of(algorithm).colour
    except InputError:
        return OTHER[0]


def _coloured(algorithm: str) -> str:
    """Return the part of an algorithm's name that has a colour: its strategy or its schedule, if it
    is made of parts."""
    return algorithm if algorithm in ALGORITHMS else algorithm.partition("/")[0]


def label_of(algorithm: str) -> str:
    """Return the name that plots and pages give an algorithm."""
    is_known = algorithm in REGISTERED
    return (is_known and REGISTERED.fact(algorithm, "label")) or algorithm


def in_order(phases: Iterable[str]) -> list[str]:
    """Return the names of phases, each once, in the order in which the phases follow each other."""
    names = list(dict.fromkeys(phases))
    return [name for name in PHASES if name in names] + [n for n in names if n not in PHASES]


def algorithm_class(algorithm: str) -> str:
    """Return the class of the report's style sheet that colours an algorithm."""
    name = _coloured(algorithm)
    return _class_of(name) if name in ALGORITHMS else "other"


def _class_of(name: str) -> str:
    """Return a name as a style sheet may write a class: one that begins with no digit, and has no
    characters that have to be escaped."""
    plain = re.sub("[^A-Za-z0-9_-]", "-", name)
    return plain if plain[:1].isalpha() else f"of-{plain}"


def phase_class(name: str) -> str:
    """Return the class of the report's style sheet that colours a phase."""
    return f"phase-{_phase(name)}"


def phase_colour(name: str) -> str:
    """Return the colour of a phase on white."""
    return [*PHASES.values(), *OTHER_PHASES][_phase(name)][0]


def _phase(name: str) -> int:
    if name in PHASES:
        return list(PHASES).index(name)
    return len(PHASES) + sum(name.encode()) % len(OTHER_PHASES)


LINE, PAPER = "#dde2e8", "#ffffff"
_OF_PAGE = {"#1a2230": "--ink", "#586273": "--soft", LINE: "--line", PAPER: "--paper"}
"""Colours of drawings that the page's style sheet has by name."""
_DARK = dict([*ALGORITHMS.values(), *PHASES.values(), *OTHER_PHASES, OTHER])
"""The colour on a dark page by the colour on white."""


def style_sheet() -> str:
    """Return a style sheet for white and for dark pages: classes, each with its colour as
    ``--key``, and the colours that `with_page_colours` names."""
    phases = enumerate((*PHASES.values(), *OTHER_PHASES))
    named = {_class_of(name): pair for name, pair in ALGORITHMS.items()}
    named |= {"other": OTHER, **{f"phase-{index}": pair for index, pair in phases}}
    light, dark = (
        " ".join(
            [
                *(f".{name} {{ --key: {pair[which]}; }}" for name, pair in named.items()),
                *(f":root {{ --{pair[0][1:]}: {pair[which]}; }}" for pair in _DARK.items()),
            ]
        )
        for which in (0, 1)
    )
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"


def with_page_colours(svg: str) -> str:
    """Return a drawing whose colours are named by the page's style sheet, so that they change on a
    dark page."""

    def named(found: re.Match[str]) -> str:
        colour = found[0]
        variable = _OF_PAGE.get(colour, f"--{colour[1:]}" if colour in _DARK else "")
        return f"var({variable})" if variable else colour

    return re.sub("#[0-9a-f]{6}", named, svg)
