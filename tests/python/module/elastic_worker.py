"""A worker of an elastic job: it adds up ones with all others, step by step, until the file `stop` is there.

Each step is a line in the folder's file of this process: the time, its rank, and what the sum was.
"""
import os
import pathlib
import sys
import time

import torch
import torch.distributed

folder, node = pathlib.Path(sys.argv[1]), sys.argv[2]
(folder / f"pid-{node}-{os.getpid()}").touch()
torch.distributed.init_process_group("gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(folder / f"steps-{node}-{os.getpid()}", "w", buffering=1) as steps:
    while True:
        # The others hear from the first that it is to end, all at the same step.
        values = torch.tensor([1, int(rank == 0 and (folder / "stop").exists())])
        torch.distributed.all_reduce(values)
        total, stops = values.tolist()
        assert total == size, (total, size)
        print(f"{time.time()} {rank} {total} {restarts}", file=steps)
        if stops:
            break
        time.sleep(0.05)
torch.distributed.destroy_process_group()
print(f"node {node} rank {rank} of {size} done", flush=True)
