"""Checkpoint records."""
