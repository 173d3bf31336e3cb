"""A TensorFlow worker, task 0 of two, that does what it is told on its standard input.

The other task is at the address given. Every line in is a command, `{"id": 7, "do": "run", ...}`; its
answer, a line out, comes whenever it is known: `{"id": 7, "ok": ...}`, or `{"id": 7, "code": "ABORTED",
"text": ..., "details": the status's details in hexadecimal}`. Calls go out through grpcio, to this
worker or to whichever address the command names. Ends when its standard input does.
"""
import argparse
import itertools
import json
import os
import sys
import threading

from quiet import tf
from rendezvous_graphs import build
from tensorflow.core.protobuf import rpc_options_pb2
from worker_service import WorkerService, messages

# Longer than any test waits, so that nothing hangs for ever.
LONGEST_S = 300


class Peer:
    """The worker and the calls that are under way."""

    def __init__(self, address):
        self.address = address
        self.services = {}
        self.calls = {}
        # A worker takes ids of all kinds of requests for the same when their numbers are.
        self.requests = itertools.count(1 << 40)
        self.says = threading.Lock()

    def service(self, command):
        address = command.get("address", self.address)
        return self.services.setdefault(address, WorkerService(address))

    def obey(self, command):
        """Begins what is to be done; what comes of it is said later."""
        do, id = command["do"], command["id"]
        if do == "cancel":
            self.calls[command["of"]].cancel()
            return self.say({"id": id, "ok": {}})
        call, understood = getattr(self, "do_" + do)(command)
        self.calls[id] = call
        call.add_done_callback(lambda call: self.say({"id": id, **outcome(call, understood)}))

    def say(self, what):
        with self.says:
            print(json.dumps(what), flush=True)

    def begin(self, command, method, **fields):
        return self.service(command).begin(method, command.get("timeout_s", LONGEST_S), **fields)

    def do_status(self, command):
        """The devices' incarnations."""
        def understood(answer):
            devices = messages["GetStatusResponse"].FromString(answer).device_attributes
            return {device.name: device.incarnation for device in devices}
        return self.begin(command, "GetStatus"), understood

    def do_register(self, command):
        """A graph, as `rendezvous_graphs` describes them. Gives its handle."""
        def understood(answer):
            return messages["RegisterGraphResponse"].FromString(answer).graph_handle
        graph = build(command, command["own_incarnation"])
        return self.begin(command, "RegisterGraph", graph_def=graph), understood

    def do_run(self, command):
        request = next(self.requests)
        fields = {"graph_handle": command["graph"], "step_id": command["step"]}
        return self.begin(command, "RunGraph", request_id=request, **fields), nothing

    def do_recv(self, command):
        """Writes the answer's bytes to the file `into`; else says them in hexadecimal."""
        def understood(answer):
            if "into" not in command:
                return answer.hex()
            with open(command["into"], "wb") as file:
                file.write(answer)
            return len(answer)
        fields = {"step_id": command["step"], "rendezvous_key": command["key"]}
        return self.begin(command, "RecvTensor", request_id=command["request"], **fields), understood

    def do_finished(self, command):
        return self.begin(command, "MarkRecvFinished", request_id=command["request"]), nothing

    def do_cleanup(self, command):
        return self.begin(command, "CleanupGraph", step_id=command["step"]), nothing

    def do_cleanup_all(self, command):
        return self.begin(command, "CleanupAll"), nothing

    def do_bytes(self, command):
        """Any method with any bytes."""
        timeout, body = command.get("timeout_s", LONGEST_S), bytes.fromhex(command["hex"])
        return self.service(command).begin_bytes(command["method"], timeout, body), bytes.hex


def nothing(_answer):
    return {}


def outcome(call, understood):
    """What came of a call that ended."""
    code = call.code().name
    if code == "OK":
        return {"ok": understood(call.result())}
    details = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return {"code": code, "text": call.details(), "details": details.hex()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="where this worker listens")
    parser.add_argument("--other", required=True, help="host:port of task 1")
    parser.add_argument("--caches", action="store_true", help="keep answers until they are acknowledged")
    opts = parser.parse_args()
    address = "localhost:%d" % opts.port
    config = tf.compat.v1.ConfigProto(
        rpc_options=rpc_options_pb2.RPCOptions(cache_rpc_response=opts.caches))
    cluster = {"worker": [address, opts.other]}
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0, config=config)
    assert server.target == "grpc://" + address, server.target
    peer = Peer(address)
    peer.say({"ready": address})
    for line in sys.stdin:
        peer.obey(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
