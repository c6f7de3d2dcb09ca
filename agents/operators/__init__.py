"""What the ranks of a fused operator compute: the operators that there are, a file each, what all
of them are, and their tiles."""
