"""Path schemes: each has a module, and schemes that are nearly alike share one.

Ethereal, ECMP over N pieces a flow, spraying, REPS and PLB are those of "Challenging the Need for
Packet Spraying in Large-Scale Distributed Training" (arXiv 2407.00550) and of the works that it
compares itself with.
"""
