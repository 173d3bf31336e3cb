"""TensorFlow's WorkerService over grpcio, with messages declared here.

The wheel has the framework's messages, but neither those of the service nor its stubs: what is needed
of them is declared at run time.
"""
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from quiet import tf  # noqa: F401, quiet from here on
from tensorflow.core.framework import device_attributes_pb2, graph_pb2, tensor_pb2
from tensorflow.core.protobuf import named_tensor_pb2

_PACKAGE = "rendezvous_peer"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
}
# Of each message the fields that matter here: number, name, type, with a star before repeated ones.
_MESSAGES = {
    "Empty": [],
    "GetStatusRequest": [],
    "GetStatusResponse": [(1, "device_attributes", "*tensorflow.DeviceAttributes")],
    "RegisterGraphRequest": [
        (1, "session_handle", "string"),
        (2, "graph_def", "tensorflow.GraphDef"),
    ],
    "RegisterGraphResponse": [(1, "graph_handle", "string")],
    "RunGraphRequest": [
        (1, "graph_handle", "string"),
        (2, "step_id", "int64"),
        (3, "send", "*tensorflow.NamedTensorProto"),
        (4, "recv_key", "*string"),
        (11, "request_id", "int64"),
    ],
    "RunGraphResponse": [(1, "recv", "*tensorflow.NamedTensorProto")],
    "RecvTensorRequest": [
        (1, "step_id", "int64"),
        (2, "rendezvous_key", "string"),
        (3, "dma_ok", "bool"),
        (7, "request_id", "int64"),
    ],
    "RecvTensorResponse": [
        (1, "tensor", "tensorflow.TensorProto"),
        (2, "is_dead", "bool"),
        (3, "send_start_micros", "int64"),
        (5, "require_ack", "bool"),
    ],
    "MarkRecvFinishedRequest": [(1, "request_id", "int64")],
    "CleanupGraphRequest": [(1, "step_id", "int64")],
    "CleanupAllRequest": [(1, "container", "*string")],
}


def _declare():
    file = descriptor_pb2.FileDescriptorProto(
        name=_PACKAGE + ".proto", package=_PACKAGE, syntax="proto3")
    for module in (device_attributes_pb2, graph_pb2, tensor_pb2, named_tensor_pb2):
        file.dependency.append(module.DESCRIPTOR.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            label = _Field.LABEL_REPEATED if kind[0] == "*" else _Field.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            kind = kind.lstrip("*")
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, "." + kind
    pool = descriptor_pool.Default()
    pool.Add(file)
    described = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(described[name]) for name in _MESSAGES}


messages = _declare()


class WorkerService:
    """A connection to a worker of TensorFlow's, or to whoever says to be one."""

    def __init__(self, address):
        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self.channel = grpc.insecure_channel(address, options=unlimited)

    def begin(self, method, timeout, **fields):
        """Begins a call, and gives the future of its answer, which is of bytes."""
        request = messages[method + "Request"](**fields).SerializeToString()
        return self.begin_bytes(method, timeout, request)

    def begin_bytes(self, method, timeout, request):
        """Begins a call with these bytes, be they what they may."""
        method = method if "/" in method else "/tensorflow.WorkerService/" + method
        return self.channel.unary_unary(method).future(
            request, timeout=timeout, wait_for_ready=True)
