"""Path schemes: a module for each, or for some that are nearly alike.

Ethereal, ECMP over N pieces a flow, spraying, REPS and PLB are those of "Challenging the Need for
Packet Spraying in Large-Scale Distributed Training" (arXiv 2407.00550) and of what it compares.
"""
