"""The resharding strategies, each a module."""
