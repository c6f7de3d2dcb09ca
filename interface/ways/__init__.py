"""A packet's way through a network, and all ways that it may take: nothing is sent."""
