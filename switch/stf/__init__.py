"""Packet tests in the P4 community's STF format, run in process on the built-in switch.

``read_test`` reads a file into statements, ``run_test`` carries them out and gives a ``Report``.
The format is that of p4c's BMv2 runner, with a few additions; docs/p4.md describes it.
"""

from weft.switch.stf.reader import read_test
from weft.switch.stf.report import Report, StfFailure
from weft.switch.stf.run import run_test

__all__ = ["Report", "StfFailure", "read_test", "run_test"]
