"""The program's objects as one state dict, and back: modules, optimizers, random numbers, samplers."""
