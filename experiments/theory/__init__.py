"""What theory says of a scenario: least times, bytes on links, the paths that flows take."""
