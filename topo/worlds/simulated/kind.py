"""The simulated world as scenarios choose it; what brings networks up is loaded when one does."""

from weft.base.errors import refuse
from weft.topo.worlds.kind import Wanted, WorldKind, untraced


class Simulated(WorldKind):
    """Objects of this process, in virtual time."""

    name = "simulated"

    def check(self, wanted: Wanted) -> None:
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


WORLD = Simulated()
