"""Writes the files that the tests read, with the programs that people write such files with.

Needs pyarrow, tensorflow and webdataset; which of them are there decides which files are written:

    python generate.py

The records of each file are numbered from 0 on; see `records`.
"""

import gzip
import io
import json
import pathlib
import tarfile

HERE = pathlib.Path(__file__).parent


def records(count):
    """Number, a fraction that depends on it, a text, and sometimes nothing."""
    for number in range(count):
        text = None if number % 7 == 3 else f"text {number}"
        yield {"number": number, "fraction": number / 4, "text": text}


def arrow_files():
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    rows = list(records(100))
    table = pyarrow.table(
        {
            "number": pyarrow.array([row["number"] for row in rows], pyarrow.int64()),
            "fraction": pyarrow.array([row["fraction"] for row in rows], pyarrow.float64()),
            "text": pyarrow.array([row["text"] for row in rows], pyarrow.string()),
            "kind": pyarrow.array([f"kind {row['number'] % 3}" for row in rows]).dictionary_encode(),
            "pair": pyarrow.array(
                [[row["number"], -row["number"]] for row in rows], pyarrow.list_(pyarrow.int32(), 2)
            ),
            "list": pyarrow.array(
                [list(range(row["number"] % 4)) for row in rows], pyarrow.list_(pyarrow.int16())
            ),
        }
    )
    for compression in ["snappy", "zstd", "gzip", "lz4", "brotli"]:
        pyarrow.parquet.write_table(
            table, HERE / f"{compression}.parquet", row_group_size=30, compression=compression
        )
    pyarrow.parquet.write_table(
        table, HERE / "indexed.parquet", data_page_size=64, write_page_index=True, write_batch_size=8
    )
    pyarrow.feather.write_feather(table, HERE / "lz4.arrow", compression="lz4", chunksize=30)
    with pyarrow.OSFile(str(HERE / "plain.arrow"), "wb") as sink:
        with pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)


def tfrecord_files():
    import tensorflow as tf

    def feature(**lists):
        return tf.train.Feature(**{kind: value for kind, value in lists.items()})

    def example(row):
        features = {
            "number": feature(int64_list=tf.train.Int64List(value=[row["number"]])),
            "pair": feature(
                float_list=tf.train.FloatList(value=[row["fraction"], -row["fraction"]])
            ),
            "list": feature(
                int64_list=tf.train.Int64List(value=range(row["number"] % 4))
            ),
        }
        if row["text"] is not None:
            text = tf.train.BytesList(value=[row["text"].encode()])
            features["text"] = feature(bytes_list=text)
        return tf.train.Example(features=tf.train.Features(feature=features))

    for name, compression in [("plain", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")]:
        ending = {"": "", "GZIP": ".gz", "ZLIB": ".zz"}[compression]
        path = str(HERE / f"{name}.tfrecord{ending}")
        with tf.io.TFRecordWriter(path, compression) as writer:
            for row in records(100):
                writer.write(example(row).SerializeToString())


def webdataset_files():
    import webdataset

    with webdataset.TarWriter(str(HERE / "samples.tar"), mtime=0) as sink:
        for row in records(20):
            sample = {"__key__": f"sample{row['number']:03}", "json": row}
            if row["text"] is not None:
                sample["txt"] = row["text"]
            sink.write(sample)


def long_names():
    """A tar file whose members have names longer than a header has room for, in both ways."""
    for name, kind in [("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)]:
        with tarfile.open(HERE / f"{name}.tar", "w", format=kind) as archive:
            folder = "a-long-folder-name/" * 8
            for number in range(5):
                for ending in ["a.txt", "b"]:
                    content = f"{number} {ending}".encode()
                    member = tarfile.TarInfo(f"{folder}sample-{number}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


def text_files():
    import zstandard

    lines = "".join(json.dumps(row) + "\n" for row in records(50)).encode()
    (HERE / "lines.jsonl").write_bytes(lines)
    with open(HERE / "lines.jsonl.gz", "wb") as packed:
        with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as out:
            out.write(lines)
    (HERE / "lines.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(lines))


if __name__ == "__main__":
    for write in [arrow_files, tfrecord_files, webdataset_files, long_names, text_files]:
        try:
            write()
        except ImportError as missing:
            print(f"{write.__name__}: {missing}")
