"""A packet's way through a program, step by step: an interpreter of BMv2 JSON, written from its
published format."""
