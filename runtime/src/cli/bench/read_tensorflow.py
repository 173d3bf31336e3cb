"""Reads TFRecord files through TensorFlow's own tf.data service: a dispatcher, two workers and a
client, each a process of its own. One line on stdin, "BATCH", asks for one epoch with batches of so
many records, 0 for none; one line on stdout answers with records and seconds.
"""
import multiprocessing
import os
import sys
import time


def service():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow, tensorflow.data.experimental.service


def dispatch(ready):
    _, api = service()
    server = api.DispatchServer(api.DispatcherConfig(port=0))
    ready.put(server.target)
    server.join()


def work(address, ready):
    _, api = service()
    server = api.WorkerServer(api.WorkerConfig(dispatcher_address=address))
    ready.put(None)
    server.join()


def start(what, *arguments):
    multiprocessing.Process(target=what, args=arguments, daemon=True).start()


def epoch(tensorflow, api, target, files, batch):
    records = tensorflow.data.TFRecordDataset(files)
    if batch:
        records = records.batch(batch)
    records = records.apply(api.distribute("distributed_epoch", target))
    began, count = time.monotonic(), 0
    for element in records.as_numpy_iterator():
        count += len(element) if batch else 1
    return count, time.monotonic() - began


def main(files):
    multiprocessing.set_start_method("spawn")
    ready = multiprocessing.Queue()
    start(dispatch, ready)
    target = ready.get()
    for _ in range(2):
        start(work, target.split("://")[1], ready)
    tensorflow, api = service()
    for _ in range(2):
        ready.get()
    print("ready", flush=True)
    for line in sys.stdin:
        count, seconds = epoch(tensorflow, api, target, files, int(line))
        print(count, seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
