"""The P4Runtime server of the built-in switch (P4Runtime specification 1.4)."""
