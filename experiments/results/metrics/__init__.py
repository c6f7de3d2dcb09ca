"""The metrics of Weft's own: every module has a table of them, ``METRICS``."""
