"""Congestion controls: what governs how many packets a connection has under way."""
