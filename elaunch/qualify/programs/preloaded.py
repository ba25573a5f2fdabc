"""What the spawner process imports before it forks ranks: what each of them would import by itself in every generation.

DistributedDataParallel imports torch's compiler, which takes longer than torch.
"""

from contextlib import suppress

import torch

import elaunch.checkpoint.checkpointer as checkpointer

with suppress(ImportError):  # a build without it has nothing to wait for
    import torch._dynamo as dynamo

__all__ = ["checkpointer", "dynamo", "torch"]
