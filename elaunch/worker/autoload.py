"""Called by every ``import torch`` (entry point group ``torch.backends``); idle outside elaunch."""

from __future__ import annotations

import os


def autoload() -> None:
    """In a rank of elaunch: watch its progress, let the program open stores beside the one that the agent serves."""
    if "ELAUNCH_GENERATION" not in os.environ:
        return
    from elaunch.worker.error_file import leave_uncaught
    from elaunch.worker.full_disk import outlast
    from elaunch.worker.progress import attach
    from elaunch.worker.start_hooks import install
    from elaunch.worker.stores import allow_own_stores

    outlast()
    leave_uncaught()
    attach()
    allow_own_stores(os.environ.get("ELAUNCH_STORE_PORT") or os.environ.get("MASTER_PORT", ""))
    install()
    if "ELAUNCH_INJECT" in os.environ:
        from elaunch.worker.injected import install_points

        install_points()
