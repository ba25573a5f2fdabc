"""What a checkpoint directory says of itself, without torch: manifests, sums, claims, what is there and what may go."""
