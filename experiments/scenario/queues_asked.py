"""What is asked of the queues of switches' ports: the rows of the table of options about classes of
traffic."""

from dataclasses import dataclass

from weft.base.errors import InputError, refuse
from weft.base.option import NETWORK, SIZES, WHOLE, WHOLES, option
from weft.experiments.scenario.network_asked import NetworkAsked
from weft.switch.priority_queues import MOST_FABRIC_PRIORITIES
from weft.topo.network import Topology
from weft.topo.switch_kinds import check_kind, require


@dataclass(frozen=True)
class QueuesAsked(NetworkAsked):
    """What is asked for on which network, and which packets are served first there."""

    priority_queues: int | None = option(
        None,
        WHOLE,
        "Queues of each switch port, for priorities 0 to N-1; the greatest is served first.",
        group=NETWORK,
        default_text="1, or the network's",
        network=True,
    )
    queue_weights: tuple[int, ...] = option(
        (),
        WHOLES,
        "Shares of these queues in what is left by those of weight 0, by priority from 0 on.",
        group=NETWORK,
        default_text="all 0",
        network=True,
    )
    """By priority: 0, a queue is served before all of less priority, and before those with a
    weight; these share what is left by deficit round robin."""
    queue_rates: tuple[int, ...] = option(
        (),
        WHOLES,
        "Packets a second that leave each of them at most, 0 for what the link takes.",
        group=NETWORK,
        default_text="all 0",
        network=True,
    )
    queue_depths_bytes: tuple[int, ...] = option(
        (),
        SIZES,
        "Bound of each of them.",
        group=NETWORK,
        name="queue-depths",
        metavar="SIZE,...",
        default_text="that of --queue",
        network=True,
    )
    job_priorities: tuple[int, ...] = option(
        (),
        WHOLES,
        "Priorities of what the hosts of each job send, from the start again at the end.",
        group=NETWORK,
        name="priorities",
        default_text="by DSCP: of class selector CSn n",
    )
    """The fabric's program gives what a job's hosts send, and what switches add for them, this
    priority; where it is empty, and all other packets, that of their DSCP: the class selector
    (RFC 2474, section 4.2.2), as far as there are queues."""
    ack_priority: int | None = option(
        None,
        WHOLE,
        "Priority of acknowledgements, whosever they are.",
        group=NETWORK,
        default_text="as other packets",
    )


def check_priorities(asked: QueuesAsked, network: Topology) -> None:
    """Raise InputError for a priority that ports have no queue for, or where nothing would come of
    queues."""
    named = {
        "priorities": asked.job_priorities,
        "ack-priority": () if asked.ack_priority is None else (asked.ack_priority,),
    }
    queues = min(network.priority_queues, MOST_FABRIC_PRIORITIES)
    for name, priorities in named.items():
        for priority in priorities:
            if not 0 <= priority < queues:
                has = "one queue, of priority 0" if queues == 1 else f"priorities 0 to {queues - 1}"
                more = priority < MOST_FABRIC_PRIORITIES
                hint = f"say --priority-queues {priority + 1}" if more else "lower it"
                raise InputError(f"{name} {priority}: a port has {has}; {hint}")
    refuse(
        any(named.values()) and not network.clos and network.unmanaged,
        "priorities are what the fabric's program gives packets, and switches of "
        f"{network.name} run others: leave priorities out",
    )
    if network.queue_changes or any(named.values()):
        require(check_kind(asked.switch), ["queues that fill by priority"])
