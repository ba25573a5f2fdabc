"""All cells that need torch, in one start of the ranks: ``torch_cells MODE SPOIL [ONLY...]``.

After each cell the ranks tell each other at the generation's store how it went. One that failed anywhere may have left
its peers in another place: then all make their process group anew.
"""

import sys
import time

IMPORTING = time.monotonic()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from elaunch.qualify.cells import Job  # noqa: E402
from elaunch.qualify.matrix import cells  # noqa: E402
from elaunch.qualify.programs import collectives, groups, measuring, sharding, training  # noqa: E402
from elaunch.qualify.programs.machine import tell_machine  # noqa: E402
from elaunch.qualify.programs.place import Place, backend  # noqa: E402
from elaunch.qualify.programs.telling import (  # noqa: E402
    HOST,
    LOCAL_RANK,
    WORLD,
    nics,
    path,
    process_age,
    rail,
    tell,
    traffic,
)
from elaunch.qualify.programs.trying import attempt, settle  # noqa: E402


def main() -> None:
    mode, spoil, only = sys.argv[1], sys.argv[2], sys.argv[3:]
    imported = time.monotonic() - IMPORTING
    age = process_age()
    begin = time.monotonic()
    place = Place.open()
    tell(
        "rank", host=HOST, local_rank=LOCAL_RANK, world=WORLD, path=path(), nics=nics(), rail=rail(),
        backend=backend(), device=str(place.device), torch=torch.__version__, import_seconds=imported, age=age,
        init_seconds=time.monotonic() - begin,
    )  # fmt: skip
    tell_machine()
    if LOCAL_RANK == 0:
        tell("traffic", at="begin", host=HOST, time=time.monotonic(), ports=traffic())
    handlers = {**training.CELLS, **sharding.CELLS, **groups.CELLS, **measuring.CELLS}
    for cell in cells(mode, only):
        if cell.job is not Job.TORCH:
            continue
        handler = handlers.get(cell.name) or collectives.handler(cell.name, mode)
        tried = attempt(cell.name, handler, place, spoiled=spoil != "" and cell.name == spoil)
        if not settle(place, cell.name, tried):
            place = place.again()
    if LOCAL_RANK == 0:
        tell("traffic", at="end", host=HOST, time=time.monotonic(), ports=traffic())
    dist.destroy_process_group()
    tell("end", torn_down=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    main()
