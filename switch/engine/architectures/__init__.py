"""What is one architecture's own in the engine."""
