"""Fused computation and communication: operators on ranks, each fused and unfused."""
