"""Options that several commands have: what the network is like."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.base.command_line import Text

# Numbers are read by `weft.experiments.scenario.options`, which says what is wrong with one.
TopologyOption = Annotated[Text, typer.Option(help="leaf-spine, single or fat-tree.")]
Leaves = Annotated[Text, typer.Option(metavar="N", help="Leaf switches of a leaf-spine. [4]")]
Spines = Annotated[Text, typer.Option(metavar="N", help="Spine switches of a leaf-spine. [2]")]
Tensor = Annotated[
    Text,
    typer.Option(metavar="N", help="Flows of a model: ranks that share a layer. [a leaf's hosts]"),
]
MicroBatches = Annotated[
    Text, typer.Option(metavar="N", help="Flows of a model: micro-batches of a step. [1]")
]
HostsPerLeaf = Annotated[
    Text,
    typer.Option(metavar="N", help="Hosts of each leaf [2]; of --topology single: all hosts [8]."),
]
K = Annotated[
    Text, typer.Option("--k", metavar="N", help="Ports of each switch of a fat tree. [4]")
]
Tiers = Annotated[
    Text, typer.Option(metavar="N", help="Tiers of switches of a fat tree, 2 or 3. [3]")
]
Rate = Annotated[
    Text, typer.Option(help="Rate of every link. [100Mbit; 20Mbit with --switch bmv2]")
]
Oversubscription = Annotated[
    Text,
    typer.Option(
        metavar="X", help="Slower links between switches: a leaf's hosts send X times as much."
    ),
]
PlacementOption = Annotated[
    Text, typer.Option(help="Ranks on hosts: in-order, strided or random. [in-order]")
]
