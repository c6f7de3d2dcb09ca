"""Where others take part in what a port does with packets, without a change to the queues.

A port may have two functions, each by its address, as a program is: machine code of
``int64(context, what, port, packet, now_ns)``, all int64, or a callback into Python
(``codegen.loading.CALLBACK``). ``port`` is the index of the port among those of all switches
(switch * port_count + number), ``packet`` that of the packet in the pool.

- `PortRecord.watcher` is told of each packet that has arrived at the port (`ARRIVED`), before any
  program sees it; that has been put into one of its queues (`QUEUED`); and that its link has taken
  out of one (`TAKEN`). Of a packet that has arrived it says by 1 that it has dealt with it and
  given it back (`pool.release`), else 0. So priority flow control (IEEE 802.1Q, clause 36) counts
  what waits of each class, sends pauses, and heeds those that arrive (`scheduling.hold`).
- `PortRecord.overflow` gets a packet that finds no place in a queue (`FULL`), and says by 1 that it
  has taken the packet over, else 0: the packet is dropped then. So packets are trimmed: it cuts the
  packet (`Packet.keep`), gives it another priority, and puts it into that queue (`queues.enqueue`).
"""

ARRIVED, QUEUED, TAKEN, FULL = range(4)
"""What a function is told."""
