"""What runs on hosts: RoCEv2, reliable transport and collectives, and what drives them."""
