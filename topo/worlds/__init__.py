"""The worlds that bring a network up: one with real packets, and one in virtual time."""
