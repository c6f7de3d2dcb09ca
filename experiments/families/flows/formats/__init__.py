"""Forms of files of flows, a module each."""
