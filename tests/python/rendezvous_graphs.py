"""Graphs of one worker that send and receive tensors.

A graph is described by `sends` and `recvs`. Of a send: `edge`, `dtype` (its number), and either
`shape` with `hex` (its content), with `seed` (see `pattern`), or with `strings` (each in
hexadecimal); `dead` makes the tensor that of a branch not taken; `handle` makes it the handle of a
variable instead. Of a receive: `edge`, `dtype`,
`incarnation` of the sender's device, and `back`, the edge on which it goes back: squared if `squared`
is set, else as it came.
"""
import itertools

import numpy as np

from quiet import tf
from tensorflow.core.framework import graph_pb2, node_def_pb2, tensor_pb2

DT_FLOAT, DT_BOOL = 1, 10
HERE = "/job:worker/replica:0/task:0/device:CPU:0"
THERE = "/job:worker/replica:0/task:1/device:CPU:0"
# Kernels are kept by their nodes' names for as long as the session lives: each name is used once.
_numbers = itertools.count()


def pattern(size, seed):
    """Bytes that can be told from those of another seed and place."""
    places = np.arange(size, dtype=np.uint64)
    return ((places * 131 + places // 251 + seed) % 256).astype(np.uint8).tobytes()


def signed(number):
    """A u64 as the i64 of the same bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def build(described, incarnation):
    """The graph, as a GraphDef, of the worker whose device has this incarnation."""
    graph = graph_pb2.GraphDef()
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    for send in described.get("sends", []):
        value = _handle(graph) if send.get("handle") else _constant(graph, _tensor(send))
        if send.get("dead"):
            value = _dead(graph, value, send["dtype"])
        _send(graph, value, send["edge"], send["dtype"], incarnation)
    for recv in described.get("recvs", []):
        value = _recv(graph, recv)
        if recv.get("squared"):
            value = _node(graph, "Mul", [value, value], T=recv["dtype"]).name
        if "back" in recv:
            _send(graph, value, recv["back"], recv["dtype"], incarnation)
    return graph


def _tensor(send):
    tensor = tensor_pb2.TensorProto(dtype=send["dtype"])
    for size in send["shape"]:
        tensor.tensor_shape.dim.add(size=size)
    if "strings" in send:
        tensor.string_val.extend(bytes.fromhex(value) for value in send["strings"])
    elif "hex" in send:
        tensor.tensor_content = bytes.fromhex(send["hex"])
    else:
        content = pattern(send["bytes"], send["seed"])
        if send["dtype"] == DT_BOOL:
            content = bytes(byte & 1 for byte in content)
        tensor.tensor_content = content
    return tensor


def _node(graph, op, inputs, **types):
    node = graph.node.add(
        name="%s-%d" % (op.strip("_"), next(_numbers)), op=op, device=HERE, input=inputs)
    for name, dtype in types.items():
        node.attr[name].type = dtype
    return node


def _constant(graph, tensor):
    node = _node(graph, "Const", [], dtype=tensor.dtype)
    node.attr["value"].tensor.CopyFrom(tensor)
    return node.name


def _handle(graph):
    node = _node(graph, "VarHandleOp", [], dtype=DT_FLOAT)
    node.attr["shape"].shape.SetInParent()
    return node.name


def _dead(graph, value, dtype):
    """The way out of a switch that is not taken."""
    no = _constant(graph, tf.make_tensor_proto(False))
    return _node(graph, "Switch", [value, no], T=dtype).name + ":1"


def _edge(node, edge, source, destination, incarnation):
    node.attr["tensor_name"].s = edge.encode()
    node.attr["send_device"].s = source.encode()
    node.attr["recv_device"].s = destination.encode()
    node.attr["send_device_incarnation"].i = signed(incarnation)
    node.attr["client_terminated"].b = False


def _send(graph, value, edge, dtype, incarnation):
    _edge(_node(graph, "_Send", [value], T=dtype), edge, HERE, THERE, incarnation)


def _recv(graph, recv):
    node = _node(graph, "_Recv", [], tensor_type=recv["dtype"])
    _edge(node, recv["edge"], THERE, HERE, recv["incarnation"])
    return node.name
