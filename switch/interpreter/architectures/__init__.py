"""What becomes of packets in architectures other than v1model."""
