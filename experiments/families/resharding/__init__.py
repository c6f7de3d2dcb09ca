"""Cross-mesh resharding: bring tensors that are sharded over one mesh of devices to another."""
