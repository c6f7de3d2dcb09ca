"""What the queues tell a trace: the one thing that a traced program cannot see itself."""

from weft.switch.engine.dataplane.layout import Context, Packet, QueueRecord, SwitchRecord
from weft.switch.engine.dataplane.runtime import write_note
from weft.switch.engine.dataplane.trace_layout import PRIORITY_DROP, QUEUE_DROP
from weft.switch.engine.native.compiled import jit


@jit
def note_queue_drop(
    context: Context, switch: int, packet: int, queue: QueueRecord, port: int
) -> None:
    """Write that a packet finds no room in a port's queue, if the packet is traced."""
    state = SwitchRecord(context.switches, switch)
    number = Packet(context.packets, packet).trace_number
    if state.trace_head != 0 and number != 0:
        packets = queue.packets
        write_note(state, QUEUE_DROP, number, packet, port, packets, queue.bytes, 0)


@jit
def note_priority_drop(context: Context, switch: int, packet: int, priority: int) -> None:
    """Write that a packet's priority has no queue, if the packet is traced."""
    state = SwitchRecord(context.switches, switch)
    number = Packet(context.packets, packet).trace_number
    if state.trace_head != 0 and number != 0:
        write_note(state, PRIORITY_DROP, number, packet, priority, context.priorities, 0, 0)
