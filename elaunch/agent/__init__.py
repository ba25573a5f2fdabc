"""One node: spawn, watch and stop the ranks; logs; the warm-start process."""
