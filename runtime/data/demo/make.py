"""Writes weather.parquet and weather.tfrecord from weather.csv.

    python make.py parquet     # needs pyarrow
    python make.py tfrecord    # needs tensorflow

That all three hold the same records is checked by the tests of the crate (tests/datasets/demo.rs).
"""

import csv
import datetime
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
NUMBERS = ["precipitation", "temp_max", "temp_min", "wind"]
TEXTS = ["location", "date", "weather"]
ROW_GROUP = 100


def rows():
    with open(HERE / "weather.csv", newline="") as source:
        yield from csv.DictReader(source)


def parquet():
    import pyarrow
    import pyarrow.parquet

    def column(name):
        values = [row[name] for row in rows()]
        if name == "date":
            return pyarrow.array([datetime.date.fromisoformat(value) for value in values])
        if name in NUMBERS:
            return pyarrow.array([float(value) for value in values], pyarrow.float32())
        return pyarrow.array(values, pyarrow.string())

    names = ["location", "date", *NUMBERS, "weather"]
    fields = [pyarrow.field(name, column(name).type, nullable=False) for name in names]
    table = pyarrow.table([column(name) for name in names], schema=pyarrow.schema(fields))
    pyarrow.parquet.write_table(
        table, HERE / "weather.parquet", row_group_size=ROW_GROUP, compression="zstd"
    )


def tfrecord():
    import tensorflow as tf

    def feature(name, value):
        if name in NUMBERS:
            return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value)]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    with tf.io.TFRecordWriter(str(HERE / "weather.tfrecord")) as writer:
        for row in rows():
            features = {name: feature(name, row[name]) for name in [*TEXTS, *NUMBERS]}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString(deterministic=True))


if __name__ == "__main__":
    {"parquet": parquet, "tfrecord": tfrecord}[sys.argv[1]]()
