"""What theory says of a scenario: least times, bytes on links, and the paths that flows take."""
