"""elaunch: start distributed PyTorch jobs and keep them alive."""

__version__ = "0.1.0"
