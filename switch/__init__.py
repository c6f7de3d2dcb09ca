"""The built-in P4 switch: compiler, engine, P4Runtime server and real-time ports."""
