"""Tensors on a real GPU between processes: through pinned memory and TCP, and copied on the device."""
import json
import os
import sys
import textwrap
import time

import pytest

torch = pytest.importorskip("torch", reason="torch cannot be imported")

import rondo  # noqa: E402
from conftest import PATIENCE_S, Process  # noqa: E402
from gpu_server import (  # noqa: E402
    ANSWER, FROM_HOST, LATE, ROW_BYTES, ROWS, SLOT, SLOT_BYTES, SLOTS, TELL, inverted, key, rows, seconds)

if os.environ.get("RONDO_CUDA_REQUIRED") == "1":
    assert torch.cuda.is_available(), "RONDO_CUDA_REQUIRED is 1, but torch sees no GPU"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

HERE = os.path.dirname(__file__)
WAYS = {"tcp": {"unix": False, "shared_bytes": 0}, "shared": {"unix": False}}
BRISK = {"heartbeat_interval": 0.2, "heartbeat_timeout": 1.0}
DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool",
          "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]


class Pair:
    """A worker, in this process, and a server in another."""

    def __init__(self, way, program=None, more=(), **settings):
        settings = {"join_timeout": PATIENCE_S, **WAYS[way], **settings}
        bounds = {name: value for name, value in settings.items() if "heartbeat" in name}
        self.scheduler = rondo.ExchangeScheduler(workers=1, servers=1, **bounds)
        self.server = Process(
            [sys.executable, program or os.path.join(HERE, "gpu_server.py"), self.scheduler.address,
             json.dumps(settings)], more=more)
        self.settings = settings
        self.worker = None

    def __enter__(self):
        self.worker = rondo.Exchange("worker", self.scheduler.address, cuda=True, **self.settings)
        self.server.line_with("ready")
        # Both know each other's devices once something has passed.
        self.asked(key(ANSWER), [torch.zeros(1)], [torch.zeros(1)])
        return self

    def __exit__(self, *raised):
        self.worker.close()
        self.server.kill()
        self.scheduler.close()

    def begin(self, what, pushes, pulls, **how):
        push_keys, pull_keys = ([what + number for number in range(len(them))] for them in (pushes, pulls))
        return self.worker.exchange(pushes, push_keys, pulls, pull_keys, **how)

    def asked(self, what, pushes, pulls, **how):
        handler = self.begin(what, pushes, pulls, **how)
        assert self.worker.wait(handler, PATIENCE_S) == [], self.server.log()

    def all_are_up(self):
        return [state for _, _, state in self.worker.membership()[1]] == ["up", "up"]


@pytest.fixture(scope="module", params=list(WAYS))
def pair(request):
    with Pair(request.param) as pair:
        yield pair


def random(length, device="cuda"):
    return torch.randint(0, 256, (length,), dtype=torch.uint8, device=device)


def is_same(one, other):
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def stale(length):
    """Memory of a GPU that has other bytes than what is expected."""
    return torch.full((length,), 77, dtype=torch.uint8, device="cuda")


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_comes_back_bit_for_bit(pair, dtype):
    push = random(16 * 33).view(getattr(torch, dtype)).reshape(11, -1)
    pull = torch.empty_like(push)
    pair.asked(key(ANSWER), [push], [pull])
    assert is_same(pull, inverted(push))


@pytest.mark.parametrize("length", [1, 3, 255, 4096, 65_537, 1 << 20, (16 << 20) + 5, 64 << 20])
def test_any_length_from_and_to_the_midst_of_a_tensor(pair, length):
    for round in range(3):
        pushes, pulls = random(length + 64), stale(length + 64)
        pair.asked(key(ANSWER), [pushes[7 + round:7 + round + length]], [pulls[5:5 + length]])
        assert is_same(pulls[5:5 + length], inverted(pushes[7 + round:7 + round + length]))
        assert is_same(pulls[:5], stale(5)) and is_same(pulls[5 + length:], stale(59))


def test_several_tensors_of_host_and_gpu(pair):
    pushes = [random(1000), random(70_000, "cpu"), random(0), random(3_000_001), random(5, "cpu")]
    pulls = [torch.empty_like(push, device=device) for push, device in
             zip(pushes, ["cpu", "cuda", "cuda", "cuda", "cpu"])]
    for what in (ANSWER, FROM_HOST, LATE):
        [pull.zero_() for pull in pulls]
        pair.asked(key(what), pushes, pulls)
        assert all(is_same(pull.cpu(), inverted(push).cpu()) for push, pull in zip(pushes, pulls)), what


def test_what_is_pushed_is_what_the_stream_leaves_there(pair):
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        push, pull, wanted = stale(5_000_000), stale(5_000_000), random(5_000_000)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            seconds(0.3)
            push.copy_(wanted)
            pair.asked(key(LATE), [push], [pull])
            # No one waits but the stream.
            seen = pull.clone()
        stream.synchronize()
        assert is_same(seen, inverted(wanted))


def test_what_is_pulled_does_not_overtake_who_still_reads_there(pair):
    push, pull, before = random(3_000_000), random(3_000_000), stale(3_000_000)
    old = pull.clone()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        seconds(0.5)
        before.copy_(pull)
        # Pushed from a stream with nothing on it, so that the answer comes while the other is busy.
        handler = pair.begin(key(ANSWER), [push], [pull], ordered=False)
        pair.worker.wait(handler, PATIENCE_S)
        seen = pull.clone()
    torch.cuda.synchronize()
    assert is_same(before, old) and is_same(seen, inverted(push))


def test_unordered_pushes_are_sent_as_they_are(pair):
    push, pull = random(1_000_000), stale(1_000_000)
    now = push.clone()
    torch.cuda.synchronize()
    busy = torch.cuda.Stream()
    with torch.cuda.stream(busy):
        seconds(1)
        push.zero_()
        began = time.monotonic()
        with torch.cuda.stream(torch.cuda.default_stream()):
            pair.asked(key(ANSWER), [push], [pull], ordered=False)
            assert is_same(pull, inverted(now))
        assert time.monotonic() - began < 0.8
    torch.cuda.synchronize()


def test_slots_on_the_gpu_are_free_when_their_stream_has_read_them(pair):
    wanted = [random(SLOT_BYTES) for _ in range(9)]
    for number, push in enumerate(wanted):
        pair.asked(key(SLOT, number % SLOTS), [push], [])
    pull = stale(9 * SLOT_BYTES)
    pair.asked(key(TELL), [random(1)], [pull])
    assert is_same(pull, torch.cat(wanted))


def test_rows_of_a_tensor_on_the_gpu_are_answers(pair):
    for first, count in [(0, 1), (3, 5), (63, 1), (0, 64)]:
        pull = stale(count * ROW_BYTES)
        pair.asked(key(ROWS, first), [random(1)], [pull])
        assert is_same(pull, rows()[first:first + count])


def test_arrays_of_cupy_by_dlpack(pair):
    cupy = pytest.importorskip("cupy", reason="cupy cannot be imported")
    push, pull = cupy.arange(100_000, dtype=cupy.float32), cupy.zeros(100_000, cupy.float32)
    pair.asked(key(ANSWER), [push], [pull])
    assert bool((pull.view(cupy.uint8) == push.view(cupy.uint8) ^ 255).all())


class Foreign:
    """A tensor that claims to be on another GPU."""

    def __init__(self, tensor, number):
        self.tensor, self.number = tensor, number

    def __dlpack_device__(self):
        return (2, self.number)

    def __dlpack__(self, **asked):
        return self.tensor.__dlpack__()


def test_a_gpu_that_is_not_there_is_named(pair):
    with pytest.raises(rondo.InvalidArgument, match="no device cuda:77"):
        pair.begin(key(ANSWER), [Foreign(random(10), 77)], [])


def test_memory_that_is_given_back_between_pushes_is_not_mistaken(pair):
    for round in range(40):
        length = (1 << 20) + round % 3
        push, pull = random(length * 25), stale(length * 25)
        pair.asked(key(ANSWER), [push], [pull])
        assert is_same(pull, inverted(push)), round
        del push, pull
        torch.cuda.empty_cache()


@pytest.mark.parametrize("way", ["tcp"])
def test_more_than_may_be_pinned_is_refused_and_what_fits_goes_on(way):
    with Pair(way, staging_bytes=2 << 20) as pair:
        with pytest.raises(rondo.ResourceExhausted, match="staging_bytes_max"):
            pair.begin(key(ANSWER), [random(4 << 20)], [])
        with pytest.raises(rondo.ResourceExhausted, match="staging_bytes_max"):
            handler = pair.begin(key(ANSWER), [random(10)], [stale(4 << 20)])
            pair.worker.wait(handler, 5)
        for _ in range(5):
            push, pull = random(1 << 20), stale(1 << 20)
            pair.asked(key(ANSWER), [push], [pull])
            assert is_same(pull, inverted(push))


@pytest.mark.parametrize("way", list(WAYS))
def test_a_long_stream_costs_nobody_his_place(way):
    with Pair(way, **BRISK) as pair:
        for busy in ("pushed", "pulled", "both"):
            push, pull = random(100_000), stale(100_000)
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):
                if busy != "pulled":
                    seconds(3)
                handler = pair.begin(key(ANSWER), [push], [], ordered=busy != "pulled")
                pair.worker.wait(handler, PATIENCE_S)
                if busy != "pushed":
                    seconds(3)
                handler = pair.begin(key(ANSWER), [push], [pull], ordered=False)
                began = time.monotonic()
                pair.worker.membership()
                time.sleep(0.2)
                pair.worker.membership()
                assert time.monotonic() - began < 1, f"{busy}: a call waited for the stream"
                pair.worker.wait(handler, PATIENCE_S)
                seen = pull.clone()
            torch.cuda.synchronize()
            assert is_same(seen, inverted(push)), busy
            assert pair.all_are_up(), f"{busy}: {pair.worker.membership()}"


@pytest.mark.parametrize("way", list(WAYS))
def test_a_server_killed_amid_copies_is_lost_and_nothing_else(way):
    with Pair(way, reconnect_grace=0.3, **BRISK) as pair:
        guard, pushes = random(1 << 20), [random(64 << 20) for _ in range(4)]
        wanted, pulls = guard.clone(), [stale(64 << 20) for _ in range(4)]
        handlers = [pair.begin(key(LATE, 100 * number), [push], [pull])
                    for number, (push, pull) in enumerate(zip(pushes, pulls))]
        time.sleep(0.1)
        pair.server.kill()
        began = time.monotonic()
        for handler in handlers:
            with pytest.raises(rondo.PeerLost) as caught:
                pair.worker.wait(handler, PATIENCE_S)
            assert (caught.value.role, caught.value.rank) == ("server", 0)
        assert time.monotonic() - began < 20
        torch.cuda.synchronize()
        # The memory is the program's again, and the device is well.
        [pull.fill_(5) for pull in pulls]
        torch.cuda.synchronize()
        assert all(bool((pull == 5).all()) for pull in pulls) and is_same(guard, wanted)


PROGRAM = """
    import json, os, sys
    sys.path.insert(0, {here!r})
    import torch
    import rondo
    from gpu_server import ANSWER, STOP, inverted, key, seconds
    worker = rondo.Exchange("worker", sys.argv[1], cuda=True, **json.loads(sys.argv[2]))
    def asked(length):
        push = torch.randint(0, 256, (length,), dtype=torch.uint8, device="cuda")
        pull = torch.zeros_like(push)
        handler = worker.exchange([push], [key(ANSWER)], [pull], [key(ANSWER)])
        worker.wait(handler, 60)
        assert torch.equal(pull, inverted(push))
"""


def programs(way, worker, more=(), **settings):
    """Runs a worker of its own process beside a server; what the two said, and how the worker ended."""
    settings = {"join_timeout": PATIENCE_S, **WAYS[way], **settings}
    with rondo.ExchangeScheduler(workers=1, servers=1) as scheduler:
        asked = [scheduler.address, json.dumps(settings)]
        server = Process([sys.executable, os.path.join(HERE, "gpu_server.py"), *asked], more=more)
        text = textwrap.dedent(PROGRAM.format(here=HERE)) + textwrap.dedent(worker)
        process = Process([sys.executable, "-c", text, *asked], more=more)
        status = process.wait()
        if "orderly" in worker:
            server.wait()
        server.kill()
        return status, process.log(), server.log()


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("how", ["backend:cudaMallocAsync", "expandable_segments:True"])
def test_memory_that_cannot_be_named_goes_through_pinned_memory(way, how):
    status, said, other = programs(way, """
        for length in (1, 100_000, 40 << 20):
            [asked(length) for _ in range(3)]
        worker.wait(worker.exchange([torch.zeros(1)], [key(STOP)], [], []), 60)
        worker.stop(60)
        print("orderly")
        """, more={"PYTORCH_CUDA_ALLOC_CONF": how, "PYTORCH_ALLOC_CONF": how})
    assert status == 0 and "orderly" in said and "stopped" in other, f"{said}\n---\n{other}"


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("ending", [
    "pass",
    "sys.exit(0)",
    "worker.close()",
    "del torch; sys.modules.pop('torch')",
    # Copies are under way, and more is queued behind.
    "seconds(1); pull = torch.zeros(64 << 20, device='cuda'); "
    "worker.exchange([torch.zeros(1)], [key(ANSWER)], [pull[:1]], [key(ANSWER)])",
])
def test_a_program_ends_in_good_order_whatever_it_leaves(way, ending):
    status, said, _ = programs(way, f"""
        [asked(1_000_000) for _ in range(3)]
        print("ends", flush=True)
        {ending}
        """)
    assert status == 0 and "ends" in said and "panicked" not in said, f"{status}: {said}"


def test_memory_that_a_worker_gives_back_is_given_back():
    with Pair("shared") as pair:
        pair.asked(key(ANSWER), [random(1000)], [stale(1000)])
        torch.cuda.empty_cache()
        before, _ = torch.cuda.mem_get_info()
        pushes = [random(256 << 20) for _ in range(4)]
        for push in pushes:
            pair.asked(key(ANSWER), [push], [])
        del push, pushes
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        # The server closes what it does not use. What it has copied is its own: it gives that back, too.
        began = time.monotonic()
        while torch.cuda.mem_get_info()[0] + (700 << 20) < before:
            assert time.monotonic() - began < 20, (before, torch.cuda.mem_get_info())
            time.sleep(0.1)
