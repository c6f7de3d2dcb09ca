"""Tools of Weft's developers: benchmarks, the figures of the documentation, attacks, mutants, and
pairs of benchmarks. They are in a checkout alone, not in the package that pip installs."""
