"""Records elements, tensors and element specs as real TensorFlow writes and reads them.

Usage: python generate.py OUT_DIR     (needs tensorflow 2.21 and grpcio)

`elements.json`: answers of a TensorFlow worker to GetElement, uncompressed and compressed, with the
tensors that were put in. `tensors.json`: TensorProtos with typed fields, and what TensorFlow makes
of them, or null where it refuses. `specs.json`: element specs as TensorFlow encodes them, with the
names of their components in order.
"""

import collections
import json
import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import ml_dtypes
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2
from tensorflow.python.data.experimental.service import server_lib
from tensorflow.python.framework import dtypes
from tensorflow.python.saved_model import nested_structure_coder

Pair = collections.namedtuple("Pair", ["second", "first"])
QUANTIZED = {
    "qint8": "int8", "quint8": "uint8", "qint32": "int32", "qint16": "int16", "quint16": "uint16",
}
CAST = [
    "float32", "float64", "int32", "uint8", "int16", "int8", "int64", "uint16", "uint32", "uint64",
    "bfloat16", "half", "complex64", "complex128", "bool",
]
# What no graph can hold as a constant, so that no worker serves it from memory.
SMALL = [
    "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz",
    "int4", "uint4", "int2", "uint2",
]


def every_dtype():
    numbers = tf.constant([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]], tf.float32)
    tensors = {}
    for name in CAST:
        tensors[name] = tf.cast(numbers, dtypes.as_dtype(name))
    tensors["int16"] = tf.constant([[1, -2, 300], [-32768, 32767, 0]], tf.int16)
    tensors["int64"] = tf.constant([[1, -2, 3], [-(2**63), 2**63 - 1, 0]], tf.int64)
    for name, plain in QUANTIZED.items():
        tensors[name] = tf.bitcast(tf.constant([[1, 2, 3], [4, 5, 6]], plain), dtypes.as_dtype(name))
    return tensors


def elements():
    yield "lone", tf.constant(7, tf.int64)
    yield "dtypes", every_dtype()
    yield "shapes", {
        "scalar": tf.constant(1.5), "none": tf.zeros([0]), "none_wide": tf.zeros([0, 3], tf.int64),
        "none_inside": tf.zeros([2, 0, 3], tf.uint8), "ones": tf.ones([1, 1, 1], tf.int8),
        "long": tf.range(1000, dtype=tf.int32), "no_strings": tf.zeros([0, 2], tf.string),
    }
    yield "strings", {
        "scalar": tf.constant("word"), "empty": tf.constant(""),
        "list": tf.constant(["abc", "", "x" * 200]), "bytes": tf.constant([[b"\x00\xff"], [b"\x80"]]),
    }
    yield "nested", {
        "z": tf.constant(1),
        "a": (tf.constant("in a tuple"), {"y": tf.constant(2.0), "B": tf.constant(3)}),
        "m": Pair(second=tf.constant([True, False]), first=tf.constant(4, tf.uint8)),
        "\u00e9": tf.constant(5),
    }
    yield "ragged", (tf.ragged.constant([[1, 2], [], [3]], dtype=tf.int64), tf.constant(1))
    yield "sparse", tf.sparse.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])


def flat(structure):
    """The tensors in component order, as bytes; None for what is a variant on the wire."""
    components = []
    for leaf in tf.nest.flatten(structure):
        if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
            components.append({"variant": True, "shape": [] if isinstance(leaf, tf.RaggedTensor) else [3]})
            continue
        components.append(tensor(leaf))
    return components


def tensor(leaf):
    plain = QUANTIZED.get(leaf.dtype.name)
    array = (tf.bitcast(leaf, dtypes.as_dtype(plain)) if plain else leaf).numpy()
    described = {"dtype": leaf.dtype.as_datatype_enum, "shape": leaf.shape.as_list()}
    if leaf.dtype == tf.string:
        described["strings"] = [string.hex() for string in np.asarray(array, object).reshape(-1).tolist()]
    else:
        described["bytes"] = np.asarray(array).tobytes().hex()
    return described


def record_elements():
    dispatcher = server_lib.DispatchServer(server_lib.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    config = server_lib.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100)
    worker = server_lib.WorkerServer(config)
    channel = grpc.insecure_channel(worker._address)
    service = "/tensorflow.data.WorkerService/"
    recorded, kept, known = [], [], set()
    for name, structure in elements():
        case = {"name": name, "components": flat(structure)}
        for form, compression in [("uncompressed", None), ("compressed", "AUTO")]:
            dataset = tf.data.Dataset.from_tensors(structure).repeat()
            distributed = tf.data.experimental.service.distribute(
                "parallel_epochs", dispatcher.target, compression=compression)
            read = iter(dataset.apply(distributed))
            next(read)
            kept.append(read)
            tasks = channel.unary_unary(service + "GetWorkerTasks")(b"")
            (task,) = task_ids(tasks) - known
            known.add(task)
            request = b"\x08" + varint(task)
            case[form] = channel.unary_unary(service + "GetElement")(request).hex()
        recorded.append(case)
    recorded.append(small_numbers())
    return {"tasks": tasks.hex(), "worker": worker._address, "elements": recorded}


def small_numbers():
    """Compressed by TensorFlow's op instead of by a worker."""
    tensors = [tf.constant(np.array([[0, 1, 1], [1, 0, 1]], getattr(ml_dtypes, name))) for name in SMALL]
    variant = tf.io.serialize_tensor(tf.raw_ops.CompressElement(components=tensors)).numpy()
    content = tensor_pb2.TensorProto.FromString(variant).tensor_content
    # Metadata is field 2 of the variant; its length, like all here, takes two bytes.
    at = content.index(b"tensorflow.data.CompressedElement") + len("tensorflow.data.CompressedElement")
    assert content[at] == 0x12, content
    element = content[at + 3 :] if content[at + 1] >= 0x80 else content[at + 2 :]
    answer = b"\x1a" + varint(len(element)) + element
    components = [tensor(leaf) for leaf in tensors]
    return {"name": "small numbers", "components": components, "compressed": answer.hex()}


def task_ids(response):
    """The second field of each TaskInfo, which follows the worker's address."""
    found, at = set(), 0
    while at < len(response):
        length = response[at + 1]
        info = response[at + 2 : at + 2 + length]
        number = info[2 + info[1] :]
        assert number[0] == 0x10, response.hex()
        found.add((number[1] & 0x7F) | number[2] << 7)
        at += 2 + length
    return found


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def typed():
    """TensorProtos with typed fields: name, dtype, shape, field, values."""
    for name, dtype, field, values in [
        ("float", "DT_FLOAT", "float_val", [1.5, -2.0]), ("double", "DT_DOUBLE", "double_val", [1.5, -2.0]),
        ("int32", "DT_INT32", "int_val", [5, -6]), ("int16", "DT_INT16", "int_val", [5, -6]),
        ("int8", "DT_INT8", "int_val", [5, -6]), ("uint16", "DT_UINT16", "int_val", [5, 60000]),
        ("uint8", "DT_UINT8", "int_val", [5, 200]), ("int4", "DT_INT4", "int_val", [5, -2]),
        ("uint4", "DT_UINT4", "int_val", [5, 15]), ("qint8", "DT_QINT8", "int_val", [5, -6]),
        ("int2", "DT_INT2", "int_val", [1, -2]), ("uint2", "DT_UINT2", "int_val", [1, 3]),
        ("qint32", "DT_QINT32", "int_val", [5, -6]), ("quint16", "DT_QUINT16", "int_val", [5, 6]),
        ("string", "DT_STRING", "string_val", [b"abc", b"de"]),
        ("complex64", "DT_COMPLEX64", "scomplex_val", [1.0, 2.0, 3.0, 4.0]),
        ("complex128", "DT_COMPLEX128", "dcomplex_val", [1.0, 2.0, 3.0, 4.0]),
        ("int64", "DT_INT64", "int64_val", [5, -6]), ("uint64", "DT_UINT64", "uint64_val", [5, 2**64 - 1]),
        ("uint32", "DT_UINT32", "uint32_val", [5, 2**32 - 1]), ("bool", "DT_BOOL", "bool_val", [True, False]),
        ("half", "DT_HALF", "half_val", [0x3C00, 0xC000]),
        ("bfloat16", "DT_BFLOAT16", "half_val", [0x3F80, 0xC000]),
        ("float8_e5m2", "DT_FLOAT8_E5M2", "float8_val", b"\x3c\xc0"),
        ("float8_e4m3fn", "DT_FLOAT8_E4M3FN", "float8_val", b"\x38\xc0"),
    ]:
        for shape in [[2], [4], [1], [], [0], [2, 2]]:
            yield f"{name} {shape}", dtype, shape, {field: values}
        yield f"{name} without values", dtype, [3], {}
    yield "content too short", "DT_INT32", [2], {"tensor_content": b"1234567"}
    yield "content", "DT_INT32", [2], {"tensor_content": b"12345678"}
    yield "content and values", "DT_INT32", [2], {"tensor_content": b"12345678", "int_val": [1]}
    yield "content of nothing", "DT_INT32", [0], {"tensor_content": b"12345678"}
    yield "bool 2", "DT_BOOL", [2], {"tensor_content": b"\x01\x02"}
    yield "strings", "DT_STRING", [3], {"tensor_content": b"\x03\x00\x01abcd"}
    yield "strings cut", "DT_STRING", [3], {"tensor_content": b"\x03\x00\x01abc"}
    yield "strings and more", "DT_STRING", [3], {"tensor_content": b"\x03\x00\x01abcde"}
    yield "negative", "DT_INT32", [-1], {"int_val": [1]}
    yield "huge", "DT_INT32", [2**62, 4], {"int_val": [1]}
    yield "huge nothing", "DT_INT32", [2**62, 4, 0], {}


def record_tensors():
    recorded = []
    for name, dtype, shape, fields in typed():
        try:
            proto = tensor_pb2.TensorProto(dtype=types_pb2.DataType.Value(dtype), **fields)
            for size in shape:
                proto.tensor_shape.dim.add(size=size)
        except ValueError as error:
            print(f"left out: {name}: {error}")
            continue
        proto.tensor_shape.SetInParent()
        encoded = proto.SerializeToString()
        try:
            made = tensor(tf.io.parse_tensor(encoded, dtypes.as_dtype(proto.dtype)))
        except (tf.errors.InvalidArgumentError, tf.errors.InternalError) as error:
            made = None
        except (TypeError, NotImplementedError) as error:
            print(f"left out: {name}: {error}")
            continue
        recorded.append({"name": name, "proto": encoded.hex(), "made": made})
    return recorded


def specs():
    number = tf.TensorSpec([None], tf.int64)
    yield "scalar", tf.TensorSpec([], tf.float32), [""]
    yield "unknown size", number, [""]
    yield "unknown rank", tf.TensorSpec(None, tf.string), [""]
    yield "named", tf.TensorSpec([2, 3], tf.bool, name="mask"), [""]
    yield "tuple", (number, tf.TensorSpec([], tf.int32)), ["0", "1"]
    yield "list", [number, number], ["0", "1"]
    yield "dict", {"z": number, "B": number, "a": number, "\u00e9": number}, ["B", "a", "z", "\u00e9"]
    yield "nested", {"b": (number, {"y": number, "x": number}), "a": Pair(number, number)}, [
        "a.second", "a.first", "b.0", "b.1.x", "b.1.y"]
    yield "ragged", {"r": tf.RaggedTensorSpec([None, None, 2], tf.int32, 1, tf.int32)}, ["r"]
    yield "sparse", (tf.SparseTensorSpec([None, 4], tf.float64),), ["0"]
    yield "optional", tf.OptionalSpec(number), None
    yield "dataset", tf.data.DatasetSpec(number), None


def record_specs():
    encode = nested_structure_coder.encode_structure
    encoded = lambda spec: encode(spec).SerializeToString(deterministic=True).hex()
    return [{"name": name, "spec": encoded(spec), "components": components}
            for name, spec, components in specs()]


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    for file, record in [("tensors", record_tensors), ("specs", record_specs), ("elements", record_elements)]:
        (out / f"{file}.json").write_text(json.dumps(record(), indent=1, ensure_ascii=True) + "\n")
