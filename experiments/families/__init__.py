"""Families: the kinds of work that a network can be given, a folder each."""
