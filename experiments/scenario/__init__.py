"""What is asked for: options, the scenario that they make, its checks, and sweeps over it."""
