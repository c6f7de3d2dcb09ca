"""How pytest in a process of its own is told of Weft's plugin."""

from __future__ import annotations

from importlib.metadata import entry_points

PLUGIN = "weft.interface.pytest_plugin"

FOUND = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
"""Whether pytest finds the plugin by itself, as it does where Weft is installed."""

LOADED = () if FOUND else ("-p", PLUGIN)
