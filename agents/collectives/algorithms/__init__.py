"""Collective algorithms: a module for each, or for some that are nearly alike."""
