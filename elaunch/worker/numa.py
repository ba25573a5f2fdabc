"""Says on which CPUs torch would have each local rank run: ``python numa.py MODE NPROC``."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def cpus(mode: str, nproc: int) -> list[list[int]]:
    """The CPUs for each local rank, as ``--numa-binding`` asks for. Raises RuntimeError, or what torch raises."""
    try:
        from torch.numa import binding
    except ModuleNotFoundError as error:
        raise RuntimeError(f"this needs torch 2.9 or newer ({error})") from error

    gpus = binding._get_gpu_count()
    if nproc > gpus:
        raise RuntimeError(f"each local rank is bound near its own GPU; torch sees {gpus} for {nproc} ranks")
    options = binding.NumaOptions(affinity_mode=binding.AffinityMode(mode))
    found = [binding._get_logical_cpus_to_bind_to(gpu_index=n, numa_options=options) for n in range(nproc)]
    for local_rank, chosen in enumerate(found):
        if not chosen:
            raise RuntimeError(f"there is no CPU for local rank {local_rank} that this process may run on")
    return [sorted(chosen) for chosen in found]


def _reply(mode: str, nproc: int) -> dict[str, Any]:
    try:
        return {"ok": cpus(mode, nproc)}
    except Exception as error:  # noqa: BLE001 - torch raises many kinds, and a missing module is one of them
        kind = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
        return {"error": f"--numa-binding={mode}: {kind}{' '.join(str(error).split())}"}


if __name__ == "__main__":
    del sys.path[0]  # this file's folder: its modules are not top-level ones
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the imports print is no answer
    print(json.dumps(_reply(sys.argv[1], int(sys.argv[2]))), file=out, flush=True)
