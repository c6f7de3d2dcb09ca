"""What a controller sets on a switch and reads from it: versions of tables, and live values."""
