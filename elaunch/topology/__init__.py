"""Devices, NICs, rails and CPUs of a node: what is there, how far it is, what each rank gets. Never imports torch."""
