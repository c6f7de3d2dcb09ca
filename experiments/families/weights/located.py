"""Where the files of a move of weights are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.families.weights.files import is_file
from weft.experiments.scenario.options import over


def located(options: Mapping[str, Any], places: Sequence[Path]) -> Mapping[str, Any]:
    """Return options in which each file that they name is given in the first place that holds
    it. Raises `InputError`."""
    for option in ("model", "layout"):
        name = options.get(option)
        if not isinstance(name, str) or (option == "model" and not is_file(name)):
            continue
        try:
            found = next((place / name for place in places if (place / name).exists()), None)
        except (OSError, ValueError) as error:  # a name with a NUL
            raise InputError(f"{option} {shown(name)} cannot be read: {error}") from None
        if found is not None:
            options = over(options, {option: str(found)})
    return options
