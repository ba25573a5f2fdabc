"""``torchrun --rdzv-backend=elaunch``: the entry point in the group ``torchrun.handlers``.

torchrun loads it at every start, whatever its backend: so nothing is imported here before it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters


def create_registration() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """What torchrun registers as the backend ``elaunch``."""
    return create_handler


def create_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler for one agent. Connects to nothing yet. Raises ValueError on a bad endpoint or ``--rdzv-conf``."""
    from elaunch.errors import UsageError
    from elaunch.rendezvous.torchrun_conf import Settings
    from elaunch.rendezvous.torchrun_handler import TorchrunHandler

    try:
        settings = Settings.of(
            params.endpoint, params.run_id, params.min_nodes, params.max_nodes, params.local_addr, params.config
        )
        return TorchrunHandler(settings)
    except UsageError as error:
        raise ValueError(str(error)) from error
