"""Callbacks for trainers of other libraries (docs/integrations.md). Each module imports its library."""
