"""Collectives on the transport: sans-I/O state machines for one rank each."""
