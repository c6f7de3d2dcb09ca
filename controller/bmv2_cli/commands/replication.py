"""Commands about multicast groups, their nodes, and mirroring."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from weft.controller.bmv2_cli.command import Command, exactly
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.bmv2_cli.values import whole_number

_MOST_PORT = 511
_MOST_LAG = 255


def _numbers(words: Sequence[str], what: str, most: int) -> list[int]:
    numbers = sorted(whole_number(word, what, most) for word in words)
    for one, other in pairwise(numbers):
        if one == other:
            raise CommandError(f"Error: Found duplicate {what} number '{one}'")
    return numbers


def _ends(words: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the ports of a node, and the LAGs behind them."""
    at = words.index("|") if "|" in words else len(words)
    return (
        _numbers(words[:at], "port", _MOST_PORT),
        _numbers(words[at + 1 :], "lag", _MOST_LAG),
    )


def _map(ports: Sequence[int]) -> str:
    """Return ports as a map, the last one first."""
    return (
        "".join("1" if port in ports else "0" for port in reversed(range(max(ports) + 1)))
        if (ports)
        else ""
    )


def mgrp_create(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    group = whole_number(words[0], "multicast group id")
    yield f"Creating multicast group {group}"
    switch.replication.create_group(group)


def mgrp_destroy(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    group = whole_number(words[0], "multicast group id")
    yield f"Destroying multicast group {group}"
    switch.replication.destroy_group(group)


def node_create(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    rid, (ports, lags) = whole_number(words[0], "rid"), _ends(words[1:])
    yield f"Creating node with rid {rid} , port map {_map(ports)} and lag map {_map(lags)}"
    yield f"node was created with handle {switch.replication.create_node(rid, ports, lags)}"


def node_create_with_xid(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    whole_number(words[1], "xid")
    raise CommandError(
        "Error: nodes with exclusion ids are not there in this switch: use mc_node_create, and "
        "drop at egress what must not go back"
    )


def node_update(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    handle, (ports, lags) = whole_number(words[0], "node handle"), _ends(words[1:])
    yield f"Updating node {handle} with port map {_map(ports)} and lag map {_map(lags)}"
    switch.replication.update_node(handle, ports, lags)


def node_associate(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    group = whole_number(words[0], "multicast group id")
    handle = whole_number(words[1], "node handle")
    yield f"Associating node {handle} to multicast group {group}"
    switch.replication.associate(group, handle)


def node_dissociate(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    group = whole_number(words[0], "multicast group id")
    handle = whole_number(words[1], "node handle")
    yield f"Dissociating node {handle} from multicast group {group}"
    switch.replication.dissociate(group, handle)


def node_destroy(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    handle = whole_number(words[0], "node handle")
    yield f"Destroying node {handle}"
    switch.replication.destroy_node(handle)


def set_lag_membership(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    lag, ports = whole_number(words[0], "lag index", _MOST_LAG), words[1:]
    members = _numbers(ports, "lag", _MOST_PORT)
    yield f"Setting lag membership: {lag} <- {_map(members)}"
    switch.replication.set_lag(lag, members)


def mc_dump(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    layout = switch.replication.layout()
    yield "=========="
    yield "MC ENTRIES"
    for group, nodes in sorted(layout.groups.items()):
        yield "**********"
        yield f"mgrp({group})"
        for handle in nodes:
            node = layout.nodes[handle]
            ports, lags = (", ".join(map(str, one)) for one in (node.ports, node.lags))
            yield f"  -> (L1h={handle}, rid={node.rid}) -> (ports=[{ports}], lags=[{lags}])"
    yield "=========="
    yield "LAGS"
    for lag, members in sorted(layout.lags.items()):
        yield f"lag({lag}) -> ports=[{', '.join(map(str, members))}]"
    yield "=========="


def mirroring_add(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    session = whole_number(words[0], "mirror_id")
    switch.replication.mirror(session, whole_number(words[1], "egress_port", _MOST_PORT))
    yield from ()


def mirroring_add_mc(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    session = whole_number(words[0], "mirror_id")
    switch.replication.mirror(session, None, whole_number(words[1], "mgrp"))
    yield from ()


def mirroring_delete(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    switch.replication.remove_mirror(whole_number(words[0], "mirror_id"))
    yield from ()


def mirroring_get(switch: CommandSwitch, words: list[str]) -> Iterator[str]:
    group, port = switch.replication.mirror_of(whole_number(words[0], "mirror_id"))
    yield f"MirroringSessionConfig(port={port}, mgid={group})"


COMMANDS = (
    exactly("mc_mgrp_create", "<group id>", "Make a multicast group without nodes.", mgrp_create),
    exactly("mc_mgrp_destroy", "<group id>", "Delete a multicast group.", mgrp_destroy),
    Command("mc_node_create", "<rid> <ports, with spaces between> [| LAGs]",
            "Make a node, which copies to ports with a replication id.", node_create, 1),
    Command("mc_node_create_with_xid", "<rid> <xid> <ports, with spaces between>",
            "Make a node with an exclusion id.", node_create_with_xid, 2),
    Command("mc_node_update", "<node handle> <ports, with spaces between> [| LAGs]",
            "Give a node other ports.", node_update, 2),
    exactly("mc_node_associate", "<group id> <node handle>", "Add a node to a group.",
            node_associate),
    exactly("mc_node_dissociate", "<group id> <node handle>", "Take a node out of a group.",
            node_dissociate),
    exactly("mc_node_destroy", "<node handle>", "Delete a node.", node_destroy),
    Command("mc_set_lag_membership", "<lag> <ports, with spaces between>",
            "Set the ports of a LAG.", set_lag_membership, 2),
    exactly("mc_dump", "", "The multicast groups and their nodes.", mc_dump),
    exactly("mirroring_add", "<mirror id> <egress port>",
            "Let clones of a session leave at a port.", mirroring_add),
    exactly("mirroring_add_mc", "<mirror id> <group id>",
            "Let clones of a session go where a multicast group's copies go.", mirroring_add_mc),
    exactly("mirroring_delete", "<mirror id>", "Let clones of a session go nowhere.",
            mirroring_delete),
    exactly("mirroring_get", "<mirror id>", "Where clones of a session go.", mirroring_get),
)  # fmt: skip
