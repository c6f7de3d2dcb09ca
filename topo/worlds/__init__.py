"""The worlds that bring a network up: of real packets, and in virtual time."""
