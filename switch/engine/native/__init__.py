"""How the engine's code reaches memory and computes: compiled, and on Python's own integers."""
