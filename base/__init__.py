"""What every other package stands on: errors, units, caches, files, documents, child processes."""
