"""Operators that send each part of their result as soon as it is computed."""
