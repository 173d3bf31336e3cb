"""One process of a JAX job on CPUs that sums over all its processes' devices, step by step.

Prints `ready` once the job has begun, `step I sum TOTAL` after each step, `live PROCESSES` for those that the
server knows to be alive then, and `end` after an orderly shutdown. So whoever started it can do harm to the
server at a chosen moment.
"""
import argparse
import os
import time

# Process 0 starts a service of its own; there nobody dials it.
os.environ["JAX_COORDINATOR_BIND_ADDRESS"] = "127.0.0.1:0"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402


def total_of(mesh, value):
    """The sum over all devices of what each holds, over the wire."""
    spread = NamedSharding(mesh, PartitionSpec("d"))
    local = [jax.device_put(np.full((1,), value(device), np.float32), device)
             for device in jax.local_devices()]
    parts = jax.make_array_from_single_device_arrays((jax.device_count(),), spread, local)
    whole = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return float(whole(parts).addressable_data(0))


def live(processes):
    """The processes of the job that live, as the server knows. All processes ask at once."""
    client = jax._src.distributed.global_state.client
    # Newer releases tell an incarnation of each, too.
    return sorted(client.get_live_nodes(list(range(processes))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--process", type=int, required=True, help="counted from 0")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pause-ms", type=float, default=0, help="after each step")
    opts = parser.parse_args()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(opts.coordinator, opts.processes, opts.process,
                               initialization_timeout=180)
    print("ready", flush=True)
    mesh = Mesh(np.array(jax.devices()), ("d",))
    for step in range(opts.steps):
        total = total_of(mesh, lambda device: device.process_index + 1 + step)
        print("step %d sum %d" % (step, total), flush=True)
        time.sleep(opts.pause_ms / 1000)
    print("live %s" % live(opts.processes), flush=True)
    jax.distributed.shutdown()
    print("end", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
