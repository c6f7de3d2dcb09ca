"""From source text to the syntax tree."""
