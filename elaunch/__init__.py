"""elaunch: start distributed PyTorch jobs and keep them alive.

For programs, all without effect outside of elaunch (docs/progress.md): ``step(n)``, ``section(name, timeout=seconds)``,
``should_stop()`` and ``time_left()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elaunch.worker.program import section, should_stop, step, time_left

__version__ = "0.1.0"
__all__ = ["__version__", "section", "should_stop", "step", "time_left"]


def __getattr__(name: str) -> object:
    """Load what programs use when they first do: the launcher and the start of ranks can do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from elaunch.worker import program

    globals()[name] = getattr(program, name)
    return globals()[name]
