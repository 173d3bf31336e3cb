"""Reads one epoch of a dataset through the service and says what it got, element by element.

Prints `element VALUE` as each arrives and `end` after the last, so that whoever started it can do
harm to servers and workers at a chosen moment and account for every element afterwards.
"""
import argparse
import os
import time

from quiet import DYNAMIC, service, tf


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dispatcher", required=True, help="host:port")
    parser.add_argument("--elements", type=int, help="reads a range of so many")
    parser.add_argument("--dataset", help="reads a registered dataset with a column `value`")
    parser.add_argument("--pause-ms", type=float, default=0, help="after each element")
    parser.add_argument("--job", default=None, help="name of the job; several readers share it")
    opts = parser.parse_args()
    # Few requests ahead of the reader: its pace is then the pace at which splits are taken.
    where, ahead = "grpc://" + opts.dispatcher, {"job_name": opts.job, "max_outstanding_requests": 4}
    if opts.dataset:
        dataset = service.from_dataset_id(DYNAMIC, where, opts.dataset, **ahead)
        dataset = dataset.map(lambda row: row["value"])
    else:
        dataset = tf.data.Dataset.range(opts.elements)
        dataset = dataset.apply(service.distribute(DYNAMIC, where, **ahead))
    for element in dataset.as_numpy_iterator():
        print("element %d" % element, flush=True)
        time.sleep(opts.pause_ms / 1000)
    print("end", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
