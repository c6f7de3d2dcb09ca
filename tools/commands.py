"""The commands of developers: ``weft bench`` and ``weft docs``."""

from weft.cli.command_line import COMMANDS

COMMANDS["bench"] = (
    "weft.tools.bench.command_line",
    "Measure something on this machine; figures come with something to compare them to.",
)
COMMANDS["docs"] = (
    "weft.tools.figures.command_line",
    "Make the tables and plots of docs/ anew, from figures that are kept in docs/figures.",
)
