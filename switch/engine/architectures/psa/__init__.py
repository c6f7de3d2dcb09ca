"""PSA in the engine."""

from weft.switch.engine.architectures.psa.architecture import PSA

ARCHITECTURE = PSA
