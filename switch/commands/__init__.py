"""``weft p4c``, ``weft stf`` and ``weft switch``: P4 programs and switches without a network."""
