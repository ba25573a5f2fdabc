"""Hosts that are reached by ssh: which they are, what is said to them, how the job on them ends. Values only."""
