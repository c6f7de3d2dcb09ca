"""Where the file of a workload is."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.families.flows.checks import is_model
from weft.experiments.families.flows.workload import WORKLOADS
from weft.experiments.scenario.options import over


def located(options: Mapping[str, Any], places: Sequence[Path]) -> Mapping[str, Any]:
    """Return options in which the file of their workload, if it has one, is given in the first
    place that holds it."""
    workload = options.get("workload")
    if not isinstance(workload, str) or is_model(workload) or workload in WORKLOADS:
        return options
    for place in places:
        try:
            os.stat(place / workload)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:  # a name with a NUL
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"workload {shown(workload)} cannot be read: {why}") from None
        return over(options, {"workload": str(place / workload)})
    return options
