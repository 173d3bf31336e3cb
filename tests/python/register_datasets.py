"""Registers datasets for readers that are not TensorFlow's, and ends.

`plain` and `snappy` have the same elements, the numbers from 0 on with what is made of them;
`groups` is read in rounds by two consumers: in each round they get elements of one group.
"""
import argparse

from quiet import service, tf


def row(number):
    return {
        "number": number,
        "text": tf.strings.as_string(number),
        "pair": (tf.stack([number, number + 1]), tf.cast(number, tf.float32) / 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dispatcher", required=True, help="host:port")
    parser.add_argument("--elements", type=int, required=True)
    opts = parser.parse_args()
    url = "grpc://" + opts.dispatcher
    rows = tf.data.Dataset.range(opts.elements).map(row)
    service.register_dataset(url, rows, compression=None, dataset_id="plain")
    service.register_dataset(url, rows, compression="AUTO", dataset_id="snappy")
    groups = tf.data.Dataset.range(10**6).flat_map(
        lambda group: tf.data.Dataset.range(group * 2, (group + 1) * 2)).repeat()
    service.register_dataset(url, groups, compression=None, dataset_id="groups")


if __name__ == "__main__":
    main()
