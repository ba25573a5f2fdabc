"""Devices, NICs and CPUs of a node."""
