"""How networks come up: ``with weft.up(weft.leaf_spine(2, 2, 2)) as net: ...``"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.base import arguments as given
from weft.interface.collectives import network_of, scenario_on
from weft.interface.net import Net
from weft.interface.standing import Program, Standing, folders_of, macros_of, programs_of
from weft.topo.interfaces import LinkKind
from weft.topo.labs.reading import is_lab
from weft.topo.network import Topology
from weft.topo.own import Network
from weft.topo.switch_kinds import SwitchKind


def up(
    network: "Topology | Network | str | os.PathLike[str] | Any",
    *,
    world: str = "emulated",
    switch: SwitchKind = "weft",
    program: Program | Mapping[str, Program] | None = None,
    include: Program | Sequence[Program] = (),
    define: Mapping[str, object] | Sequence[str] = (),
    paths: str | None = None,
    mtu: int = 4096,
    links: LinkKind = "veth",
    seed: int = 1,
    pcap: str | os.PathLike[str] | None = None,
    bypass_qdisc: bool | None = None,
    cpu_port: int | None = None,
    priority_queues: int | None = None,
    controller: bool = True,
    grpc_port: int | None = None,
) -> Net:
    """Return a network that is up, with its routes, while its with-block is entered.

    ::

        with weft.up(weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)) as net:
            net.host("h0").run("ping -c 1", net.host("h3").ip, check=True)

    Several networks may be up at the same time. Whichever way a block is left, nothing of its
    network stays.

    Args:
        network: what `leaf_spine`, `fat_tree`, `pods` or `single` returns; a `weft.Network`, the
            path of a network file (TOML, or of another tool), or a graph of networkx.
        world: ``emulated``, in namespaces with real packets, which needs root; or ``simulated``, in
            virtual time.
        switch: ``weft`` is the built-in switch; ``bmv2`` needs simple_switch_grpc and the emulated
            world.
        program: the P4_16 source of all switches, or of some by their names; the others run the
            fabric's. A switch with a program of one's own has no entries but those that are written
            to it. With a network file of another tool, one program is that of the switches that
            the file names none for.
        include: folders where programs' includes are looked for.
        define: macros of programs, as ``{"PORTS": 64}`` or ``["PORTS=64"]``.
        paths: the paths of the fabric's packets: ``ecmp``, ``spray`` and so on.
        mtu: the RoCE payload of collectives' packets, in bytes.
        links: ``patch`` joins switches inside the switch process, without interfaces.
        seed: of the switches' random(), routes and data.
        pcap: a folder for captures at both ends of every link, ``leaf0-spine1.pcap`` and so on, in
            the emulated world.
        bypass_qdisc: whether what the built-in switches send in the emulated world passes by their
            interfaces' queueing disciplines: a little faster, but tc has no effect there, and no
            capture sees it. By default it does so if all switches run the fabric's program.
        cpu_port: the number that switches have for the port to the controller; by default the
            network's own, which is 510 if its file names no other.
        priority_queues: the queues of each port of a switch, of priorities from 0 on: its link
            serves the packets of the greatest ``standard_metadata.priority`` first. By default the
            network's own, which is 1 if its file names no other.
        controller: False leaves the switches of the emulated world to a P4Runtime client of your
            own, at `Net.addresses`: programs of one's own are loaded, and nothing else is done.
        grpc_port: the TCP port of 127.0.0.1 where the first switch serves P4Runtime, too, and the
            next ones at the next ports.

    Raises:
        InputError: something of this makes no sense.
        MachineError: the machine lacks something that the emulated world needs.
    """
    fields: dict[str, Any] = {
        "world": world, "switch": switch, "mtu": mtu, "links": links, "seed": seed,
        **({} if paths is None else {"paths": paths}),
        **({} if priority_queues is None else {"priority_queues": priority_queues}),
    }  # fmt: skip
    by_file = is_lab(network)
    named = programs_of(program) if by_file else None
    scenario = scenario_on(network_of(network, named), "allgather", **fields)
    standing = Standing(
        None if by_file else program,
        pcap=None if pcap is None else Path(given.path("pcap", pcap, "'captures'")),
        bypass_qdisc=bypass_qdisc,
        cpu_port=cpu_port,
        controlled=given.truth("controller", controller),
        grpc_port=grpc_port,
        include_dirs=folders_of(include),
        defines=macros_of(define),
    )
    return Net(scenario, standing, fields)
