"""A walk as text for people, and as JSON."""

from collections.abc import Iterator
from typing import Any

from weft.interface.ways.walk import Arrival, Output, Passed, Walk, summary
from weft.switch.engine.trace.text import event_text
from weft.switch.interpreter.explore import Way
from weft.switch.interpreter.steps import Step

HIDDEN = frozenset(("primitive",))
"""Steps that text leaves out: what they do is told behind them."""


def document(walk: Walk) -> dict[str, Any]:
    """Return a walk as JSON has it."""
    return {
        "weft_way": 1,
        "network": walk.topology.describe(),
        "from": walk.source,
        "all": walk.every,
        "sent": _output(walk, walk.start),
        "summary": summary(walk),
        "arrivals": [_arrival(walk, one) for one in walk.arrivals.values()],
        "unread": walk.unread,
    }


def _arrival(walk: Walk, arrival: Arrival) -> dict[str, Any]:
    return {
        "number": arrival.number, "switch": arrival.switch, "port": arrival.port,
        "frame": arrival.frame.hex(), "cut": arrival.cut,
        "ways": [_passed(walk, each) for each in arrival.passed],
    }  # fmt: skip


def _passed(walk: Walk, passed: Passed) -> dict[str, Any]:
    way = passed.way
    return {
        "count": way.count, "choices": list(way.choices),
        **({"failed": way.failed} if way.failed else {}),
        "steps": [step.as_event() for step in way.steps],
        "outputs": [_output(walk, each) for each in passed.outputs],
    }  # fmt: skip


def _output(walk: Walk, output: Output) -> dict[str, Any]:
    following = walk.arrival(output)
    return {
        "port": output.port, "copy": output.copy, "frame": output.frame.hex(), "end": output.end,
        "to": output.to, "to_port": output.to_port, "link": output.link,
        **({"loss": output.loss} if output.loss else {}),
        **({"loop": list(output.loop)} if output.loop else {}),
        "arrival": following.number if following else None,
    }  # fmt: skip


def output_text(walk: Walk, output: Output) -> str:
    """Return in words where an output goes."""
    size = f"{len(output.frame)} bytes"
    following = walk.arrival(output)
    match output.end:
        case "nowhere":
            return f"port {output.port}: there is no link, {size} are lost"
        case "controller":
            return f"port {output.port}: to the controller, {size}"
        case "lost":
            return f"{output.link} is down: {size} for {output.to} are lost"
    where = f"{output.link} to {output.to}"
    if walk.every and output.loss:
        size += f" (the link loses {output.loss:g} of all)"
    if output.loop:
        return f"{where}: it goes round, {' -> '.join((*output.loop, output.loop[0]))}"
    if output.end == "host":
        return f"{where}: it arrives, {size}"
    if following is None:
        return f"{where}: not followed any further"
    return f"{where} port {output.to_port}, {size}" + (
        f": see {following.number}" if walk.every else ""
    )


def text(walk: Walk) -> str:
    """Return a walk as text."""
    return "\n".join(_lines(walk)) + "\n"


def _lines(walk: Walk) -> Iterator[str]:
    found = summary(walk)
    yield f"{walk.source} sends {len(walk.start.frame)} bytes: {output_text(walk, walk.start)}"
    for arrival in walk.arrivals.values():
        yield ""
        number = f"{arrival.number}. " if walk.every else ""
        yield f"{number}{arrival.switch}, port {arrival.port}"
        several = len(arrival.passed) > 1
        for position, passed in enumerate(arrival.passed, 1):
            yield from _way_lines(walk, passed, f"way {position}" if several else "")
    yield ""
    yield from verdict(walk, found)


def _way_lines(walk: Walk, passed: Passed, name: str) -> Iterator[str]:
    way = passed.way
    if name:
        times = f" (one of {way.count} combinations of choices)" if way.count > 1 else ""
        yield f"  {name}{': ' if way.choices else ''}{'; '.join(way.choices)}{times}"
    for step in way.steps:
        event = step.as_event()
        if step.event in HIDDEN or (name and step.event == "choice"):
            continue
        copy = f"copy {event['copy']}: " if event["copy"] else ""
        place = f"   [{event['source']}]" if "source" in event else ""
        yield f"    {copy}{step_text(way, step)}{place}"
    if way.failed:
        yield f"    {way.failed}"
    for output in passed.outputs:
        yield f"  -> {output_text(walk, output)}"


def step_text(way: Way, step: Step) -> str:
    """Return a step in words."""
    if step.event != "choice":
        return event_text(step.as_event())
    choices = [one for one in way.steps if one.event == "choice"]
    return f"  {way.choices[next(at for at, one in enumerate(choices) if one is step)]}"


def verdict(walk: Walk, found: dict[str, Any]) -> Iterator[str]:
    """Yield what the whole comes to."""
    if walk.every:
        yield f"{found['ways']} way{'s' if found['ways'] != 1 else ''} in all"
    for name in found["always"]:
        yield f"{name} gets it" + (" in every way" if walk.every else "")
    for name in found["sometimes"]:
        yield f"{name} gets it in some ways"
    if not found["always"] and not found["sometimes"]:
        yield "nobody gets it"
    for loop in found["loops"]:
        yield f"a loop: {' -> '.join((*loop, loop[0]))}"
    if found["cut"]:
        yield f"cut off: {'; '.join(found['cut'])}"
    if found["sampled"]:
        yield (
            f"of random numbers at {', '.join(found['sampled'])} those were tried at which the "
            "program may tell them apart"
        )
    for switch, kinds in walk.unread.items():
        yield f"{switch} does not tell: {', '.join(kinds)}"
