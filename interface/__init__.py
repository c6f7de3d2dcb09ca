"""The Python interface: networks that are up, for scripts, tests and notebooks."""
