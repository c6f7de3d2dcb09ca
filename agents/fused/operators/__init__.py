"""The fused operators that there are, a file each."""
