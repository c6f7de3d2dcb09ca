"""The built-in switches on real ports: sockets around the engine's compiled core."""
