"""A program for tests, without torch: all ranks flood stderr; rank 3 fails first, and then all others do at once."""

import os
import sys
import time
from pathlib import Path

failed = Path(os.environ["OUT"], "failed")
told = Path(os.environ["TORCHELASTIC_ERROR_FILE"]).parents[1] / "3" / "error.json"
rank = os.environ["RANK"]
began = time.monotonic()
while not failed.exists() and time.monotonic() - began < 60:
    sys.stderr.write(f"rank {rank} prints and prints {'.' * 200}\n" * 50)
    if rank == "3" and time.monotonic() - began > 1:
        failed.touch()
        raise RuntimeError("the first error")
    time.sleep(0.001)
while not told.exists() and time.monotonic() - began < 60:
    time.sleep(0.01)
time.sleep(0.5)
raise ValueError("follows from it")
