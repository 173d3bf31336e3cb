"""One tf.data service worker in a process of its own.

Prints `ready on PORT` once it serves, and ends when its standard input does, so that it never
outlives the test that started it.
"""
import argparse
import os
import sys

from quiet import service


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dispatcher", required=True, help="host:port")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    opts = parser.parse_args()
    worker = service.WorkerServer(service.WorkerConfig(
        dispatcher_address=opts.dispatcher,
        port=opts.port,
        heartbeat_interval_ms=100,
        dispatcher_timeout_ms=120_000))
    print("ready on %s" % worker._address.split(":")[-1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
