"""The exchange: `rondo.Exchange` with threads of this process, `fserver_lib` with processes."""
import glob
import importlib.util
import os
import signal
import socket
import sys
import tempfile
import threading
import time

import numpy
import pytest

import rondo
from conftest import PATIENCE_S, Process, together

PROGRAM = os.path.join(os.path.dirname(__file__), "exchange_program.py")


@pytest.fixture
def exchanges():
    """Starts a scheduler, workers and servers; what is left of them is closed with the test."""
    opened = []

    def start(workers=1, servers=1, **settings):
        scheduler = rondo.ExchangeScheduler(workers=workers, servers=servers)
        opened.append(scheduler)

        def make(role):
            return lambda: rondo.Exchange(
                role, scheduler.address, workers=workers, servers=servers, **settings)

        made = together([make("worker")] * workers + [make("server")] * servers)
        opened.extend(made)
        made.sort(key=lambda exchange: (exchange.role != "worker", exchange.rank))
        return made[:workers], made[workers:]

    yield start
    for one in opened:
        one.close()


def doubling(server, rounds):
    for _ in range(rounds):
        for unit in server.get_batch(timeout=PATIENCE_S):
            server.respond(unit.handler, [tensor.numpy() * 2 for tensor in unit.tensors])


@pytest.mark.parametrize("ways", [{}, {"shared_bytes": 0}, {"shared_bytes": 0, "unix": False}])
def test_what_is_pushed_is_answered(exchanges, ways):
    (worker,), servers = exchanges(1, 2, **ways)
    threads = [threading.Thread(target=doubling, args=(server, 10)) for server in servers]
    [thread.start() for thread in threads]
    for number in range(10):
        push = numpy.arange(1000 * number + 1, dtype=numpy.int64)
        pulls = [numpy.zeros_like(push), numpy.zeros_like(push)]
        handler = worker.exchange([push], [1], pulls, [2, 3])
        assert worker.get_all_handlers(handler) == [handler, handler + 1]
        assert worker.wait(handler, PATIENCE_S) == []
        assert all((pull == 2 * push).all() for pull in pulls)
        assert worker.get_all_handlers(handler) == [handler]
    [thread.join(PATIENCE_S) for thread in threads]
    assert worker.membership()[1] == [("server", 0, "up"), ("server", 1, "up"), ("worker", 0, "up")]
    together([lambda it=it: it.stop(PATIENCE_S) for it in (worker, *servers)])


def test_what_is_wrong_is_named_where_it_is_given(exchanges):
    (worker,), (server,) = exchanges()
    array = numpy.zeros((4, 4), numpy.float32)
    fixed = numpy.frombuffer(b"12345678", numpy.float32)
    for wrong, words in [
        (lambda: worker.exchange([array], [1, 2], [], []), "push_tensors are 1 and push_keys are 2"),
        (lambda: worker.exchange([array, array.T[:3]], [1, 2], [], []), r"push_tensors\[1\].*not contiguous"),
        (lambda: worker.exchange([array], [1], [fixed], [2]), r"pull_tensors\[0\].*read-only"),
        (lambda: worker.exchange([array], [1], ["x"], [2]), r"pull_tensors\[0\]: str is no tensor"),
        (lambda: worker.exchange([numpy.zeros((1,) * 9)], [1], [], []), "9 dimensions"),
        (lambda: worker.wait(77, 1), "77"),
        (lambda: worker.get_batch(), "worker"),
        (lambda: server.respond(77, []), "77"),
        (lambda: server.get_batch(0.1, partial="often"), "up_members_only"),
        (lambda: rondo.Exchange("boss", "127.0.0.1:1"), "worker or server"),
        (lambda: rondo.Exchange("worker", "127.0.0.1:1", spinning=1), "no setting"),
        (lambda: server.barrier(servers=False, workers=False), "barrier of nobody"),
    ]:
        with pytest.raises(rondo.RondoError, match=words):
            wrong()
    with pytest.raises(rondo.DeadlineExceeded):
        server.get_batch(0.1)
    handler = worker.exchange([array], [1], [array.copy()], [2])
    with pytest.raises(rondo.DeadlineExceeded, match=str(handler)):
        worker.wait(handler, 0.1)
    (unit,) = server.get_batch(PATIENCE_S)
    assert unit.keys == [1] and unit.worker == 0 and unit.pulls == [(2, 64)]
    with pytest.raises(rondo.InvalidArgument):
        server.respond(unit.handler, [numpy.zeros(3)])
    server.respond(unit.handler, [array])
    with pytest.raises(rondo.FailedPrecondition):
        server.respond(unit.handler, [array])
    assert worker.wait(handler, PATIENCE_S) == []


def test_rows_land_in_registered_memory_and_are_answered_by_offset(exchanges):
    workers, (server,) = exchanges(2, 1)
    buffer = numpy.zeros((2, 4), numpy.float32)
    server.register_recv_buffer(buffer, [0, 1], [5, 5])
    pulls = [numpy.zeros((1, 4), numpy.float32) for _ in workers]
    handlers = [worker.exchange([numpy.full(4, rank + 1, numpy.float32)], [5], [pull], [6])
                for rank, (worker, pull) in enumerate(zip(workers, pulls))]
    units = server.get_batch(PATIENCE_S)
    assert buffer.tolist() == [[1] * 4, [2] * 4]
    assert [unit.tensors[0].pointer for unit in units] == [buffer.ctypes.data, buffer.ctypes.data + 16]
    answers = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    server.respond_rows(answers, [(unit.handler, 1 + unit.worker, 1) for unit in units])
    for worker, handler in zip(workers, handlers):
        worker.wait(handler, PATIENCE_S)
    assert [pull.tolist() for pull in pulls] == [[[4, 5, 6, 7]], [[8, 9, 10, 11]]]


def test_gpus_are_looked_for_only_when_they_are_wanted():
    def start(**settings):
        with pytest.raises((rondo.FailedPrecondition, rondo.DeadlineExceeded, rondo.Unavailable)) as raised:
            rondo.Exchange("worker", "127.0.0.1:1", join_timeout=0.2, **settings)
        return raised.value
    assert not isinstance(start(cuda=False), rondo.FailedPrecondition)
    why = start(cuda=True, staging_bytes=1 << 20)
    if isinstance(why, rondo.FailedPrecondition):
        assert "libcuda.so.1 is not found" in str(why)


def test_a_dead_server_is_an_error_in_bounded_time(exchanges):
    (worker,), (server,) = exchanges(reconnect_grace=0.3, heartbeat_timeout=2)
    handler = worker.exchange([numpy.zeros(4)], [1], [numpy.zeros(4)], [2])
    threading.Timer(0.2, server.close).start()
    began = time.monotonic()
    with pytest.raises(rondo.PeerLost) as caught:
        worker.wait(handler, PATIENCE_S)
    assert time.monotonic() - began < 20
    assert (caught.value.role, caught.value.rank) == ("server", 0)
    assert caught.value.code is rondo.Code.UNAVAILABLE


def test_an_address_that_other_machines_can_reach_is_refused_unless_it_is_allowed():
    def scheduler(**settings):
        rondo.ExchangeScheduler("0.0.0.0", **settings).close()

    def server(**settings):
        rondo.Exchange("server", "127.0.0.1:1", host="0.0.0.0", join_timeout=0.2, **settings)

    for start in (scheduler, server):
        words = r"0\.0\.0\.0:0 can be reached.*--insecure.*RONDO_INSECURE.*`insecure`"
        with pytest.raises(rondo.InvalidArgument, match=words):
            start()
    scheduler(insecure=True)
    with pytest.raises((rondo.DeadlineExceeded, rondo.Unavailable)):
        server(insecure=True)


def test_a_forked_child_leaves_the_exchange_to_its_parent(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        scheduler = rondo.ExchangeScheduler(workers=1, servers=1)
        start = lambda role: lambda: rondo.Exchange(role, scheduler.address, shared_bytes=0)
        worker, server = together([start("worker"), start("server")])
        (path,) = glob.glob(os.path.join(folder, "rondo-exchange-*", "*.sock"))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(10)
                for one in (server, worker, scheduler):
                    one.close()
                del server, worker, one
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert os.path.exists(path)
        thread = threading.Thread(target=doubling, args=(server, 3))
        thread.start()
        for number in range(3):
            push, pull = numpy.full(5, number), numpy.zeros(5, int)
            assert worker.wait(worker.exchange([push], [1], [pull], [2]), PATIENCE_S) == []
            assert (pull == 2 * push).all()
        thread.join(PATIENCE_S)
        together([lambda: worker.stop(PATIENCE_S), lambda: server.stop(PATIENCE_S)])
        scheduler.close()
        assert os.listdir(folder) == [], "the parent removes what it made"


def test_a_wait_lets_others_run_and_ctrl_c_ends_it(interrupted):
    said = interrupted("""
        import threading
        import numpy
        import rondo

        scheduler = rondo.ExchangeScheduler(workers=1, servers=1)
        made = {}
        def server():
            made["server"] = rondo.Exchange("server", scheduler.address)
        thread = threading.Thread(target=server)
        thread.start()
        worker = rondo.Exchange("worker", scheduler.address)
        thread.join()
        handler = worker.exchange([numpy.zeros(4)], [1], [numpy.zeros(4)], [2])
        print("waiting", flush=True)
        try:
            worker.wait(handler)
        except KeyboardInterrupt:
            try:
                worker.wait(handler, 0.1)
            except rondo.DeadlineExceeded:
                print("interrupted, and the request goes on", flush=True)
        """)
    assert "interrupted, and the request goes on" in said


def environment(role, port, workers, servers, rank=0, **more):
    return {
        "DMLC_ROLE": role, "DMLC_NUM_WORKER": str(workers), "DMLC_NUM_SERVER": str(servers),
        "DMLC_NODE_RANK": str(rank), "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NODE_HOST": "127.0.0.1", "STEPMESH_BAKCEND": "CPU", **more,
    }


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def check_there(kind):
    """Skips what needs a library, or a GPU, that is not there."""
    module = "torch" if kind == "cuda" else kind
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not there")
    if kind == "cuda":
        import torch
        is_required = os.environ.get("RONDO_CUDA_REQUIRED") == "1"
        assert torch.cuda.is_available() or not is_required, "RONDO_CUDA_REQUIRED is 1, but torch sees no GPU"
        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")


@pytest.mark.parametrize("kind", ["numpy", "torch", "cuda"])
@pytest.mark.parametrize("workers, servers", [(1, 1), (2, 2), (3, 1)])
def test_programs_of_stepmesh_run_unchanged(kind, workers, servers):
    check_there(kind)
    port = free_port()
    more = {"STEPMESH_BAKCEND": "GPU", "STEPMESH_GPU": "0"} if kind == "cuda" else {}
    places = [("scheduler", 0), *(("server", rank) for rank in range(servers)),
              *(("worker", rank) for rank in range(workers))]
    processes = [
        Process([sys.executable, PROGRAM, kind],
                more=environment(role, port, workers, servers, rank, **more))
        for role, rank in places]
    for process in processes:
        assert process.wait() == 0, "\n---\n".join(one.log() for one in processes)
        assert process.lines[-2] == "stopped"


@pytest.mark.parametrize("changed, words", [
    ({"DMLC_ROLE": "boss"}, "DMLC_ROLE is 'boss'"),
    ({"DMLC_NUM_WORKER": ""}, "DMLC_NUM_WORKER is not set"),
    ({"DMLC_NUM_SERVER": "0"}, "DMLC_NUM_SERVER is '0'"),
    ({"DMLC_PS_ROOT_PORT": "x"}, "DMLC_PS_ROOT_PORT is 'x'"),
    ({"DMLC_INSTANCE_ID": "1"}, "DMLC_INSTANCE_ID is 1"),
    ({"STEPMESH_BAKCEND": "TPU"}, "STEPMESH_BAKCEND is 'TPU'"),
    ({"RONDO_INSECURE": "perhaps"}, "RONDO_INSECURE is 'perhaps'"),
])
def test_an_environment_that_contradicts_itself_is_named(changed, words, monkeypatch):
    import fserver_lib
    for name, value in {**environment("worker", 1, 1, 1), **changed}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match=words):
        fserver_lib.init()
    with pytest.raises(RuntimeError, match="init"):
        fserver_lib.get_batch()


def test_a_program_that_other_machines_can_reach_says_so_in_its_environment(monkeypatch):
    import fserver_lib
    from fserver_lib import _environment
    monkeypatch.delenv("RONDO_INSECURE", raising=False)
    more = {"DMLC_PS_ROOT_URI": "0.0.0.0"}
    for name, value in environment("scheduler", free_port(), 1, 1, **more).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="RONDO_INSECURE=true"):
        fserver_lib.init()
    for value, insecure in [("true", True), ("1", True), ("false", False), ("", False)]:
        monkeypatch.setenv("RONDO_INSECURE", value)
        assert _environment.settings().insecure is insecure
