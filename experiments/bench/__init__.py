"""``weft bench``: what a machine does, measured beside something to compare it to."""
