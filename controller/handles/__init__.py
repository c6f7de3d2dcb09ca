"""Switches as scripts handle them, by the names of their programs."""
