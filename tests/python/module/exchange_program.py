"""A process of an exchange as StepMesh's users write them, run with its environment variables.

Says what it has seen. With `torch` as its first argument tensors are torch's, with `cuda` they are on the
GPU that STEPMESH_GPU names, else NumPy's.
"""
import sys

ROUNDS = 20
HIDDEN = 256


def tensors_of(kind):
    if kind in ("torch", "cuda"):
        import torch
        how = {"dtype": torch.float32, "device": "cpu" if kind == "torch" else "cuda:0"}
        return (lambda rows, value: torch.full((rows, HIDDEN), value, **how),
                lambda rows: torch.zeros((rows, HIDDEN), **how),
                lambda tensor: tensor.double().mean().item())
    import numpy
    return (lambda rows, value: numpy.full((rows, HIDDEN), value, numpy.float32),
            lambda rows: numpy.zeros((rows, HIDDEN), numpy.float32),
            lambda tensor: float(tensor.mean()))


def worker(f, rank, servers, full, zeros, mean):
    for number in range(ROUNDS):
        rows = 1 + number % 7
        key = number % 3 << 8 | rank << 16
        pushes = [full(rows, number + 1000 * rank), full(rows, 0.5)]
        pulls = [zeros(rows) for _ in range(servers)]
        handler = f.push_pull(pushes, [key, key + 1], pulls, [key + (1 << 24)] * servers, need_event=True)
        assert len(f.get_all_handlers(handler)) == 3
        f.wait(handler, timeout_ms=60000)
        for server, pull in enumerate(pulls):
            assert mean(pull) == number + 1000 * rank + 0.5 + 100 * server, (number, mean(pull))
        trace = f.fetch_trace(handler)
        assert len(trace) == 8 and trace[0] <= trace[7] <= f.get_nanosecond()
    f.barrier(include_server=True, include_client=True)
    try:
        f.wait(handler)
    except RuntimeError as error:
        assert str(handler) in str(error)
    # respond_vec: everybody gets the leading rows of the one buffer.
    pulls = [zeros(2 + rank) for _ in range(servers)]
    keys = [7 | rank << 16]
    f.wait(f.push_pull([full(2 + rank, 1.0)], keys, pulls, [9] * servers), 60000)
    assert all(mean(pull) == 4.0 for pull in pulls)
    # Pushes that ask for nothing, answered late with nothing.
    for _ in range(2):
        f.wait(f.push_pull([full(1, 1.0)] * 2, [20 + rank, 40 + rank], [], []), 60000)
    # The stream waits for the answer: on a GPU by wait() alone.
    pulls = [zeros(3) for _ in range(servers)]
    notify = notifier(f)
    handler = f.push_pull([full(3, 2.0)], [60 + rank], pulls, [9] * servers)
    if notify is None:
        f.wait(handler, 60000)
    else:
        notify.stream_wait_event(handler)
        notify.wait_event_done()
    assert all(mean(pull) == 3.0 for pull in pulls)


def notifier(f):
    """What lets a stream wait; None on a GPU, where it says that there is none."""
    notify = f.SimpleNotify()
    try:
        notify.init()
    except RuntimeError as error:
        assert sys.argv[1] == "cuda" and "cuda:0" in str(error), error
        return None
    assert sys.argv[1] != "cuda"
    return notify


def server(f, rank, workers, full, zeros, mean):
    buffer = zeros(8 * workers)
    f.register_recv_buffer(buffer, list(range(workers)), [rank << 16 for rank in range(workers)])
    for _ in range(ROUNDS):
        batch = f.get_batch()
        assert [keys[0] >> 16 for _, _, keys in batch] == list(range(workers))
        for handler, (one, half), keys in batch:
            assert keys[1] == keys[0] + 1 and tuple(one.shape) == tuple(half.shape)
            f.respond([one + half + 100 * rank], handler, need_event=sys.argv[1] == "cuda")
    f.barrier(include_server=True, include_worker=True)
    batch = f.get_batch()
    answer = full(2 + workers, 4.0)
    f.respond_vec(answer, [tensors[0] for _, tensors, _ in batch], [handler for handler, _, _ in batch])
    first, second = f.get_batch(), f.get_batch()
    for handler, _, _ in [*first, *second]:
        f.respond([], handler)
    for handler, (two,), _ in last_batch(f):
        assert sys.argv[1] != "cuda" or two.is_cuda
        f.respond([two + 1], handler, need_event=True)


def last_batch(f):
    notify = notifier(f)
    if notify is None:
        return f.get_batch()
    notify.block_now_stream_and_get_batch()
    notify.block_now_stream()
    return notify.get_future_batch_data()


def main():
    import os
    makers = tensors_of(sys.argv[1])
    import fserver_lib as f
    f.init()
    role = os.environ["DMLC_ROLE"]
    rank = int(os.environ.get("DMLC_NODE_RANK", "0"))
    if role == "worker":
        worker(f, rank, int(os.environ["DMLC_NUM_SERVER"]), *makers)
    elif role == "server":
        server(f, rank, int(os.environ["DMLC_NUM_WORKER"]), *makers)
    f.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
