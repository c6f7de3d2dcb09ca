"""``weft bench``: it measures what a machine does, beside something to compare that to."""
