"""The command that asks for a scenario, as the report shows it."""

import shlex
from dataclasses import replace

from weft.base.errors import InputError
from weft.base.option import Option
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.scenario import Scenario


def command_line(scenario: Scenario) -> str:
    """Return the shortest ``weft run`` that asks for the same."""
    words = ["weft", "run", scenario.collective]
    for name, row in OPTIONS.items():
        value = getattr(scenario, row.field)
        if name == "collective" or _goes_without_saying(scenario, row):
            continue
        if name == "seed" and scenario.seeds:
            continue  # they say it
        if row.kind.listed:
            words += [word for each in value for word in (f"--{name}", str(each))]
        elif isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", row.kind.write(value)]
    return shlex.join(words)


def _goes_without_saying(scenario: Scenario, row: Option) -> bool:
    """Return whether the command means the same without an option."""
    if getattr(scenario, row.field) == row.default:
        return True
    if row.default not in (None, "", (), 0):
        return False  # such a default is not filled in by something else
    try:
        return replace(scenario, **{row.field: row.default}) == scenario
    except InputError:
        return False
