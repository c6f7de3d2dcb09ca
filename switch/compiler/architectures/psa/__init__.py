"""PSA: its six blocks, its externs, and ``include/psa.p4``."""

from weft.switch.compiler.architectures.psa.architecture import PortableSwitch

ARCHITECTURE = PortableSwitch
