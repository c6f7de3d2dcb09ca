"""What other testbeds call things, for scripts that exist."""
