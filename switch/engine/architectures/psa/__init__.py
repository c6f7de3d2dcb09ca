"""PSA in the engine."""
