"""The built-in switches on real ports: AF_PACKET sockets around the engine's compiled core."""
