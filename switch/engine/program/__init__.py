"""A BMv2 JSON program as typed data, read and checked."""
