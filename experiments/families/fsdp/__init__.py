"""FSDP interleaving: Allgathers and Reduce-Scatters of a model's layers, beside each other."""
