"""Scenarios, the command line, results and reports."""
