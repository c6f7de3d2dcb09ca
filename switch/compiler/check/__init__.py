"""Checks of what a program may not do: of types, calls and the flow of control."""
