"""elaunch: start distributed PyTorch jobs and keep them alive.

For programs in a rank, all without effect outside of elaunch (docs/api.md): ``step(n)``, ``section(name,
timeout=seconds)``, ``should_stop()``, ``time_left()``, ``context()``, and ``Checkpointer``. For a program that starts a
job itself: ``launch(LaunchConfig(...), function_or_command, *args)``, which may raise ``ChildFailedError``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.api.config import LaunchConfig
    from elaunch.api.failures import ChildFailedError
    from elaunch.api.launching import launch
    from elaunch.checkpoint.checkpointer import Checkpointer
    from elaunch.worker.context import Context, context
    from elaunch.worker.program import section, should_stop, step, time_left

__version__ = "0.1.0"
__all__ = [
    "Checkpointer",
    "ChildFailedError",
    "Context",
    "LaunchConfig",
    "__version__",
    "context",
    "launch",
    "section",
    "should_stop",
    "step",
    "time_left",
]
_WHERE = {
    "Checkpointer": "checkpoint.checkpointer",
    "ChildFailedError": "api.failures",
    "Context": "worker.context",
    "LaunchConfig": "api.config",
    "context": "worker.context",
    "launch": "api.launching",
    "section": "worker.program",
    "should_stop": "worker.program",
    "step": "worker.program",
    "time_left": "worker.program",
}


def __getattr__(name: str) -> object:
    """Load what programs use when they first do: the launcher and the start of ranks can do without."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"elaunch.{_WHERE[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
