"""Optcast's reduction servers: hosts that combine what ranks send them, and send back the result.

Tateiwa, "Optcast: Open-Source Aggregation Offloading for Distributed Deep Learning".
"""

from weft.agents.servers.server import ReductionServer

__all__ = ["ReductionServer"]
