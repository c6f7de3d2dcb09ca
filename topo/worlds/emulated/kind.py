"""The emulated world as scenarios choose it; what brings networks up is loaded when one does."""

from weft.base.errors import InputError, refuse
from weft.base.signals import signals_held
from weft.base.units import listed
from weft.topo.faults import Fault, emulated_lines
from weft.topo.network import Topology
from weft.topo.switch_kinds import check_kind, require
from weft.topo.worlds.kind import Wanted, WorldKind, untraced
from weft.topo.worlds.world import NetworkOptions, World

MAX_HOSTS = 512
"""The most hosts that are emulated: each is a namespace, a shell and a rank process."""


class Emulated(WorldKind):
    """Namespaces and veth pairs of this machine, in which real packets take real time."""

    name = "emulated"
    has_real_time = True
    takes_machine = True
    rank_bytes = 48 << 20

    def network(self, topology: Topology, options: NetworkOptions) -> World:
        """See `WorldKind.network`."""
        with signals_held():  # a Ctrl-C would be lost at the wrong moment of an import
            from weft.base import native_code
            from weft.topo.worlds.emulated.world import EmulatedWorld

        native_code.give_way()
        return EmulatedWorld(
            topology,
            options.switch,
            path_mtu=options.path_mtu,
            seed=options.seed,
            pcap_dir=options.pcap,
            bypass_qdisc=options.bypass_qdisc,
            links=options.links,
            algorithms=options.algorithms,
            meanwhile=options.meanwhile,
            stands=options.stands,
            controlled=options.controlled,
            grpc_port=options.grpc_port,
        )

    def check_hosts(self, hosts: int) -> None:
        """See `WorldKind.check_hosts`."""
        refuse(
            hosts > MAX_HOSTS,
            f"{hosts} hosts cannot be emulated on one machine (at most {MAX_HOSTS}, each "
            "with processes of its own): choose fewer, or --world simulated",
        )

    def check_fault(self, fault: Fault, switch: str) -> None:
        """See `WorldKind.check_fault`."""
        if fault.emulated_problem:
            raise InputError(
                f"fault {str(fault)!r}: the emulated world's switches cannot "
                f"{fault.emulated_problem}; they know {listed(emulated_lines(), 'and')}. World "
                "'simulated' knows all faults"
            )
        if fault.needs:
            require(check_kind(switch), fault.needs)

    def check(self, wanted: Wanted, network: Topology) -> None:
        """See `WorldKind.check`."""
        refuse(
            wanted.cores != 1,
            f"cores {wanted.cores}: the emulated world's processes take the cores that there are; "
            "choose world 'simulated', or leave cores out",
        )
        if wanted.links == "patch":
            require(check_kind(wanted.switch), ["patch links"])
        if wanted.trace and wanted.switch != "weft":
            raise untraced(wanted.trace)


WORLD = Emulated()
