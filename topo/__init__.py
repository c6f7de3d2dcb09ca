"""What the network is, as pure data, and the worlds that bring it up."""
