"""Where the points of a sweep run: engines, each an adapter to the standard library's Executor."""
