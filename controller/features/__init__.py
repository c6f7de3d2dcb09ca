"""What the switches do beside each other: a P4 feature a module, with its planner and counters."""
