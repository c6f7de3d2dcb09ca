"""``weft trace``: a packet's way through a network that is not up, without sending it."""

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from weft.base.command_line import Text
from weft.base.errors import InputError
from weft.cli.command_line import app


@app.command(name="trace")
def trace_way(
    network: Annotated[
        Path, typer.Argument(metavar="FILE", help="The network: NAME.toml, or another tool's file.")
    ],
    source: Annotated[str, typer.Argument(metavar="HOST", help="That sends it.")],
    target: Annotated[str, typer.Argument(metavar="HOST", help="That it is for.")],
    packet: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            metavar="PACKET",
            help="ping, udp [PORT [SOURCE_PORT]], tcp likewise, or a frame in hexadecimal. [ping]",
        ),
    ] = None,
    program: Annotated[
        Text, typer.Option("--program", metavar="PROGRAM.p4", help="Of all switches.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every way that the packet may take.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    page: Annotated[
        Text, typer.Option("--html", metavar="FILE", help="Write a page, or with .json JSON.")
    ] = None,
) -> None:
    """Show a packet's way through a network, or all its ways, without bringing it up.

    The network's programs, routes and entries are those that it would come up with. At the prompt
    of weft up, trace HOST HOST does so by the tables as they are.
    """
    from weft.interface.up import up
    from weft.interface.ways.packets import frame_of
    from weft.topo.worlds.registry import WORLDS

    if not network.exists():
        raise InputError(f"network file {str(network)!r}: there is no such file")
    virtual = next(name for name, kind in WORLDS.items() if not kind.has_real_time)
    with up(network, world=virtual, program=program) as net:
        topology = net.topology
        hosts = topology.host(source), topology.host(target)
        frame = frame_of(topology, *hosts, packet or ["ping"])
        way = net.trace(frame, at=source, every=every)
    if page is not None:
        print(f"Written: {way.write(page).absolute()}")
    else:
        print(json.dumps(way.document, indent=1) if as_json else way)
