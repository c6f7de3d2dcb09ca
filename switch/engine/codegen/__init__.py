"""From a program as data to Python source, and from that to a function with an address."""
