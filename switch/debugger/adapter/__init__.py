"""The debug adapter protocol, by which editors debug P4 programs."""
