"""What the queues tell a trace: the one thing that a traced program cannot see itself."""

from weft.switch.engine.layout import Context, Packet, PortRecord, SwitchRecord
from weft.switch.engine.native import jit
from weft.switch.engine.runtime import write_note
from weft.switch.engine.trace_layout import QUEUE_DROP


@jit
def note_queue_drop(
    context: Context, switch: int, packet: int, queue: PortRecord, port: int
) -> None:
    """Write that a packet finds no room in a port's queue, if the packet is traced."""
    state = SwitchRecord(context.switches, switch)
    number = Packet(context.packets, packet).trace_number
    if state.trace_head != 0 and number != 0:
        packets = queue.queue_packets
        write_note(state, QUEUE_DROP, number, packet, port, packets, queue.queue_bytes, 0)
