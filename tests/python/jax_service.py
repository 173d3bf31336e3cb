"""JAX's own coordination service in C++, alone, for a job of so many tasks.

Prints `ready HOST:PORT` once it takes connections, and runs until it is killed.
"""
import argparse
import socket
import time

from jaxlib import _jax


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--heartbeat-timeout", type=int, default=10, help="seconds")
    opts = parser.parse_args()
    port = free_port()
    # The service lives as long as this name.
    service = _jax.get_distributed_runtime_service(
        "127.0.0.1:%d" % port, opts.tasks, heartbeat_timeout=opts.heartbeat_timeout)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    print("ready 127.0.0.1:%d" % port, flush=True)
    while service:
        time.sleep(3600)


main()
