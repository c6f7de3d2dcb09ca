"""The simulated world as scenarios choose it; what brings networks up is loaded when one does."""

from weft.base.errors import InputError, refuse
from weft.topo.faults import Outage, PacketFault
from weft.topo.network import Topology
from weft.topo.worlds.kind import Wanted, WorldKind, untraced
from weft.topo.worlds.simulated.cut import cut
from weft.topo.worlds.world import NetworkOptions, World


class Simulated(WorldKind):
    """Objects of this process, in virtual time."""

    name = "simulated"

    def network(self, topology: Topology, options: NetworkOptions) -> World:
        """See `WorldKind.network`."""
        if options.pcap is not None:
            raise InputError(
                f"pcap {str(options.pcap)!r}: the simulated world has no interfaces to capture at; "
                "use world='emulated'"
            )
        what = "grpc_port" if options.grpc_port is not None else "controller=False"
        refuse(
            options.grpc_port is not None or not options.controlled,
            f"{what}: in the simulated world switches are in this process, where no client of "
            "yours reaches them; use world='emulated'",
        )
        from weft.topo.worlds.simulated.world import SimulatedWorld

        return SimulatedWorld(
            topology,
            seed=options.seed,
            path_mtu=options.path_mtu,
            cpu_ports=options.stands,
            code=options.code,
            payload=options.payload,
            cores=options.cores,
            keep=options.keep,
        )

    def check(self, wanted: Wanted, network: Topology) -> None:
        """See `WorldKind.check`."""
        refuse(
            wanted.switch != "weft",
            f"switch {wanted.switch!r} does not run in the simulated world: that world's switch "
            "is the built-in one, weft; or choose world 'emulated'",
        )
        refuse(
            wanted.links == "patch",
            "links 'patch' is for the emulated world: in the simulated, all are; leave links out",
        )
        refuse(
            wanted.pcap,
            "pcap captures the emulated world's links; the simulated has none",
        )
        if wanted.trace:
            raise untraced(wanted.trace)
        if wanted.cores > 1:
            cut(network, wanted.cores)
        for fault in wanted.faults if wanted.cores > 1 else ():
            counted = isinstance(fault, Outage) and fault.after is not None
            if counted or isinstance(fault, PacketFault):
                raise InputError(
                    f"fault {str(fault)!r} counts packets, which several cores do in no one "
                    "order: leave cores out, or let the fault begin at a time (at=)"
                )

    def cores(self, wanted: Wanted, network: Topology) -> int:
        """See `WorldKind.cores`."""
        return wanted.cores if cut(network, wanted.cores).window_ns else 1


WORLD = Simulated()
