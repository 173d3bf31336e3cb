"""Records what real tf.data service clients, workers and TensorFlow's own dispatcher say.

Usage: python capture.py OUT_DIR     (needs tensorflow 2.21 and grpcio)

A proxy that knows nothing of the messages stands in front of TensorFlow's dispatcher and of each
worker, and keeps the bytes of every call that succeeded. Of each method it writes the exchanges
whose messages differ in shape (which fields they have), as `OUT_DIR/<Method>.txt`: a line
`> hex` for a request, followed by a line `< hex` for its response.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time

import grpc

EXCHANGES_PER_METHOD = 8
RAW = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

exchanges = []
exchanges_lock = threading.Lock()
proxies = []


class Proxy(grpc.GenericRpcHandler):
    """Hands every unary call on as bytes."""

    def __init__(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(32), options=RAW)
        self.server.add_generic_rpc_handlers((self,))
        self.port = self.server.add_insecure_port("localhost:0")
        self.address = f"localhost:{self.port}"
        self.channel = None
        proxies.append(self)

    def start(self, upstream):
        self.channel = grpc.insecure_channel(upstream, options=RAW)
        self.server.start()

    def service(self, details):
        method = details.method
        # Elements are worker to client traffic, which no dispatcher sees.
        keep = "/tensorflow.data.DispatcherService/" in method or method.endswith("/ProcessTask")

        def call(request, context):
            try:
                response = self.channel.unary_unary(method)(request)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if keep:
                with exchanges_lock:
                    exchanges.append((method.rsplit("/", 1)[1], request, response))
            return response

        return grpc.unary_unary_rpc_method_handler(call)


def started(target, *arguments):
    """TensorFlow's servers and clients hold Python's lock while they wait: each has a process."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.daemon = True
    process.start()
    return process


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def dispatcher(**config):
    port = free_port()
    started(run_dispatcher, dict(config, port=port))
    proxy = Proxy()
    proxy.start(f"localhost:{port}")
    return proxy


def run_dispatcher(config):
    from tensorflow.core.protobuf import service_config_pb2
    from tensorflow.python.data.experimental.service import _pywrap_server_lib

    config = service_config_pb2.DispatcherConfig(protocol="grpc", **config)
    server = _pywrap_server_lib.TF_DATA_NewDispatchServer(config.SerializeToString())
    server.start()
    server.join()


def worker(proxy, front=None, **config):
    port = free_port()
    front = front or Proxy()
    front.start(f"localhost:{port}")
    settings = dict(
        protocol="grpc",
        dispatcher_address=proxy.address,
        worker_address=front.address,
        port=port,
        heartbeat_interval_ms=100,
        dispatcher_timeout_ms=60000,
        **config,
    )
    return started(run_worker, settings), front


def run_worker(settings):
    from tensorflow.core.protobuf import service_config_pb2
    from tensorflow.python.data.experimental.service import _pywrap_server_lib

    config = service_config_pb2.WorkerConfig(**settings)
    server = _pywrap_server_lib.TF_DATA_NewWorkerServer(config.SerializeToString())
    server.start()
    server.join()


def distribute(address, mode, **options):
    from tensorflow.python.data.experimental.ops import data_service_ops

    # The public function has no interval.
    return data_service_ops._distribute(
        mode, f"grpc://{address}", task_refresh_interval_hint_ms=50, **options
    )


def read_in_all_ways(address):
    import tensorflow as tf

    service = tf.data.experimental.service
    numbers = tf.data.Dataset.range(12)
    list(numbers.apply(distribute(address, "parallel_epochs")))
    for _ in range(2):
        list(numbers.apply(distribute(address, "distributed_epoch", job_name="shared")))
    list(numbers.apply(
        distribute(address, "distributed_epoch", compression=None, target_workers="ANY")))
    pairs = numbers.map(lambda x: {"a": x, "b": x})
    service.register_dataset(f"grpc://{address}", pairs, dataset_id="named")
    list(service.from_dataset_id(
        "parallel_epochs", f"grpc://{address}", "named", element_spec=pairs.element_spec,
        job_name="by id"))
    cache = service.CrossTrainerCache(trainer_id="trainer")
    endless = numbers.repeat().apply(
        distribute(address, "parallel_epochs", job_name="cached", cross_trainer_cache=cache))
    list(endless.take(5))


def read_in_rounds(address, index):
    import tensorflow as tf

    rounds = tf.data.Dataset.range(100).repeat().apply(
        distribute(address, "parallel_epochs", job_name="rounds", num_consumers=2,
                   consumer_index=index))
    for _ in rounds:
        time.sleep(0.005)


def read_statically(address):
    import tensorflow as tf

    policy = tf.data.experimental.service.ShardingPolicy.DATA
    list(tf.data.Dataset.range(4).apply(distribute(address, policy)))


def read_once(address):
    import tensorflow as tf

    list(tf.data.Dataset.range(3).apply(distribute(address, "distributed_epoch")))


def change_workers_while_two_consumers_read(proxy):
    consumers = [started(read_in_rounds, proxy.address, index) for index in (0, 1)]
    time.sleep(20)
    late, front = worker(proxy)
    time.sleep(20)
    late.kill()
    front.server.stop(0)
    time.sleep(15)
    for consumer in consumers:
        consumer.kill()


def ask_for_what_only_tools_ask(proxy):
    channel = grpc.insecure_channel(proxy.address, options=RAW)
    base = "/tensorflow.data.DispatcherService/"
    channel.unary_unary(base + "GetWorkers")(b"")
    channel.unary_unary(base + "GetDatasetDef")(b"\x0a\x041000")


def shape(message, depth=0):
    """The set of fields, two levels deep, as far as bytes can be read as messages."""
    fields, at = set(), 0
    try:
        while at < len(message):
            key, at = varint(message, at)
            number, kind = key >> 3, key & 7
            if number == 0:
                return None
            if kind == 0:
                _, at = varint(message, at)
                fields.add((number, kind))
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
                fields.add((number, kind))
            elif kind == 2:
                size, at = varint(message, at)
                inner = shape(message[at:at + size], depth + 1) if depth < 1 else None
                at += size
                fields.add((number, kind, inner))
            else:
                return None
    except IndexError:
        return None
    return frozenset(fields) if at == len(message) else None


def varint(message, at):
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def write(out):
    seen = {}
    for method, request, response in exchanges:
        kept = seen.setdefault(method, {})
        key = (shape(request), shape(response))
        size = len(request) + len(response)
        if key not in kept or size < len(kept[key][0]) + len(kept[key][1]):
            kept[key] = (request, response)
    for method, kept in sorted(seen.items()):
        chosen = sorted(kept.values(), key=lambda pair: len(pair[0]) + len(pair[1]))
        # The smallest, and those with most in them.
        chosen = chosen[:1] + chosen[1:][-(EXCHANGES_PER_METHOD - 1):]
        lines = [f"> {request.hex()}\n< {response.hex()}\n" for request, response in chosen]
        (out / f"{method}.txt").write_text("".join(lines))
        print(method, len(kept), [len(line) for line in lines])


def main():
    out = pathlib.Path(sys.argv[1]).absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(tempfile.mkdtemp())
    durable = dispatcher(work_dir="work_dir", fault_tolerant_mode=True)
    worker(durable, worker_tags=["rack a", "tagged"])
    front = Proxy()
    listed = dispatcher(worker_addresses=["elsewhere", front.address], deployment_mode=2)
    worker(listed, front=front)
    plain = dispatcher()
    worker(plain)
    clients = [
        started(read_in_all_ways, durable.address),
        started(read_statically, listed.address),
        started(read_once, plain.address),
    ]
    for client in clients:
        client.join(120)
    change_workers_while_two_consumers_read(durable)
    ask_for_what_only_tools_ask(durable)
    write(out)
    for proxy in proxies:
        proxy.server.stop(0)


if __name__ == "__main__":
    main()
