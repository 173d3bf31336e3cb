"""Two processes of torch.distributed with gloo over loopback's TCP: one sends a tensor and receives one of
the same size, which the other sends when it has the first. argv has a file for their meeting. One line on
stdin, "BYTES COUNT", asks for so many rounds; one line on stdout answers with the middle and the 99th of
100 of their times, in microseconds.
"""
import multiprocessing
import os
import sys
import time

RENDEZVOUS_S = 60


def joined(rank, meeting):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import datetime

    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=2,
        timeout=datetime.timedelta(seconds=RENDEZVOUS_S))
    return torch, torch.distributed


def told(torch, gloo, bytes_and_count):
    """What rank 0 was asked for, to rank 1."""
    order = torch.tensor(bytes_and_count, dtype=torch.int64)
    gloo.broadcast(order, 0)
    return order.tolist()


def answer(meeting):
    torch, gloo = joined(1, meeting)
    while True:
        size, count = told(torch, gloo, [0, 0])
        if not count:
            return
        there, back = torch.zeros(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8)
        for _ in range(count):
            gloo.recv(there, 0)
            gloo.send(back, 0)


def ask(torch, gloo, size, count):
    told(torch, gloo, [size, count])
    there, back = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        gloo.send(there, 1)
        gloo.recv(back, 1)
        times.append((time.perf_counter_ns() - began) / 1e3)
    # The first ones find caches cold and buffers small, as those of Rondo's workers do.
    times = sorted(times[count // 10:])
    at = lambda part: times[(len(times) - 1) * part // 100]
    return at(50), at(99)


def main():
    meeting = sys.argv[1]
    other = multiprocessing.get_context("spawn").Process(target=answer, args=(meeting,), daemon=True)
    other.start()
    torch, gloo = joined(0, meeting)
    print("ready", flush=True)
    for line in sys.stdin:
        size, count = map(int, line.split())
        middle, last = ask(torch, gloo, size, count)
        print(middle, last, flush=True)
    told(torch, gloo, [0, 0])
    other.join(RENDEZVOUS_S)


if __name__ == "__main__":
    main()
