"""The fence: a transaction takes effect only while its author still leads, and exactly once."""
