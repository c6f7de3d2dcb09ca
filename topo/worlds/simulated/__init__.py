"""Virtual time: hosts, links and switches in one process, the same on every machine."""
