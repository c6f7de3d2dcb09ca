"""A switch that runs a program by interpreting its BMv2 JSON, one step after the other.

See docs/simple_switch.md of p4lang/behavioral-model, "after-ingress" and "after-egress pseudocode".
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.base.errors import RunError
from weft.switch.engine.control.contents import Contents
from weft.switch.engine.control.entities import ActionCall, Replica
from weft.switch.engine.control.tables import Identity
from weft.switch.engine.program.program import KeyField, Program, Table
from weft.switch.engine.trace.entries import describe_entry, no_queue, ports_of
from weft.switch.interpreter.architectures.registry import own_passage
from weft.switch.interpreter.description import Description
from weft.switch.interpreter.hashes import computed
from weft.switch.interpreter.memory import Memory
from weft.switch.interpreter.packet import Packet
from weft.switch.interpreter.parsing import Parser, deparse, headers_of
from weft.switch.interpreter.primitives import Primitives, Steps, input_of
from weft.switch.interpreter.steps import Choice, Entered, Step
from weft.switch.interpreter.surroundings import Surroundings
from weft.switch.interpreter.tables import Members, led_to, look_up

Json = Any

MOST_REPEATS = 256
"""How often one packet may be resubmitted and recirculated before it is dropped."""

MOST_NODES = 1 << 16
"""How many nodes of a pipeline a packet may go through."""

# standard_metadata.instance_type
NORMAL, INGRESS_CLONE, EGRESS_CLONE, COALESCED, RECIRCULATED, REPLICATION, RESUBMITTED = range(7)
KINDS = (
    "normal", "ingress clone", "egress clone", "coalesced", "recirculated", "replica",
    "resubmitted",
)  # fmt: skip


@dataclass(frozen=True)
class Sent(Step):
    """A packet leaves the switch."""

    port: int = 0
    frame: bytes = b""


@dataclass
class Interpreter:
    """A switch with a program, its tables and its memory.

    Packets meet empty queues and take no time.
    """

    program: Program
    contents: Contents
    memory: Memory
    around: Surroundings = field(default_factory=Surroundings)

    def __post_init__(self) -> None:
        self.description = Description(self.program.document)
        pipelines = self.program.document["pipelines"]
        self.first: dict[str, str | None] = {one["name"]: one["init_table"] for one in pipelines}
        """The first node of each pipeline."""
        self.nodes: dict[str, tuple[str, Json]] = {
            node["name"]: (kind, node)
            for one in pipelines
            for kind in ("tables", "conditionals", "action_calls")
            for node in one.get(kind) or ()
        }

    def run(self, port: int, frame: bytes) -> Steps:
        """Yield the steps of a packet that comes in, and of all that is made of it."""
        yield from Passage(self, port, frame).run()


class Passage:
    """One packet's way through a switch, and that of its copies."""

    def __init__(self, switch: Interpreter, port: int, frame: bytes) -> None:
        self.switch, self.program = switch, switch.program
        self.around, self.memory = switch.around, switch.memory
        self.port, self.frame = port, frame
        self.own = own_passage(self.program.architecture.name)
        """What becomes of packets in an architecture other than v1model."""
        self.copies = 0
        self.passes = 0
        self.queues: dict[int, deque[Packet]] = {}
        self.again: deque[Iterator[Step]] = deque()
        """What comes before the queues: recirculated packets, and those to ports that are none."""

    def run(self) -> Steps:
        """Do all there is to do, in the order in which the engine does it."""
        packet = Packet(self.switch.description, self.frame)
        packet["ingress_port"] = self.port
        packet["ingress_global_timestamp"] = self.around.now_us
        yield from self.ingress(packet)
        while self.again or self.queues:
            if self.again:
                yield from self.again.popleft()
                continue
            port = min(self.queues)
            while queue := self.queues[port]:
                first = max(queue, key=lambda packet: packet["priority"])
                queue.remove(first)
                yield from self.egress(first, port, exists=True)
            del self.queues[port]

    def runner(self, packet: Packet) -> Primitives:
        """Return what runs primitives on a packet."""
        around = self.around
        return Primitives(self.program, packet, self.memory, around.drop_port, around.now_us)

    def count_pass(self) -> None:
        """Raise RunError where packets multiply without end."""
        self.passes += 1
        if self.passes > self.around.most_passes:
            raise RunError(
                f"{self.around.most_passes} passes through the pipelines, and no end: the program "
                "recirculates, resubmits or clones packets that multiply"
            )

    # -- ingress

    def parse(self, packet: Packet, number: int = 0) -> Steps:
        """Parse a packet's frame."""
        yield from Parser(packet, self.runner(packet), self.switch.contents, number).run()

    def received(self, packet: Packet) -> Step:
        """Return the step that a packet comes to ingress."""
        kind = packet["instance_type"]
        more = {"as": KINDS[kind], "times": packet.repeats} if kind else {}
        told = {"port": packet["ingress_port"], "bytes": len(packet.frame), **more}
        return Step("received", packet, told)

    def ingress(self, packet: Packet) -> Steps:
        """Run ingress, again for as long as the packet is resubmitted, and do what it decided."""
        if self.own is not None:
            yield from self.own.ingress(self, packet)
            return
        while True:
            self.count_pass()
            yield self.received(packet)
            yield from self.parse(packet)
            yield from self.verify_checksums(packet)
            yield from self.pipeline("ingress", packet)
            yield from self.digest(packet)
            if packet.clone is not None:
                yield from self.clone_ingress(packet, *packet.clone)
                packet.clone = None
            if not packet.resubmit:
                break
            if (yield from self.is_too_often(packet, "resubmitted", "ingress")):
                return
            kept = packet.resubmit
            yield Step("resubmitted", packet, {"field_list": kept})
            self.start_again(packet, kept, RESUBMITTED)
        yield from self.after_ingress(packet)

    def after_ingress(self, packet: Packet) -> Steps:
        """Multicast, drop or queue a packet."""
        group, port = packet["mcast_grp"], packet["egress_spec"]
        if group:
            packet["instance_type"] = REPLICATION
            found = self.switch.contents.replication.groups.get(group)
            replicas = found.replicas if found else ()
            yield Step("multicast", packet, {"group": group, "to": ports_of(replicas)})
            if not replicas:
                yield self.dropped(packet, "ingress", f"no multicast group {group}")
            yield from self.replicate(packet, replicas, 0)
        elif port == self.around.drop_port:
            yield self.dropped(packet, "ingress", f"egress_spec is the drop port {port}")
        else:
            packet["instance_type"] = NORMAL
            yield Step("to_port", packet, {"port": port})
            yield from self.to_port(packet, port)

    def dropped(self, packet: Packet, where: str, why: str) -> Step:
        """Return the step that a packet is dropped."""
        return Step("dropped", packet, {"where": where, "why": why})

    def is_too_often(
        self, packet: Packet, what: str, where: str
    ) -> Generator[Step, int | None, bool]:
        """Count one more time that a packet starts over; drop it if that is too often."""
        packet.repeats += 1
        if packet.repeats > MOST_REPEATS:
            yield self.dropped(packet, where, f"{what} {MOST_REPEATS} times")
            return True
        return False

    def start_again(self, packet: Packet, field_list: int, kind: int) -> None:
        """Clear what a packet does not keep when it goes to the parser again."""
        packet.forget_requests()
        packet.clear_metadata(field_list)
        packet["instance_type"] = kind
        packet.start()

    def digest(self, packet: Packet) -> Steps:
        """Keep the sample of a digest for the controller."""
        if not packet.digest:
            return
        learned = self.program.learn_lists.get(packet.digest)
        yield Step("digest", packet, {"digest": learned.name if learned else str(packet.digest)})
        if learned is None:
            return
        lists = self.program.document["learn_lists"]
        items = next(item for item in lists if int(item["id"]) == packet.digest)["elements"]
        values = tuple(
            int(item["value"], 16)
            if item["type"] == "hexstr"
            else packet.read(tuple(item["value"]))
            & ((1 << packet.program.field(tuple(item["value"])).width) - 1)
            for item in items
        )
        self.memory.learn(packet.digest, values)

    # -- copies

    def duplicate(self, packet: Packet) -> Packet:
        """Return a copy of a packet, with a number of its own."""
        self.copies += 1
        return packet.duplicate(self.copies)

    def replicate(self, packet: Packet, replicas: tuple[Replica, ...], keep: int) -> Steps:
        """Queue the copies of a multicast group or a clone session."""
        for replica in replicas:
            self.count_pass()
            made = self.duplicate(packet)
            made["egress_rid"] = replica.instance
            made.keep = keep or made.keep
            yield from self.to_port(made, replica.port)

    def new_packet(self, packet: Packet) -> Packet:
        """Return a packet as ingress got one, and not parsed yet."""
        return Packet(
            self.switch.description, packet.frame, keep=packet.keep, repeats=packet.repeats
        )

    def clone_ingress(self, packet: Packet, session: int, field_list: int) -> Steps:
        """Copy the packet as ingress got it, parsed anew."""
        made = self.new_packet(packet)
        made["ingress_port"] = packet["ingress_port"]
        for _ in self.parse(made):
            pass  # its steps are those of the packet before
        yield from self.send_clones(packet, made, session, field_list, INGRESS_CLONE)

    def clone_egress(self, packet: Packet, session: int, field_list: int) -> Steps:
        """Copy the packet as egress leaves it, for egress again."""
        made = packet.duplicate(0)
        yield from self.send_clones(packet, made, session, field_list, EGRESS_CLONE)

    def send_clones(
        self, packet: Packet, made: Packet, session: int, field_list: int, kind: int
    ) -> Steps:
        """Queue the copies of a session, with the fields that a list keeps of the packet."""
        found = self.switch.contents.replication.sessions.get(session)
        replicas = found.replicas if found else ()
        yield Step("cloned", packet, {"session": session, "to": ports_of(replicas)})
        made.clear_metadata(0)
        for place in packet.program.field_lists.get(field_list, ()):
            made.values[place] = packet.values.get(place, 0)
        made["instance_type"] = kind
        yield from self.replicate(made, replicas, found.packet_length_bytes if found else 0)

    # -- egress

    def to_port(self, packet: Packet, port: int) -> Steps:
        """Put a packet into the queue of a port. One to a port that does not exist goes through
        egress all the same."""
        priority = packet["priority"]
        packet["enq_timestamp"] = self.around.now_us
        if priority >= self.around.priorities:
            yield self.dropped(packet, "queue", no_queue(priority, self.around.priorities))
        elif self.around.has_port(port):
            self.queues.setdefault(port, deque()).append(packet)
        else:
            self.again.append(self.egress(packet, port, exists=False))

    def begin_egress(self, packet: Packet, port: int) -> Step:
        """Set what egress is told of a packet, and return the step that it comes there."""
        packet["egress_global_timestamp"] = self.around.now_us
        packet["qid"] = packet["priority"]
        packet["egress_port"] = port
        packet["egress_spec"] = self.around.drop_port + 1
        packet["packet_length"] = packet.length
        kind, rid = packet["instance_type"], packet["egress_rid"]
        more = ({"as": KINDS[kind]} if kind else {}) | ({"egress_rid": rid} if rid else {})
        waits = {"enq_qdepth": 0, "deq_qdepth": 0, "waited_us": 0}
        return Step("egress", packet, {"port": port, "bytes": packet.length, **waits, **more})

    def egress(self, packet: Packet, port: int, *, exists: bool) -> Steps:
        """Run egress and the deparser, and send the packet."""
        if self.own is not None:
            yield from self.own.egress(self, packet, port, exists=exists)
            return
        self.count_pass()
        yield self.begin_egress(packet, port)
        yield from self.pipeline("egress", packet)
        if packet.clone is not None:
            yield from self.clone_egress(packet, *packet.clone)
            packet.clone = None
        if packet["egress_spec"] == self.around.drop_port:
            why = f"egress_spec is the drop port {self.around.drop_port}"
            yield self.dropped(packet, "egress", why)
            return
        self.update_checksums(packet)
        yield Step("block", packet, {"block": "deparser"})
        yield from deparse(packet, self.runner(packet))
        header = headers_of(packet)
        told = {"header_bytes": len(header), "payload_bytes": len(packet.payload)}
        yield Step("deparsed", packet, told)
        yield from self.leave(packet, header + packet.payload, port, exists=exists)

    def leave(self, packet: Packet, frame: bytes, port: int, *, exists: bool) -> Steps:
        """Recirculate a deparsed packet, or send it."""
        frame = frame[: packet.keep or None]
        if packet.recirculate:  # whole: truncate() is for what is sent
            if (yield from self.is_too_often(packet, "recirculated", "egress")):
                return
            kept = packet.recirculate
            told = {"field_list": kept, "bytes": len(frame)}
            yield Step("recirculated", packet, told)
            packet.frame = frame
            self.start_again(packet, kept, RECIRCULATED)
            self.again.append(self.ingress(packet))
        elif not exists:
            yield self.dropped(packet, "port", f"there is no port {port}")
        else:
            frame = frame[: packet.truncate]
            told = {"port": port, "bytes": len(frame)}
            yield Sent("sent", packet, told, port=port, frame=frame)

    # -- checksums

    def checksum(self, packet: Packet, item: Json) -> int | None:
        """Return what a checksum is to be, or None where its condition does not hold."""
        if item.get("if_cond") is not None and not self.runner(packet).number(item["if_cond"]):
            return None
        if item.get("type") == "ipv4":  # of its whole header, without itself
            name, own = item["target"]
            if not packet.is_valid(name):
                return None
            inputs = [
                {"type": "hexstr", "value": "0", "bitwidth": one.width}
                if one.name == own
                else {"type": "field", "value": [name, one.name]}
                for one in packet.program.headers[name].values()
            ]
            return computed("csum16", input_of(packet, inputs))
        calculation = packet.program.calculations[item["calculation"]]
        custom = self.memory.crcs.get(calculation["name"])
        return computed(calculation["algo"], input_of(packet, calculation["input"]), custom)

    def verify_checksums(self, packet: Packet) -> Steps:
        """Set ``checksum_error`` where a checksum is wrong: all bits of the result count."""
        packet["checksum_error"] = 0
        for item in self.program.document.get("checksums") or ():
            if item.get("verify", True) and packet.is_valid(item["target"][0]):
                value = self.checksum(packet, item)
                if value is not None and value != packet.bits(*item["target"])[0]:
                    packet["checksum_error"] = 1
        if packet["checksum_error"]:
            yield Step("checksum_error", packet)

    def update_checksums(self, packet: Packet) -> None:
        """Store the checksums that are to be updated."""
        for item in self.program.document.get("checksums") or ():
            if item.get("update", True):
                value = self.checksum(packet, item)
                if value is not None:
                    packet.write(tuple(item["target"]), value)
        packet.written.clear()

    # -- pipelines

    def pipeline(self, name: str, packet: Packet) -> Steps:
        """Go through the nodes of a pipeline."""
        packet.exited = False
        yield Step("block", packet, {"block": name})
        node = self.switch.first.get(name)
        for _ in range(MOST_NODES):
            if node is None or packet.exited:
                break
            node = yield from self.node(*self.switch.nodes[node], packet)

    def node(self, kind: str, item: Json, packet: Packet) -> Any:
        """Run one node; return the next."""
        told = {"node": item["name"], "kind": kind}
        yield Step("node", packet, told, item.get("source_info"))
        match kind:
            case "conditionals":
                holds = bool(self.runner(packet).number(item["expression"]))
                source = item.get("source_info") or {}
                what = source.get("source_fragment") or item["name"]
                yield Step("condition", packet, {"condition": what, "holds": holds}, source)
                return item.get("true_next" if holds else "false_next")
            case "action_calls":
                action = packet.program.actions[item["action_id"]]
                yield from self.action(packet, ActionCall(action["name"]))
                return item.get("next_node")
        return (yield from self.table(self.program.tables[item["name"]], item, packet))

    def key(self, one: KeyField, packet: Packet) -> int:
        """Return the value of a field of a table's key, without sign, under its mask."""
        mask = (1 << one.width) - 1
        value = self.runner(packet).number({"type": "field", "value": one.target})
        return value & (mask if one.mask is None else mask & one.mask)

    def table(self, table: Table, item: Json, packet: Packet) -> Any:
        """Apply a table; return the next node."""
        values = [self.key(one, packet) for one in table.keys]
        found = look_up(table, self.switch.contents, values)
        key = {one.name: hex(value) for one, value in zip(table.keys, values, strict=True)}
        told: dict[str, Any] = {"table": table.name, "hit": found is not None, "key": key}
        if found is not None:
            told["entry"] = describe_entry(self.program, table, found[1])
        yield Step("table", packet, told, item.get("source_info"))
        self.note_hit(table, packet, found and found[0])
        state = self.switch.contents.tables[table.name]
        wanted = found[1].target if found else state.default_target or state.default
        target = led_to(table, self.switch.contents, wanted)
        if isinstance(target, Members):
            target = yield from self.member(table, target, packet, item)
        if target is not None:
            if table.counting and target.action in [item.name for item in table.counting]:
                self.memory.count((table.name, found and found[0]), packet.ingress_length)
            yield from self.action(packet, target)
        following, usual = table.next_nodes, table.miss_next
        if "__HIT__" in following or "__MISS__" in following:
            return following.get("__HIT__" if found else "__MISS__", usual)
        return usual if target is None else following.get(target.action, usual)

    def note_hit(self, table: Table, packet: Packet, entry: Identity | None) -> None:
        """Count the hit or miss, and with the table's own counter and meter."""
        size, cell = packet.ingress_length, (table.name, entry)
        self.memory.look_up(table, entry)
        if table.counter_base is not None and table.counting is None:
            self.memory.count(cell, size)
        meter = table.meter
        if meter is not None and entry is not None:
            entries = self.program.document["meter_arrays"]
            target = next(one for one in entries if one["name"] == meter.name)["result_target"]
            packet.write(tuple(target), self.memory.mark(meter, cell, size, self.around.now_us))

    def member(self, table: Table, members: Members, packet: Packet, item: Json) -> Any:
        """Return the action of the member of a group that is chosen, or None of an empty one."""
        if not members.calls:
            return None
        assert table.profile is not None
        algorithm, inputs = table.profile.algorithm, table.profile.inputs
        assert algorithm is not None
        usual = computed(algorithm, input_of(packet, inputs)) % len(members.calls)
        chosen = yield Choice(
            "choice", packet, {"choice": "member", "table": table.name, "of": list(members.names)},
            item.get("source_info"), alternatives=members.calls, usual=usual,
        )  # fmt: skip
        return members.calls[usual if chosen is None else chosen]

    def action(self, packet: Packet, call: ActionCall) -> Steps:
        """Run an action with its parameters."""
        entry = packet.program.action_names[call.action]
        names = [item["name"] for item in entry["runtime_data"]]
        arguments = dict(zip(names, map(hex, call.params), strict=True))
        told = {"action": call.action, "arguments": arguments}
        given = list(call.params)
        yield Entered("action", packet, told, entry.get("source_info"), given)
        yield from self.runner(packet).action(entry["primitives"], given)


def follow(steps: Steps, choose: Callable[[Choice], int]) -> Iterator[Step]:
    """Yield steps, with every choice made by a function."""
    answer: int | None = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        yield step
        answer = choose(step) if isinstance(step, Choice) else None
