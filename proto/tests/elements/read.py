"""Has TensorFlow read elements and specs that Rondo wrote.

Usage: python read.py FILE     (needs tensorflow 2.21)
"""

import json
import sys

import generate
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import struct_pb2
from tensorflow.python.framework import dtypes
from tensorflow.python.saved_model import nested_structure_coder

# TensorFlow takes these out of compressed elements only.
UNPARSED = {dtypes.as_dtype(name) for name in generate.SMALL}


def meaning(described):
    """Without the bits of small integers that mean nothing."""
    bits = {29: 0x0F, 30: 0x0F, 31: 0x03, 32: 0x03}.get(described["dtype"], 0xFF)
    values = bytes(byte & bits for byte in bytes.fromhex(described.get("bytes", "")))
    return described["dtype"], described["shape"], described.get("strings"), values


def chunks(message):
    """The components of an UncompressedElement."""
    at = 0
    while at < len(message):
        assert message[at] == 0x0A, message.hex()
        at, length, shift = at + 1, 0, 0
        while True:
            byte, at = message[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield message[at : at + length]
        at += length


def uncompress(element, components):
    field = lambda tag, chunk: bytes([tag]) + generate.varint(len(chunk)) + chunk
    variant = field(0x0A, b"tensorflow.data.CompressedElement") + field(0x12, element)
    content = generate.varint(len(variant)) + variant
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_VARIANT, tensor_content=content)
    proto.tensor_shape.SetInParent()
    return tf.raw_ops.UncompressElement(
        compressed=tf.io.parse_tensor(proto.SerializeToString(), tf.variant),
        output_types=[dtypes.as_dtype(component["dtype"]) for component in components],
        output_shapes=[component["shape"] for component in components],
    )


def check_element(case):
    components = case["components"]
    found = uncompress(bytes.fromhex(case["compressed"]), components)
    for tensor, component in zip(found, components, strict=True):
        assert meaning(generate.tensor(tensor)) == meaning(component), component
    protos = chunks(bytes.fromhex(case["uncompressed"]))
    for proto, component in zip(protos, components, strict=True):
        dtype = dtypes.as_dtype(component["dtype"])
        if dtype in UNPARSED:
            tensor = tf.constant(tf.make_ndarray(tensor_pb2.TensorProto.FromString(proto)), dtype)
        else:
            tensor = tf.io.parse_tensor(proto, dtype)
        assert meaning(generate.tensor(tensor)) == meaning(component), component


cases = json.load(open(sys.argv[1], encoding="utf-8"))
for case in cases["elements"]:
    check_element(case)
known = {name: spec for name, spec, _ in generate.specs()}
for case in cases["specs"]:
    value = struct_pb2.StructuredValue.FromString(bytes.fromhex(case["spec"]))
    spec = nested_structure_coder.decode_proto(value)
    wanted = known[case["name"]]
    assert str(spec).replace("__main__.", "") == str(wanted) or spec == wanted, (spec, wanted)
print(f"{len(cases['elements'])} elements and {len(cases['specs'])} specs are as they should be")
