"""p4-utils' Python API, by its names, on networks of Weft."""
