"""Architectures that programs are compiled for, a folder each."""
