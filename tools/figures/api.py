"""The reference of the Python interface, as Markdown that is made from docstrings."""

import logging
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.errors import MachineError

_PLACE = re.compile(r"(<!-- interface -->\n).*?(<!-- end of interface -->)", re.DOTALL)

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Networks",
        (
            "topo.clos.leaf_spine", "topo.clos.fat_tree", "topo.clos.pods", "topo.clos.single",
            "topo.own.Network", "topo.own.read_network", "topo.own.from_networkx",
        ),
    ),
    (
        "A network that is up",
        (
            "interface.up.up", "interface.net.Net", "interface.tracing.Tracing",
            "interface.ways.following.PacketWay",
            "interface.handles.HostHandle",
            "interface.handles.InterfaceHandle",
            "interface.handles.LinkHandle",
            "interface.handles.PacketTrace",
            "interface.commands.Running", "interface.commands.Completed",
        ),
    ),
    (
        "Switches",
        (
            "controller.handles.switch.SwitchHandle", "controller.handles.table.TableHandle",
            "controller.handles.table.InstalledEntry", "controller.handles.cells.CounterHandle",
            "controller.handles.cells.RegisterHandle", "controller.handles.cells.MeterHandle",
            "controller.handles.cells.Rates", "controller.handles.queues.QueueHandle",
            "controller.handles.replication.GroupsHandle",
            "controller.handles.replication.ClonesHandle",
            "controller.handles.replication.CloneSession",
            "controller.handles.replication.Replica", "controller.handles.profiles.ProfileHandle",
            "controller.handles.profiles.MembersHandle",
            "controller.handles.profiles.MemberGroupsHandle", "controller.handles.profiles.Member",
            "controller.handles.value_sets.ValueSetHandle", "controller.handles.notices.Digest",
            "controller.handles.notices.ControllerPacket", "controller.handles.notices.IdleEntry",
        ),
    ),
    (
        "Flows of one's own",
        (
            "interface.flows.simulation.simulate", "interface.flows.simulation.Simulation",
            "interface.flows.flow.Flow", "interface.flows.flow.FlowResult",
        ),
    ),
    (
        "Tests of a switch program",
        ("interface.switch_test.SwitchUnderTest",),
    ),
    (
        "Experiments and their results",
        (
            "experiments.runner.run", "experiments.results.results.Results",
            "experiments.results.results.Run", "experiments.results.results.LinkResult",
            "experiments.results.results.RankResult", "experiments.results.results.Fidelity",
        ),
    ),
    (
        "What other packages add",
        (
            "experiments.scenario.networks.NetworkShape",
            "experiments.families.flows.workload.Workload",
            "experiments.families.flows.workload.WorkloadOptions",
        ),
    ),
)  # fmt: skip
"""The parts of the reference, and what is in them, by its place in `weft`."""


def with_interface(text: str) -> str:
    """Return a page with the reference between two comments, if the page has these."""
    return _PLACE.sub(lambda found: f"{found[1]}{reference()}{found[2]}", text)


@cache
def reference() -> str:
    """Return a chapter for each part. Raises MachineError where griffe is not installed."""
    package = _package()
    lines: list[str] = []
    for part, names in PARTS:
        lines += ["", f"## {part}", ""]
        for name in names:
            lines += _about(package[name])
    return "\n".join(lines) + "\n\n"


def _package() -> Any:
    """Return all of `weft` as griffe reads it, which takes seconds."""
    try:
        import griffe
    except ImportError:
        raise MachineError(
            "the reference of the Python interface is made by griffe, which is not installed: "
            "./weft setup installs it, or pip install griffelib"
        ) from None
    logging.getLogger("griffe").setLevel(logging.ERROR)
    loader = griffe.GriffeLoader(
        search_paths=[CHECKOUT / "src"],
        docstring_parser="google",
        docstring_options={"warnings": False},
    )
    return loader.load("weft", try_relative_path=False)  # there is a ./weft, too


def _about(one: Any) -> Iterator[str]:
    """Yield the lines on a function, or on a class and what is public in it."""
    if one.is_function:
        yield from (f"### `weft.{one.name}{_signature(one)}`", "", *_text(one), "")
        return
    constructor = one.members.get("__init__")
    shown = f"({', '.join(_parameters(constructor))})" if _is_made_by_hand(one) else ""
    yield from (f"### `{one.name}{shown}`", "", *_text(one))
    if constructor is not None and _is_made_by_hand(one) and constructor.docstring:
        yield from ("", *_text(constructor))
    yield ""
    for member in one.members.values():
        told = member.docstring or ("dataclass" in one.labels and member.is_attribute)
        if member.name.startswith("_") or not told or member.is_alias:
            continue
        if member.is_function:
            yield f"- **`{member.name}{_signature(member)}`**: {_folded(member)}"
        else:
            kind = f"`: {member.annotation}`" if member.annotation else ""
            words = f": {_folded(member)}" if member.docstring else ""
            yield f"- **`{member.name}`**{kind}{words}"
    yield ""


def _is_made_by_hand(one: Any) -> bool:
    """Return whether people make such objects themselves, and are not handed them."""
    return str(one.name) == "Network"


def _signature(function: Any) -> str:
    returned = f" -> {function.returns}".replace('"', "") if function.returns else ""
    return f"({', '.join(_parameters(function))}){'' if returned == ' -> None' else returned}"


def _parameters(function: Any) -> Iterator[str]:
    bare = False
    for each in function.parameters:
        kind = each.kind.value
        if each.name == "self":
            continue
        if kind == "keyword-only" and not bare:
            yield "*"
        bare = bare or kind in ("keyword-only", "variadic positional")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        default = f" = {each.default}" if each.default is not None and not stars else ""
        annotation = f": {each.annotation}".replace('"', "") if each.annotation else ""
        yield f"{stars}{each.name}{annotation}{default}"


def _text(one: Any) -> list[str]:
    """Return the lines of a docstring, its sections as lists."""
    lines: list[str] = []
    for section in one.docstring.parsed if one.docstring else ():
        kind = section.kind.value
        if kind == "text":
            lines += ["", *_plain(section.value)]
        elif kind in ("parameters", "raises", "returns"):
            lines += [
                "",
                f"{ {'parameters': 'Arguments', 'raises': 'Raises', 'returns': 'Returns'}[kind] }:",
                "",
            ]
            for each in section.value:
                name = getattr(each, "name", "") if kind == "parameters" else each.annotation
                words = " ".join(_plain(each.description))
                lines.append(f"- `{name}`: {words}" if kind != "returns" else f"- {words}")
    return lines[1:]


def _folded(one: Any) -> str:
    """Return a docstring as the text of a list's item."""
    return "\n".join(_text(one)).replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _plain(text: str) -> list[str]:
    """Return text as Markdown has it: code in single quotation marks, blocks without colons."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"^::\n\n", "", text, flags=re.MULTILINE).replace("::\n", ":\n")
    text = re.sub(r":(?:func|class|data|attr):`", "`", text)
    return text.strip("\n").splitlines()
