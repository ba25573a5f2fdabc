"""What bench/soak.py is made of: the training, the faults, what is seen from outside, and the invariants (pure)."""
