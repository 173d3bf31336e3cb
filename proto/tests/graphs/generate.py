#!/usr/bin/env python3
"""Records what TensorFlow's own dispatcher does with real dataset graphs.

    python generate.py            (needs tensorflow==2.21.* and grpcio)

For every case below a real client registers a dataset through a recording proxy with TensorFlow's
own DispatchServer behind it. Then the dispatcher is asked, call by call, for a DYNAMIC iteration,
for its splits and for the cleaned definition, while a fake worker catches the task it is sent.
Written to recorded/ beside this file:

    <case>.def           the DatasetDef as the client sent it
    <case>.cleaned.def   the DatasetDef as the dispatcher stored it (a few cases)
    expected.json        what the client said of the elements, and what the dispatcher answered
    structures.json      pairs of element specs and whether the dispatcher takes them for equal
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import struct
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.framework import graph_pb2, tensor_pb2, tensor_shape_pb2, types_pb2  # noqa: E402
from tensorflow.core.protobuf import struct_pb2  # noqa: E402

RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"
DISPATCHER = "/tensorflow.data.DispatcherService/"
SPLITS_RECORDED = 12
# Cases also run with two real workers, to see which ones deliver elements more than once.
MEASURED = ("interleave", "group_by_window", "flat_map", "list_files", "shuffle", "repeat")
FIXTURE_BYTES_MAX = 20 * 1024
CLEANED_KEPT = {"range", "hash_table", "device", "interleave_sequential", "hash_table_in_function"}


# ---- protobuf wire format, just enough --------------------------------------------------------

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def chunk(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at, out = 0, []
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        elif tag & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            value, at = data[at:at + 4], at + 4
        out.append((tag >> 3, value))
    return out


def get(data, field, default):
    found = [value for key, value in fields(data) if key == field]
    return found[-1] if found else default


# ---- the recording proxy and the fake worker --------------------------------------------------

class Proxy(grpc.GenericRpcHandler):
    def __init__(self, channel):
        self.channel = channel
        self.registrations = []

    def service(self, call_details):
        method = call_details.method

        def forward(request, context):
            try:
                reply = self.channel.unary_unary(method)(request)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if method.endswith("/GetOrRegisterDataset"):
                self.registrations.append((request, reply))
            return reply

        return grpc.unary_unary_rpc_method_handler(forward)


class FakeWorker(grpc.GenericRpcHandler):
    def __init__(self):
        self.tasks = []

    def service(self, call_details):
        def accept(request, _context):
            self.tasks.append(get(request, 1, b""))
            return b""

        return grpc.unary_unary_rpc_method_handler(accept)


def serve(handler):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[
        ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers([handler])
    port = server.add_insecure_port("localhost:0")
    server.start()
    return server, f"localhost:{port}"


class Dispatcher:
    """TensorFlow's dispatcher, called with raw bytes."""

    def __init__(self):
        self.server = tf.data.experimental.service.DispatchServer()
        self.address = self.server.target.split("://")[1]
        self.channel = grpc.insecure_channel(self.address, options=[
            ("grpc.max_receive_message_length", -1)])
        self.proxy = Proxy(self.channel)
        self.proxy_server, self.proxy_address = serve(self.proxy)
        self.worker = FakeWorker()
        self.worker_server, worker_address = serve(self.worker)
        self.call("WorkerHeartbeat", chunk(1, worker_address))

    def call(self, method, request):
        return self.channel.unary_unary(DISPATCHER + method)(request)

    def register(self, dataset, compression):
        tf.data.experimental.service.register_dataset(
            "grpc://" + self.proxy_address, dataset, compression=compression)
        request, reply = self.proxy.registrations[-1]
        spec = get(get(request, 3, b""), 1, b"")
        return get(reply, 1, b"").decode(), get(request, 1, b""), spec

    def register_raw(self, definition):
        reply = self.call("GetOrRegisterDataset", chunk(1, definition))
        return get(reply, 1, b"").decode()

    def splits(self, dataset_id):
        """How the dispatcher splits a dataset: sources, or its refusal."""
        mode = number(1, 1)
        job = get(self.call("GetOrCreateJob", chunk(1, dataset_id) + chunk(2, mode)), 1, 0)
        try:
            self.call("GetOrCreateIteration", number(1, job))
        except grpc.RpcError as error:
            return {"code": error.code().value[0], "message": error.details()}
        task = self.worker.tasks[-1]
        iteration, providers = get(task, 5, 0), get(task, 9, 0)
        return {"sources": [self.source(iteration, index) for index in range(providers)]}

    def source(self, iteration, index):
        taken = []
        while len(taken) < SPLITS_RECORDED:
            reply = self.call("GetSplit", number(1, iteration) + number(3, index))
            if get(reply, 2, 0):
                return {"splits": taken, "ended": True}
            tensor = get(reply, 1, b"")
            taken.append(struct.unpack("<q", get(tensor, 4, b""))[0])
        return {"splits": taken, "ended": False}

    def cleaned(self, dataset_id):
        return get(self.call("GetDatasetDef", chunk(1, dataset_id)), 1, b"")


class Cluster:
    """A dispatcher with two real workers, to count what arrives under DYNAMIC sharding."""

    def __init__(self):
        service = tf.data.experimental.service
        self.dispatcher = service.DispatchServer()
        address = self.dispatcher.target.split("://")[1]
        self.workers = [service.WorkerServer(service.WorkerConfig(
            dispatcher_address=address, heartbeat_interval_ms=50)) for _ in range(2)]

    def count(self, dataset):
        service = tf.data.experimental.service
        distributed = dataset.apply(service.distribute(
            service.ShardingPolicy.DYNAMIC, self.dispatcher.target))
        return scalars(distributed)


def scalars(dataset):
    return sum(int(tf.size(tf.nest.flatten(element)[0])) for element in dataset)


# ---- the cases ---------------------------------------------------------------------------------

D = tf.data.Dataset


def write_files():
    for index in range(3):
        with tf.io.TFRecordWriter(f"part-{index}.tfrecord") as out:
            out.write(b"a")
            out.write(b"b")
        pathlib.Path(f"part-{index}.txt").write_text("x\ny\n")


def records(pattern="part-*.tfrecord", shuffle=False):
    return D.list_files(pattern, shuffle=shuffle)


def captured():
    inner = D.range(4)
    return D.from_tensor_slices([5, 6, 7]).map(lambda x: (x, inner.cardinality()))


def captured_in_source():
    inner = D.range(4)
    return D.range(3).flat_map(lambda x: D.zip((inner, D.range(x))))


def hash_table():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(np.arange(3), np.arange(10, 13)), -1)
    return D.range(3).map(table.lookup)


def mutable_table():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    return D.range(3).map(table.lookup)


def hash_table_in_function():
    def lookup(value):
        table = tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name="inner")
        return tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=value, default_value=tf.constant(-1, tf.int64))
    return D.range(3).map(lookup)


def on_device():
    def double(value):
        with tf.device("/device:CPU:0"):
            return value * 2
    return D.range(4).map(double)


def ragged():
    return D.from_tensor_slices(tf.ragged.constant([[1], [2, 3], [], [4]]))


def sparse():
    return D.from_tensor_slices(tf.sparse.from_dense([[0, 1], [2, 0], [0, 0]]))


def generator():
    def numbers():
        yield from range(3)
    return D.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))


def choose():
    return D.choose_from_datasets(
        [D.range(3), D.from_tensor_slices(np.array([7, 8]))], D.range(2).repeat(2))


def sample():
    return D.sample_from_datasets([D.range(3), D.range(10, 15)], weights=[0.5, 0.5], seed=1)


def components():
    return D.from_tensor_slices({"a": np.zeros([5, 2], np.float32), "b": np.arange(5)})


def snapshot():
    return D.range(3).snapshot("snap")


def nested_service(address):
    return lambda: D.range(3).apply(tf.data.experimental.service.distribute(
        tf.data.experimental.service.ShardingPolicy.OFF, "grpc://" + address))


def zip_with_service(address):
    return lambda: D.zip((D.range(3), nested_service(address)()))


def raw(variant, spec=tf.TensorSpec([], tf.int64)):
    from tensorflow.python.data.ops import dataset_ops
    return dataset_ops._VariantDataset(variant, spec)


def bare_tfrecord():
    return raw(tf.raw_ops.TFRecordDataset(
        filenames=["part-0.tfrecord"], compression_type="", buffer_size=0),
        tf.TensorSpec([], tf.string))


def bare_text():
    return raw(tf.raw_ops.TextLineDataset(
        filenames=["part-0.txt"], compression_type="", buffer_size=0),
        tf.TensorSpec([], tf.string))


def csv():
    return tf.data.experimental.CsvDataset(["part-0.txt"], [tf.string])


def sql():
    return tf.data.experimental.SqlDataset("sqlite", "x.db", "select 1", (tf.int32,))


def fixed_length():
    return tf.data.FixedLengthRecordDataset(["part-0.txt", "part-1.txt"], 2)


def loaded():
    D.range(3).save("saved")
    return D.load("saved")


def choose_fastest():
    return raw(
        tf.raw_ops.ChooseFastestDataset(
            input_datasets=[D.range(3)._variant_tensor, D.range(3)._variant_tensor],
            num_experiments=1, output_types=[tf.int64], output_shapes=[[]]))


def choose_fastest_branch():
    """The op has no public constructor; a branch is a function from dataset to dataset."""
    @tf.function(input_signature=[tf.TensorSpec([], tf.variant)])
    def branch(variant):
        return tf.raw_ops.TakeDataset(
            input_dataset=variant, count=tf.constant(-1, tf.int64),
            output_types=[tf.int64], output_shapes=[[]])
    function = branch.get_concrete_function()
    return raw(tf.raw_ops.ChooseFastestBranchDataset(
        input_dataset=D.range(4)._variant_tensor, ratio_numerator=1, ratio_denominator=1,
        other_arguments=[], num_elements_per_branch=2, branches=[function, function],
        other_arguments_lengths=[0, 0], output_types=[tf.int64], output_shapes=[[]]))


def group_by_reducer():
    reducer = tf.data.experimental.Reducer(
        lambda _: np.int64(0), lambda x, y: x + y, lambda x: x)
    return D.range(3).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, reducer))


def nested_list():
    return D.from_tensor_slices([1, 2, 3]).window(2).map(lambda d: d.cardinality())


def list_of_datasets():
    return D.from_tensor_slices([D.range(2), D.range(3), D.range(4)]).flat_map(lambda d: d)


def shuffle_far_interleave():
    return (records().shuffle(3).map(tf.strings.lower).batch(1).unbatch().prefetch(1)
            .interleave(tf.data.TFRecordDataset))


def zip_shuffled_interleave():
    pairs = D.zip((records().shuffle(3), records().shuffle(3)))
    return pairs.interleave(lambda name, _: tf.data.TFRecordDataset(name))


def in_pairs(dataset):
    return dataset.group_by_window(
        lambda _: tf.constant(0, tf.int64), lambda _, group: group.batch(2), window_size=2)


def cases(address):
    small = np.arange(6)
    return {
        "range": lambda: D.range(10),
        "range_stepped": lambda: D.range(3, 40, 7),
        "range_down": lambda: D.range(10, -3, -4),
        "range_empty": lambda: D.range(0),
        "range_wrong_way": lambda: D.range(5, 0),
        "range_large": lambda: D.range(2**62, 2**62 + 3),
        "slices": lambda: D.from_tensor_slices(small),
        "slices_of_components": components,
        "slices_ragged": ragged,
        "slices_sparse": sparse,
        "slices_of_datasets": list_of_datasets,
        "slices_empty": lambda: D.from_tensor_slices(np.zeros([0, 4], np.int32)),
        "list_files": records,
        "list_files_shuffled": lambda: records(shuffle=True),
        "tfrecord": lambda: tf.data.TFRecordDataset(["part-0.tfrecord", "part-1.tfrecord"]),
        "tfrecord_one": lambda: tf.data.TFRecordDataset("part-0.tfrecord"),
        "tfrecord_bare": bare_tfrecord,
        "text_lines": lambda: tf.data.TextLineDataset(["part-0.txt", "part-1.txt"]),
        "text_lines_bare": bare_text,
        "fixed_length": fixed_length,
        "csv": csv,
        "sql": sql,
        "interleave_sequential": lambda: records().interleave(tf.data.TFRecordDataset),
        "interleave_parallel": lambda: records().interleave(
            tf.data.TFRecordDataset, num_parallel_calls=2),
        "flat_map": lambda: records().flat_map(tf.data.TFRecordDataset),
        "flat_map_capturing": captured_in_source,
        "zip": lambda: D.zip((D.range(3), D.from_tensor_slices(small), D.range(10, 0, -5))),
        "zip_nested": lambda: D.zip((D.range(3), (D.range(4).concatenate(D.range(9, 11)),
                                                 D.range(5).repeat(2)))),
        "concatenate": lambda: D.range(2).concatenate(D.range(5, 9)).concatenate(D.range(1)),
        "repeat": lambda: D.range(3).repeat(2),
        "repeat_forever": lambda: D.range(3).repeat(),
        "repeat_none": lambda: D.range(3).repeat(0),
        "sample_from": sample,
        "choose_from": choose,
        "random": lambda: D.random(seed=42).take(10),
        "tensors": lambda: D.from_tensors(small),
        "tensors_repeated": lambda: D.from_tensors(1).repeat(5),
        "generator": generator,
        "list": lambda: tf.data.experimental.from_list([(1, "a"), (2, "b"), (3, "c")]),
        "enumerate": lambda: D.from_tensor_slices(small).enumerate(5),
        "cache": lambda: D.range(4).cache(),
        "window": lambda: D.range(7).window(3).flat_map(lambda w: w.batch(3)),
        "window_cardinality": nested_list,
        "batch": lambda: D.range(7).batch(2, drop_remainder=True).prefetch(1),
        "map_parallel": lambda: D.range(7).map(lambda x: x + 1, num_parallel_calls=2),
        "map_capturing": captured,
        "filter": lambda: D.range(7).filter(lambda x: x > 2),
        "take_skip_shard": lambda: D.range(20).skip(2).take(9).shard(2, 1),
        "scan": lambda: D.range(4).scan(np.int64(0), lambda s, x: (s + x, s)),
        "options": lambda: D.range(4).with_options(tf.data.Options()),
        "group_by_window": lambda: D.range(4).group_by_window(
            lambda x: x % 2, lambda _, d: d.batch(2), window_size=2),
        "group_by_reducer": group_by_reducer,
        "unique": lambda: D.range(4).unique().ignore_errors(),
        "shuffle": lambda: D.range(4).shuffle(4),
        "shuffle_and_repeat": lambda: D.range(4).apply(
            tf.data.experimental.shuffle_and_repeat(4, 2)),
        "shuffle_interleave": lambda: records().shuffle(3).interleave(tf.data.TFRecordDataset),
        "shuffle_far_interleave": shuffle_far_interleave,
        "shuffle_zip_interleave": zip_shuffled_interleave,
        "shuffle_concatenate_interleave": lambda: records().concatenate(
            records().shuffle(3)).interleave(tf.data.TFRecordDataset),
        "shuffle_group_by_window": lambda: in_pairs(records().shuffle(3)),
        "shuffle_and_repeat_interleave": lambda: records().apply(
            tf.data.experimental.shuffle_and_repeat(3, 2)).interleave(tf.data.TFRecordDataset),
        "list_files_shuffled_interleave": lambda: records(shuffle=True).interleave(
            tf.data.TFRecordDataset),
        "repeat_interleave": lambda: records().repeat(2).interleave(tf.data.TFRecordDataset),
        "repeat_once_interleave": lambda: records().repeat(1).interleave(tf.data.TFRecordDataset),
        "repeat_group_by_window": lambda: in_pairs(records().repeat(2)),
        "shuffle_flat_map": lambda: records().shuffle(3).flat_map(tf.data.TFRecordDataset),
        "shuffle_interleave_parallel": lambda: records().shuffle(3).interleave(
            tf.data.TFRecordDataset, num_parallel_calls=2),
        "interleave_shuffle": lambda: records().interleave(tf.data.TFRecordDataset).shuffle(3),
        "snapshot": snapshot,
        "loaded": loaded,
        "service_in_service": nested_service(address),
        "zip_with_service": zip_with_service(address),
        "choose_fastest": choose_fastest,
        "choose_fastest_branch": choose_fastest_branch,
        "hash_table": hash_table,
        "hash_table_mutable": mutable_table,
        "hash_table_in_function": hash_table_in_function,
        "device": on_device,
    }


# ---- hand-made definitions: what the dispatcher answers to graphs no client makes ----------------

def graph_of(data):
    graph = graph_pb2.GraphDef.FromString(get(data, 1, b""))
    graph.library.SetInParent()  # the dispatcher writes an empty library where there was none
    return graph


def definition(graph):
    return chunk(1, graph.SerializeToString())


def retargeted(data, edit):
    graph = graph_pb2.GraphDef.FromString(get(data, 1, b""))
    edit(graph)
    return definition(graph)


def without_retval(graph):
    kept = [node for node in graph.node if node.op != "_Retval"]
    del graph.node[:]
    graph.node.extend(kept)


def dangling(graph):
    for node in graph.node:
        if node.op == "_Retval":
            node.input[0] = "nowhere"


def devices_on_nodes(graph):
    for node in graph.node:
        node.device = "/job:worker/device:CPU:0"


def tables_unshared(graph):
    for node in graph.node:
        if node.op.startswith("HashTable"):
            node.attr["use_node_name_sharing"].b = False


def tables_silent(graph):
    for node in graph.node:
        node.attr.pop("use_node_name_sharing", None)


def hand_made():
    ranged = (RECORDED / "range.def").read_bytes()
    table = (RECORDED / "hash_table.def").read_bytes()
    return {
        "no_graph": b"",
        "empty_graph": definition(graph_pb2.GraphDef()),
        "no_retval": retargeted(ranged, without_retval),
        "dangling_retval": retargeted(ranged, dangling),
        "hash_table_unshared": retargeted(table, tables_unshared),
        "hash_table_silent": retargeted(table, tables_silent),
        "device_on_nodes": retargeted(ranged, devices_on_nodes),
    }


def delivers_twice(cluster, build):
    """Whether two workers under DYNAMIC deliver more elements than the dataset has."""
    return cluster.count(build()) > scalars(build())


# ---- element specs: which ones the dispatcher takes for the same structure --------------------

def spec_pairs():
    """Pairs of serialized StructuredValues, some equal in ways that bytes do not show."""
    def value(**kind):
        return struct_pb2.StructuredValue(**kind)

    def tensor(shape, dtype=types_pb2.DT_INT64, name=""):
        return value(tensor_spec_value=struct_pb2.TensorSpecProto(
            name=name, dtype=dtype, shape=tensor_shape_pb2.TensorShapeProto(
                dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in shape])))

    def many(field, *values):
        holder = struct_pb2.TupleValue if field == "tuple_value" else struct_pb2.ListValue
        return value(**{field: holder(values=values)})

    def numbers(**fields_of_tensor):
        return value(tensor_value=tensor_pb2.TensorProto(
            dtype=types_pb2.DT_INT64, **fields_of_tensor)).SerializeToString()

    a, b = tensor([2]), tensor([3])
    entry_a = chunk(1, chunk(1, "a") + chunk(2, a.SerializeToString()))
    entry_b = chunk(1, chunk(1, "b") + chunk(2, b.SerializeToString()))
    entry_no_value = chunk(1, chunk(1, "a"))
    entry_default = chunk(1, chunk(1, "a") + chunk(2, b""))
    int_spec, text = value(int64_value=0).SerializeToString(), value(string_value="x")
    type_spec = value(type_spec_value=struct_pb2.TypeSpecProto(
        type_spec_class=3, type_state=many("tuple_value", a), num_flat_components=1))
    pair = struct_pb2.PairValue
    named = struct_pb2.NamedTupleValue
    unknown = varint(99 << 3) + varint(5)

    def raw(message):
        return message.SerializeToString()

    return {
        "same bytes": (raw(a), raw(a)),
        "other shape": (raw(a), raw(b)),
        "other dtype": (raw(a), raw(tensor([2], types_pb2.DT_STRING))),
        "other name": (raw(a), raw(tensor([2], name="n"))),
        "dims swapped": (raw(tensor([2, 3])), raw(tensor([3, 2]))),
        "dim more": (raw(tensor([2])), raw(tensor([2, 2]))),
        "unknown rank": (raw(tensor([])), chunk(33, chunk(2, number(3, 1)) + number(3, 9))),
        "dict order": (chunk(53, entry_a + entry_b), chunk(53, entry_b + entry_a)),
        "dict other key": (chunk(53, entry_a), chunk(53, entry_b)),
        "dict repeated key, last equal": (chunk(53, entry_b + entry_a),
                                          chunk(53, entry_no_value + entry_b + entry_a)),
        "dict value absent or default": (chunk(53, entry_no_value), chunk(53, entry_default)),
        "dict in two parts": (chunk(53, entry_a + entry_b), chunk(53, entry_a) + chunk(53, entry_b)),
        "list order": (raw(many("list_value", a, b)), raw(many("list_value", b, a))),
        "list counts": (raw(many("list_value", a, a, b)), raw(many("list_value", a, b, b))),
        "list of two or one": (raw(many("list_value", a, a)), raw(many("list_value", a))),
        "list of a default or none": (chunk(51, chunk(1, b"")), chunk(51, b"")),
        "list or tuple": (raw(many("list_value", a)), raw(many("tuple_value", a))),
        "empty list or empty tuple": (chunk(51, b""), chunk(52, b"")),
        "none or nothing": (chunk(1, b""), b""),
        "none or nothing, within": (chunk(51, chunk(1, chunk(1, b""))), chunk(51, chunk(1, b""))),
        "zero or false": (int_spec, raw(value(bool_value=False))),
        "one or true": (raw(value(int64_value=1)), raw(value(bool_value=True))),
        "one or minus one": (raw(value(int64_value=1)), raw(value(int64_value=-1))),
        "text": (raw(text), raw(value(string_value="y"))),
        "text of a zero byte": (raw(value(string_value="\0")), raw(value(string_value=""))),
        "floats": (raw(value(float64_value=1.0)), raw(value(float64_value=2.0))),
        "last of a oneof": (raw(text) + raw(a), raw(a)),
        "first of a oneof": (raw(a) + raw(text), raw(a)),
        "default written": (chunk(33, chunk(1, "") + chunk(2, b"") + number(3, 9)),
                            chunk(33, number(3, 9))),
        "spec in two parts": (chunk(33, chunk(1, "n")) + chunk(33, number(3, 9)),
                              chunk(33, chunk(1, "n") + number(3, 9))),
        "fields swapped": (chunk(33, number(3, 9) + chunk(1, "n")),
                           chunk(33, chunk(1, "n") + number(3, 9))),
        "long varint": (chunk(33, number(3, 9)), chunk(33, b"\x18\x89\x00")),
        "enum with high bits": (chunk(33, number(3, 9)), chunk(33, number(3, 9 | 1 << 40))),
        "type spec": (raw(type_spec), raw(type_spec) + b""),
        "type spec other state": (raw(type_spec), raw(value(
            type_spec_value=struct_pb2.TypeSpecProto(
                type_spec_class=3, type_state=many("tuple_value", b), num_flat_components=1)))),
        "named tuple order": (
            raw(value(named_tuple_value=named(name="t", values=[
                pair(key="a", value=a), pair(key="b", value=b)]))),
            raw(value(named_tuple_value=named(name="t", values=[
                pair(key="b", value=b), pair(key="a", value=a)])))),
        "named tuple name": (raw(value(named_tuple_value=named(name="t"))),
                             raw(value(named_tuple_value=named(name="u")))),
        "packed or not": (numbers(int64_val=[1, 2]), chunk(55, number(1, 9) + number(10, 1)
                                                           + number(10, 2))),
        "numbers swapped": (numbers(int64_val=[1, 2]), numbers(int64_val=[2, 1])),
        "other numbers": (numbers(int64_val=[1, 2]), numbers(int64_val=[1, 3])),
        "content": (numbers(tensor_content=b"ab"), numbers(tensor_content=b"ba")),
        "unknown field": (raw(a), raw(a) + unknown),
        "same unknown field": (raw(a) + unknown, unknown + raw(a)),
        "int or float field": (numbers(float_val=[0.0]), numbers(double_val=[0.0])),
    }


def same_structure(dispatcher, name, first, second):
    def register(spec):
        metadata = (chunk(1, spec) if spec else b"") + number(2, 1)
        dispatcher.call("GetOrRegisterDataset", chunk(3, metadata) + chunk(4, "spec " + name))

    register(first)
    try:
        register(second)
    except grpc.RpcError as error:
        assert "should have the same structure" in error.details(), error
        return False
    return True


def record_specs(dispatcher):
    pairs = [{"name": name, "first": first.hex(), "second": second.hex(),
              "same": same_structure(dispatcher, name, first, second)}
             for name, (first, second) in spec_pairs().items()]
    (RECORDED / "structures.json").write_text(json.dumps(pairs, indent=1) + "\n")


def record(dispatcher, name, dataset_id, data):
    expected = dispatcher.splits(dataset_id)
    cleaned = dispatcher.cleaned(dataset_id)
    expected["cleaning_changes"] = graph_of(cleaned) != graph_of(data)
    assert len(data) < FIXTURE_BYTES_MAX, (name, len(data))
    (RECORDED / f"{name}.def").write_bytes(data)
    if name in CLEANED_KEPT or expected["cleaning_changes"]:
        (RECORDED / f"{name}.cleaned.def").write_bytes(cleaned)
    return expected


def main():
    work = tempfile.mkdtemp()
    os.chdir(work)
    write_files()
    shutil.rmtree(RECORDED, ignore_errors=True)
    RECORDED.mkdir()
    # A dispatcher holds its lock while it instantiates a graph, and a nested service dataset asks
    # its dispatcher for metadata then: with one dispatcher for both, TensorFlow hangs.
    dispatcher, inner, cluster = Dispatcher(), Dispatcher(), Cluster()
    expected = {}
    for name, build in cases(inner.address).items():
        try:
            dataset_id, data, spec = dispatcher.register(build(), "AUTO")
            expected[name] = record(dispatcher, name, dataset_id, data)
            expected[name]["element_spec"] = spec.hex()
            if any(part in name for part in MEASURED) and name != "repeat_forever":
                expected[name]["delivers_twice"] = delivers_twice(cluster, build)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            raise RuntimeError(f"case {name}") from error
        print(name, json.dumps(expected[name])[-200:], flush=True)
    for name, data in hand_made().items():
        expected[name] = record(dispatcher, name, dispatcher.register_raw(data), data)
        print(name, json.dumps(expected[name])[-200:], flush=True)
    lines = [f"{json.dumps(name)}: {json.dumps(case)}" for name, case in sorted(expected.items())]
    (RECORDED / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    record_specs(dispatcher)
    os.chdir(RECORDED)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
