"""``weft doctor``: what this machine can do, what is missing, and how to get it."""

from rich.console import Console
from rich.text import Text

from weft.base import cache, native_code
from weft.base.errors import MachineError
from weft.base.units import format_size
from weft.topo.worlds.emulated.machine import machine_facts


def examine(console: Console) -> int:
    """Print what was found; 0 if the emulated world can run here, 2 if something is missing."""

    def line(good: bool | None, name: str, what: str) -> None:
        mark = {True: ("ok", "green"), False: ("missing", "red"), None: ("absent", "yellow")}[good]
        console.print(
            Text.assemble((f"{mark[0]:>8}", mark[1]), f"  {name:<20} {what}"),
            soft_wrap=True,
        )

    facts = machine_facts()
    missing = [*facts.missing]
    line(True, "kernel", facts.kernel)
    line(facts.cores >= 2, "processors", f"{facts.cores} (the default scenario is made for 2)")
    line(True, "memory", format_size(facts.memory_bytes))
    try:
        most = format_size(cache.BOUND_BYTES)
        line(True, "cache", f"{cache.size_of(cache.kept())} of {most} in {cache.cache_dir()}")
    except MachineError as error:
        line(False, "cache", "cannot be used")
        missing.append(str(error))
    if code := native_code.state():
        line(True, "machine code", code)
    line(facts.root, "root", "yes" if facts.root else "no: features below were not tried")
    line(facts.mininet is not None, "mininet (Python)", facts.mininet or "not found")
    for fact in facts.tools:
        good = True if fact.path else False if fact.tool.required else None
        found = f"{fact.path}  {fact.version or ''}" if fact.path else fact.tool.purpose
        line(good, fact.tool.name, found)
    for feature in facts.features:
        good = True if feature.works else None if feature.without else False
        line(good, feature.name, "works" if feature.works else feature.reason)
    console.print()
    for word, lines in (("needed:  ", missing), ("optional:", facts.optional_missing)):
        for what in lines:
            console.print(f"{word} {what}", markup=False, soft_wrap=True)
    if facts.apt_command:
        console.print(f"To get what Debian has of it: {facts.apt_command}", markup=False)
    if missing:
        return 2
    console.print("This machine can run the emulated world: sudo ./weft demo")
    return 0
