"""Random typed columns, written with pyarrow in each format: every value is read as it was written."""
import datetime
import decimal
import fractions
import gzip
import itertools
import json
import math
import random
import struct

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import rondo

ROWS = 200
SEEDS = range(6)
SHAPE = 3
_NUMBERS = itertools.count()

INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1),
            "uint16": (0, 2**16 - 1), "uint64": (0, 2**64 - 1)}
WORDS = ["", "02134", "true", "2026-11-27", "1e5", "a,b", 'say "x"', "ü€𝄞", " blank ", "two\nlines", "NaN",
         "null"]


def integer(generator, low, high):
    near = generator.choice([low, high, 0, 2**53, -(2**53)])
    value = generator.choice([generator.randint(low, high), near + generator.randint(-2, 2)])
    return min(max(value, low), high)


def number(generator, form, size):
    """A floating-point number, seldom an infinite one."""
    while True:
        value = struct.unpack(form, generator.randbytes(size))[0]
        if math.isfinite(value):
            return generator.choice([value] * 20 + [math.inf, -math.inf, 0.0, -0.0])


def moment(generator):
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=generator.randrange(0, 2**52))


def column(generator, kind):
    """Values of a type, some of them null."""
    make = {
        **{name: lambda bounds=bounds: integer(generator, *bounds) for name, bounds in INTEGERS.items()},
        "float32": lambda: number(generator, "f", 4),
        "float64": lambda: number(generator, "d", 8),
        "bool": lambda: generator.random() < 0.5,
        "string": lambda: generator.choice(WORDS) + generator.choice(["", "x", "€"]),
        "date32": lambda: moment(generator).date(),
        "timestamp": lambda: moment(generator),
        "binary": lambda: generator.randbytes(generator.randrange(5)),
    }[kind]
    types = {"timestamp": pyarrow.timestamp("us"), "float32": pyarrow.float32(), "float64": pyarrow.float64(),
             "bool": pyarrow.bool_()}
    arrow = types.get(kind) or getattr(pyarrow, kind)()
    return pyarrow.array([None if generator.random() < 0.1 else make() for _ in range(ROWS)], arrow)


def lists(generator, kind, lengths):
    """Lists of values of a type, so long; none where there is no length."""
    pool = column(generator, kind).drop_null()
    rows = [None if length is None else generator.choices(pool.to_pylist(), k=length)
            for length in lengths]
    return pyarrow.array(rows, pyarrow.list_(pool.type))


def table(generator, kinds):
    return pyarrow.table({kind: column(generator, kind) for kind in kinds})


CASTAGNOLI = 0x82F63B78
FEATURES = {"int64": 3, "float32": 2, "string": 1, "binary": 1}


def crc32c(data):
    """The checksum of TFRecord's frames, before it is masked."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(record):
    """A record of a TFRecord file."""
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def varint(number):
    """An integer as protobuf has it: negative ones are 64 bits of two's complement."""
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    """A field of protobuf that is a message or bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(kind, values):
    """A `tensorflow.Feature` of these values."""
    if kind == "int64":
        content = field(1, b"".join(map(varint, values)))
    elif kind == "float32":
        content = field(1, struct.pack(f"<{len(values)}f", *values))
    else:
        texts = (value.encode() if isinstance(value, str) else value for value in values)
        content = b"".join(field(1, text) for text in texts)
    return field(FEATURES[kind], content)


def example(row, kinds):
    """A `tensorflow.Example` of a table's row: a null is no feature."""
    features = b""
    for name, value in row.items():
        if value is not None:
            values = value if isinstance(value, list) else [value]
            features += field(1, field(1, name.encode()) + field(2, feature(kinds[name], values)))
    return field(1, features)


OF_TEXTS = ["int8", "int32", "int64", "uint16", "uint64", "float32", "float64", "bool", "string"]
TIMES = ["date32", "timestamp"]
ALL = [*OF_TEXTS, *TIMES, "binary"]
TYPES = {"date32": "date"}


def write_examples(path, form, data):
    """A TFRecord file of a table's rows, and the pipeline's columns."""
    kinds = {name: name.split("_")[0] for name in data.column_names}
    text = b"".join(framed(example(row, kinds)) for row in data.to_pylist())
    path.write_bytes(gzip.compress(text) if form.endswith("gz") else text)
    columns = []
    for name, kind in kinds.items():
        told = {"list": True} if name.endswith("_list") else {}
        told |= {"shape": [SHAPE]} if name.endswith("_shape") else {}
        columns.append({"name": name, "type": kind, **told})
    return columns


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value.isoformat() if isinstance(value, (datetime.date, datetime.datetime)) else value


def written(path, form, data):
    """The file, and the pipeline's source of it."""
    if form == "parquet":
        pyarrow.parquet.write_table(data, path, row_group_size=37)
    elif form == "arrow":
        pyarrow.feather.write_feather(data, str(path), compression="uncompressed", chunksize=41)
    elif form == "csv":
        pyarrow.csv.write_csv(data, path)
    else:
        rows = ({name: plain(value) for name, value in row.items()} for row in data.to_pylist())
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = [{"name": name, "type": TYPES.get(name, name)} for name in data.column_names]
    told = {"columns": columns} if form in ("csv", "json_lines") else {}
    return json.dumps({"source": {form: {"files": [str(path)], **told}}, "split_records": 50})


def read(data, source, pipeline):
    name = f"values-{next(_NUMBERS)}"
    source.register(name, pipeline)
    batches = [batch.to_arrow() for batch in rondo.Reader(source.address, name, job=name)]
    found = pyarrow.Table.from_batches(batches)
    assert found.num_rows == data.num_rows
    return found


@pytest.mark.parametrize("form, kinds", [
    ("parquet", ALL), ("arrow", ALL), ("csv", OF_TEXTS + TIMES), ("json_lines", OF_TEXTS + TIMES),
])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_value_is_the_one_that_was_written(data, tmp_path, form, kinds, seed):
    generator = random.Random(f"{form} {seed}")
    wrote = table(generator, kinds)
    found = read(wrote, data, written(tmp_path / f"a.{form}", form, wrote))
    for name in kinds:
        ours, theirs = found[name].to_pylist(), wrote[name].to_pylist()
        if form == "csv" and name == "string":
            # CSV has one text for a missing and an empty string.
            ours, theirs = [value or "" for value in ours], [value or "" for value in theirs]
        assert found[name].type == wrote[name].type, name
        assert ours == theirs, name


@pytest.mark.parametrize("form", ["tfrecord", "tfrecord.gz"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_feature_of_an_example_is_the_one_that_was_written(data, tmp_path, form, seed):
    """Single values and nulls, lists of any length, and lists of a shape."""
    generator = random.Random(f"{form} {seed}")
    kinds = list(FEATURES)
    columns = {kind: column(generator, kind) for kind in kinds}
    for kind in kinds:
        lengths = [generator.choice([None, 0, 1, 2, 5]) for _ in range(ROWS)]
        columns[f"{kind}_list"] = lists(generator, kind, lengths)
        columns[f"{kind}_shape"] = lists(generator, kind, [SHAPE] * ROWS)
    wrote = pyarrow.table(columns)
    path = tmp_path / f"a.{form}"
    told = write_examples(path, form, wrote)
    source = {"tfrecord": {"files": [str(path)], "example": told}}
    found = read(wrote, data, json.dumps({"source": source, "split_records": 50}))
    for name in wrote.column_names:
        ours, theirs = found[name].type, wrote[name].type
        assert getattr(ours, "value_type", ours) == getattr(theirs, "value_type", theirs), name
        assert found[name].to_pylist() == wrote[name].to_pylist(), name


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_of_tfrecord_is_the_bytes_that_were_written(data, tmp_path, seed):
    generator = random.Random(f"records {seed}")
    wrote = [generator.randbytes(generator.choice([0, 1, 7, 300])) for _ in range(ROWS)]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(map(framed, wrote)))
    source = {"tfrecord": {"files": [str(path)]}}
    found = read(pyarrow.table({"record": wrote}), data, json.dumps({"source": source}))
    assert found["record"].to_pylist() == wrote


@pytest.mark.parametrize("form", ["csv", "json_lines"])
@pytest.mark.parametrize("seed", range(20))
def test_a_guessed_column_keeps_its_values_or_the_read_ends_with_the_value(data, tmp_path, form, seed):
    """Numbers as texts, of which a decoder could lose something."""
    generator = random.Random(f"guessed {form} {seed}")
    pool = [lambda: str(generator.randrange(100)), lambda: str(integer(generator, -(2**63), 2**64 - 1)),
            lambda: repr(generator.randrange(100) / 8), lambda: str(2**53 + generator.randrange(4)),
            lambda: str(2**128 * generator.randrange(1, 9) + generator.randrange(2))]
    if form == "csv":
        pool += [lambda: f"{generator.randrange(1000):05}", lambda: f"+{generator.randrange(1000)}"]
    usual, odd = generator.choice(pool), generator.choice(pool)
    texts = [usual() for _ in range(1010)] + [odd() for _ in range(5)]
    path = tmp_path / f"a.{form}"
    lines = texts if form == "csv" else [f'{{"a": {text}}}' for text in texts]
    path.write_text("\n".join((["a"] if form == "csv" else []) + lines) + "\n")
    try:
        pipeline = json.dumps({"source": {form: {"files": [str(path)]}}})
        found = read(pyarrow.table({"a": texts}), data, pipeline)
    except rondo.RondoError as error:
        assert any(text in str(error) for text in texts) and str(path) in str(error)
        return
    for ours, text in zip(found["a"].to_pylist(), texts, strict=True):
        kept = ours == text if isinstance(ours, str) else decimal.Decimal(ours) == decimal.Decimal(text)
        assert kept, (ours, text)
        is_kept = text == "0" or not text.startswith(("0", "+")) or text.startswith("0.")
        assert isinstance(ours, str) or is_kept, text


@pytest.mark.parametrize("to", ["float32", "float64"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cast_of_decimals_makes_the_nearest_numbers(data, tmp_path, to, seed):
    generator = random.Random(f"decimals {to} {seed}")
    scale = generator.randrange(1, 35)
    digits = [generator.randrange(-10**generator.randrange(1, 38), 10**37) * 10 + 1 for _ in range(ROWS)]
    wrote = pyarrow.array([decimal.Decimal(it).scaleb(-scale, decimal.Context(prec=50)) for it in digits],
                          pyarrow.decimal128(38, scale))
    table = pyarrow.table({"a": wrote})
    pipeline = json.loads(written(tmp_path / "a.parquet", "parquet", table))
    pipeline["operations"] = [{"map": {"column": "a", "cast": {"column": "a", "to": to}}}]
    found = read(table, data, json.dumps(pipeline))["a"].to_pylist()
    for ours, exact in zip(found, wrote.to_pylist(), strict=True):
        assert ours == float(exact) if to == "float64" else is_nearest_single(ours, exact), (ours, exact)


def is_nearest_single(ours, exact):
    """Whether no other number of 32 bits is nearer."""
    bits = struct.unpack("i", struct.pack("f", ours))[0]
    others = [struct.unpack("f", struct.pack("i", bits + step))[0] for step in (-1, 1)]
    distance = lambda it: abs(fractions.Fraction(it) - fractions.Fraction(exact))
    return all(distance(ours) <= distance(other) for other in others)
