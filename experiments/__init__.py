"""Scenarios, their runs and results, reports, and the command line."""
