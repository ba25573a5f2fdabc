"""A program for tests: rank 1 ends in the way that $HOW names, while rank 0 waits for it in a collective."""

import os
import time

import torch
import torch.distributed as dist

HOW, RANK = os.environ["HOW"], int(os.environ["RANK"])


def main() -> None:
    dist.init_process_group("gloo")
    half = dist.new_group([0, 1], group_desc="half")
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), group=half)
    if RANK == 1:
        if HOW == "pending":
            dist.all_reduce(torch.ones(3), async_op=True, group=half)
        dist.destroy_process_group()
        time.sleep(1)
        return
    dist.all_reduce(torch.ones(2))


if __name__ == "__main__":
    main()
