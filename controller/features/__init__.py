"""What the switches do beside each other: each P4 feature is a module, with its planner and
counters."""
