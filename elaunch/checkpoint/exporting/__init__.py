"""One plain file out of the shards of a checkpoint."""
