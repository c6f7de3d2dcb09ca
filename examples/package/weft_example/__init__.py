"""What another package adds to Weft: a module for each kind of thing."""
