"""Three checkpoints in the directory that is given, as the pages show them."""

import sys

import torch

from elaunch.checkpoint import Checkpointer

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
checkpointer = Checkpointer(sys.argv[1], {"model": model, "optim": optimizer})
for step in (100, 200, 300):
    checkpointer.save(step)
checkpointer.close()
