"""The commands, a module for each kind of thing that they are about."""
