"""The world in virtual time: hosts, links and switches in one process, the same on every
machine."""
