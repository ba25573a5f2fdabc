"""Jobs that a Python program starts: ``elaunch.launch`` (docs/api.md). Without torch."""
