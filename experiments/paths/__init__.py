"""How flows get to their paths: what ``--paths`` names, and what a scheme is."""
