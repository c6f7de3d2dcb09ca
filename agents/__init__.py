"""What runs on hosts: RoCEv2, reliable transport and collectives, all sans-I/O, and the drivers that run them."""
