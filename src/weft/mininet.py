"""What Mininet scripts may import from Weft: switches in place of BMv2's, with the arguments of the
P4 tutorials' and BMv2's own classes, and a host.

``from weft.mininet import P4RuntimeSwitch`` takes the place of ``from p4runtime_switch import
P4RuntimeSwitch``. A file with ``from weft.mininet import switches, hosts`` in it is one for
``mn --custom``.
"""

from weft.interface.mininet_switches import (
    Bmv2Switch,
    P4Host,
    P4RuntimeSwitch,
    P4Switch,
    hosts,
    switches,
)

__all__ = ["Bmv2Switch", "P4Host", "P4RuntimeSwitch", "P4Switch", "hosts", "switches"]
