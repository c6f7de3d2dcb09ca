"""How flows get to their paths: what a path scheme is, and which one each name of ``--paths``
stands for."""
