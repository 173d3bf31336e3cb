"""Two of TensorFlow's workers, each a process of its own, and a session in which one receives tensors of
the other: argv says how many at once, and how many bytes each has. One line on stdin, "COUNT", asks for
so many; one line on stdout answers with bytes and seconds.
"""
import multiprocessing
import os
import socket
import sys
import time


def tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    return tf


def work(cluster, task):
    tf = tensorflow()
    tf.distribute.Server(cluster, job_name="worker", task_index=task).join()


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def main():
    at_once, size = int(sys.argv[1]), int(sys.argv[2])
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    cluster = {"worker": addresses}
    for task in range(2):
        multiprocessing.Process(target=work, args=(cluster, task), daemon=True).start()
    v1 = tensorflow().compat.v1
    v1.disable_eager_execution()
    with v1.device("/job:worker/task:1/cpu:0"):
        zeros = v1.zeros_initializer()
        held = [
            v1.get_variable(f"v{i}", [size], v1.uint8, initializer=zeros, use_resource=True)
            for i in range(at_once)
        ]
    with v1.device("/job:worker/task:0/cpu:0"):
        # The last byte of each: the whole tensor must come for it.
        got = v1.group(*[v1.identity(it.read_value())[-1:] for it in held])
    with v1.Session(f"grpc://{addresses[0]}") as session:
        session.run(v1.global_variables_initializer())
        session.run(got)
        print("ready", flush=True)
        for line in sys.stdin:
            runs = max(1, int(line) // at_once)
            began = time.perf_counter()
            for _ in range(runs):
                session.run(got)
            print(runs * at_once * size, time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
