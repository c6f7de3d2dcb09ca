"""What the network is (pure data) and the worlds that bring it up."""
