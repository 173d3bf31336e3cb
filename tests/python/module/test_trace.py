"""Traces of an exchange, read by who knows nothing of Rondo."""
import os
import threading
import time

import numpy
import pytest

import rondo
from conftest import PATIENCE_S, together
from trace_reader import Trace

WORK_S = 0.005


@pytest.fixture
def traced():
    """Two workers and a server that have exchanged some tensors, and their scheduler."""
    scheduler = rondo.ExchangeScheduler(workers=2, servers=1)

    def make(role):
        return lambda: rondo.Exchange(role, scheduler.address, workers=2, servers=1)

    made = together([make("worker"), make("worker"), make("server")])
    made.sort(key=lambda exchange: (exchange.role != "worker", exchange.rank))
    *workers, server = made

    def serve():
        for _ in range(8):
            for unit in server.get_batch(timeout=PATIENCE_S):
                time.sleep(WORK_S)
                server.respond(unit.handler, [tensor.numpy() * 2 for tensor in unit.tensors])

    def work(worker):
        push, pull = numpy.arange(100.0), numpy.zeros(100)
        # Two at once: with keys of their own.
        for number in range(4):
            both = [worker.exchange([push], [2 * number + at], [numpy.zeros_like(pull)], [7])
                    for at in range(2)]
            [worker.wait(handler, PATIENCE_S) for handler in both]

    threads = [threading.Thread(target=serve)]
    threads += [threading.Thread(target=work, args=(worker,)) for worker in workers]
    [thread.start() for thread in threads]
    [thread.join(PATIENCE_S) for thread in threads]
    yield scheduler, workers, server
    for one in [*made, scheduler]:
        one.close()


def test_a_trace_of_everybody(traced, tmp_path):
    scheduler, _, _ = traced
    path = tmp_path / "trace.json"
    clocks = rondo.trace(path, scheduler.address)
    assert sorted(process for process, *_ in clocks) == ["server 0", "worker 0", "worker 1"]
    for process, ahead, error, round_trip in clocks:
        # One host, one clock, but for when each process read it first.
        assert abs(ahead) <= error + 1e7 and 0 < error < 1e9 and round_trip > 0, process
    trace = Trace(path)
    assert trace.about["clock"] == "scheduler"
    known = {it["process"]: it for it in trace.about["processes"]}
    assert [known[process]["offset_ns"] for process, *_ in clocks] == [it[1] for it in clocks]
    assert known["worker 0"]["passages"] == 16 and known["worker 0"]["left_out"] == 0
    slack = 2e-3 * sum(error for _, _, error, _ in clocks)
    waits = [*trace.slices("worker 0", "pull"), *trace.slices("worker 1", "pull")]
    served = trace.slices("server 0", "pull")
    assert len(waits) == len(served) == 16
    for start, end in served:
        assert end - start >= WORK_S * 1e6
        assert any(a - slack <= start and end <= b + slack for a, b in waits)
    assert len(trace.of("s")) == len(trace.of("f")) == 2 * 2 * 16


def test_a_trace_of_one_worker(traced, tmp_path):
    _, (worker, other), server = traced
    path = tmp_path / "trace.json"
    clocks = dict((process, (ahead, error)) for process, ahead, error, _ in worker.trace(str(path)))
    assert clocks["worker 0"] == (0, 0)
    assert clocks["server 0"] == worker.clock_offset(0)
    trace = Trace(path)
    assert trace.about["clock"] == "worker 0"
    assert len(trace.slices("worker 0", "push")) == 8
    with pytest.raises(rondo.FailedPrecondition, match="only a worker"):
        server.trace(path)
    with pytest.raises(rondo.FailedPrecondition, match="2 workers"):
        rondo.trace(path)
    other.close()
    assert rondo.trace(path) == worker.trace(path)


def test_what_cannot_be_traced(traced, tmp_path):
    scheduler, workers, _ = traced
    with pytest.raises(OSError, match="cannot be written to .*nowhere"):
        rondo.trace(tmp_path / "nowhere" / "trace.json", scheduler.address)
    with pytest.raises(rondo.Unavailable, match="no scheduler of an exchange answers"):
        rondo.trace(tmp_path / "trace.json", "127.0.0.1:9")
    empty = rondo.ExchangeScheduler(workers=1, servers=1)
    with pytest.raises(rondo.FailedPrecondition, match="nobody takes part"):
        rondo.trace(tmp_path / "trace.json", empty.address)
    empty.close()
    [worker.close() for worker in workers]
    with pytest.raises(rondo.FailedPrecondition, match="no worker of an exchange"):
        rondo.trace(tmp_path / "trace.json")
    assert os.listdir(tmp_path) == []
