"""v1model: its blocks, its externs, its checksums, and ``include/v1model.p4``."""

from weft.switch.compiler.architectures.v1model.architecture import V1Model

ARCHITECTURE = V1Model
