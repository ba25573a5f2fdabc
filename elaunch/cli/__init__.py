"""Argument parsing and printing; no logic of its own."""
