"""A real torchrun and gloo over the coordination service, where there is a torch.

`cargo test -p rondo-tests --test python_module` runs it under one, of tests/python/requirements-torch.txt.
"""
import datetime
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch", reason="torch cannot be imported")

import torch.distributed as dist  # noqa: E402

import rondo  # noqa: E402
from conftest import PATIENCE_S, Process, together  # noqa: E402
from rondo.torchrun import Store  # noqa: E402

WORKER = pathlib.Path(__file__).with_name("elastic_worker.py")
# One machine with few cores starts many interpreters.
SLOW_S = 120
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}


def seconds(number):
    return datetime.timedelta(seconds=number)


# The store.

KEYS = ["a", "a/b", "a//b", "/a/", "", "ключ", "%", "with space", "n0", "n1"]
VALUES = ["", "1", "-7", "x", "a longer value " * 20]


def random_calls(generator, count):
    """Calls that mean the same to every store, and what they are named."""
    for _ in range(count):
        key, value = generator.choice(KEYS), generator.choice(VALUES)
        number = f"n{generator.randrange(2)}"
        yield generator.choice([
            ("set", key, value),
            ("set", number, str(generator.randrange(-50, 50))),
            ("add", number, generator.randrange(-5, 6)),
            ("check", generator.sample(KEYS, 2)),
            ("compare_set", key, generator.choice(VALUES), value),
            ("compare_set", key, "", value),
            ("append", key, value),
            ("delete_key", key),
            ("num_keys",),
            ("list_keys",),
            ("get", key),
            ("multi_get", generator.sample(KEYS, 2)),
            ("multi_set", ["a", "b"], [value, "2"]),
        ])


def outcome(store, call):
    name, *arguments = call
    try:
        result = getattr(store, name)(*arguments)
        return sorted(result) if name == "list_keys" else result
    except dist.DistStoreError:
        return "not there in time"
    except (ValueError, RuntimeError) as error:
        return "refused" if name == "add" else error


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["HashStore", "TCPStore"])
@pytest.mark.parametrize("through", ["itself", "PrefixStore"])
def test_a_store_does_what_torchs_do(servers, kind, seed, through):
    theirs = dist.HashStore() if kind == "HashStore" else dist.TCPStore("127.0.0.1", 0, is_master=True)
    ours = Store(servers().address, "a/run with%")
    for store in (ours, theirs):
        store.set_timeout(seconds(0.02))
        # A TCPStore's server does not live through an addition to what is no number.
        for number in ("n0", "n1"):
            store.set(number, "0")
    generator = random.Random(f"{kind} {seed} {through}")
    calls = list(random_calls(generator, 150))
    if through == "PrefixStore":
        # C++ calls ours then. It passes on neither a list of keys, nor a time.
        ours, theirs = dist.PrefixStore("p", ours), dist.PrefixStore("p", theirs)
        for store in (ours, theirs):
            for number in ("n0", "n1"):
                store.set(number, "0")
        calls = [call for call in calls if call[0] != "list_keys"]
    numbers = {"n0", "n1"}
    for index, call in enumerate(calls):
        if call[0] in ("set", "append", "compare_set") and call[1] in numbers and call[0] != "set":
            continue
        if call[0] == "set" and call[1] in numbers and not call[-1].lstrip("-").isdigit():
            continue
        assert outcome(ours, call) == outcome(theirs, call), (index, call)


def test_what_is_waited_for_comes_or_does_not(servers):
    server = servers()
    one, other = Store(server.address, "run"), Store(server.address, "run", timeout=seconds(0.2))
    threading.Timer(0.3, lambda: other.multi_set(["x", "y"], ["1", b"\x00\xff"])).start()
    assert one.multi_get(["x", "y"]) == [b"1", b"\x00\xff"]
    began = time.monotonic()
    for wait in (lambda: other.get("z"), lambda: one.wait(["x", "z"], seconds(0.2))):
        with pytest.raises(dist.DistStoreError, match=f"200ms: the key 'z' .*torch/run/store.*{server.port}"):
            wait()
    assert 0.4 <= time.monotonic() - began < PATIENCE_S
    with pytest.raises(rondo.FailedPrecondition, match="cannot increment .*/y by 1"):
        one.add("y", 1)
    assert Store(server.address, "another").num_keys() == 0
    assert one.clone().get("x") == b"1" and one.has_extended_api()
    with pytest.raises(ValueError, match="run id"):
        Store(server.address, "")


def test_everything_happens_once_whatever_becomes_of_the_server(servers):
    server = servers()
    stores = [Store(server.address, "run") for _ in range(3)]
    ended = threading.Event()

    def kill():
        while not ended.wait(0.25):
            server.kill()
            server.start()

    killer = threading.Thread(target=kill)
    killer.start()

    def work(number):
        sums = []
        for step in range(100):
            sums.append(stores[number].add("sum", 1))
            stores[number].append("log", f"{number}.{step};")
            wanted = held = b""
            while wanted == held or stores[number].compare_set("held", held, wanted) != wanted:
                held = stores[number].get("held")
                # Nobody else's value is the same.
                wanted = b"%d %d.%d" % (int(held.split()[0]) + 1, number, step)
        return sums

    stores[0].set("held", "0")
    try:
        sums = together([lambda number=number: work(number) for number in range(3)])
    finally:
        ended.set()
        killer.join(PATIENCE_S)
    assert sorted(sum(sums, [])) == list(range(1, 301))
    assert stores[0].get("held").startswith(b"300 ")
    log = stores[0].get("log").decode().split(";")[:-1]
    assert sorted(log) == sorted(f"{number}.{step}" for number in range(3) for step in range(100))
    for number in range(3):
        own = [int(entry.split(".")[1]) for entry in log if entry.startswith(f"{number}.")]
        assert own == list(range(100))


def reduce_by(argument, rank, results):
    """A process of a group."""
    os.environ.update(ENVIRONMENT)
    import rondo.torchrun

    if argument.startswith("rondo://"):
        dist.init_process_group("gloo", init_method=f"{argument}?rank={rank}&world_size=3")
    else:
        store = rondo.torchrun.Store(argument, "reduce")
        dist.init_process_group("gloo", store=store, rank=rank, world_size=3)
    tensor = torch.arange(4) * (rank + 1)
    dist.all_reduce(tensor)
    gathered = [None] * 3
    dist.all_gather_object(gathered, f"rank {rank}")
    dist.barrier()
    results.put((tensor.tolist(), gathered))
    dist.destroy_process_group()


@pytest.mark.parametrize("by", ["store", "url"])
def test_a_process_group_finds_itself(servers, by):
    address = servers().address
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    argument = address if by == "store" else f"rondo://{address}/a%20run"
    processes = [context.Process(target=reduce_by, args=(argument, rank, results)) for rank in range(3)]
    for process in processes:
        process.start()
    for _ in processes:
        assert results.get(timeout=SLOW_S) == ([0, 6, 12, 18], ["rank 0", "rank 1", "rank 2"])
    for process in processes:
        process.join(SLOW_S)
        assert process.exitcode == 0


def test_urls_that_say_too_little_are_named():
    for url in ("rondo://127.0.0.1:5050/run?rank=0", "rondo:///run?rank=0&world_size=1",
                "rondo://host?rank=0&world_size=1", "rondo://host/run?rank=x&world_size=1"):
        with pytest.raises(ValueError, match="rondo://HOST:PORT/RUN.rank=R&world_size=N is wanted"):
            next(dist.rendezvous(url))


# torchrun.

class Job:
    """Nodes of an elastic job, each a torchrun with two workers."""

    def __init__(self, server, folder, nodes, **settings):
        self.server, self.folder, self.nodes = server, folder, nodes
        self.settings = dict({"last_call_timeout": 2, "keep_alive_interval": 0.5}, **settings)
        self.agents = {}

    def start(self, name):
        conf = ",".join(f"{key}={value}" for key, value in self.settings.items())
        command = [
            sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=rondo",
            f"--rdzv-endpoint={self.server.address}", "--rdzv-id=a run%", f"--rdzv-conf={conf}",
            f"--nnodes={self.nodes}", "--nproc-per-node=2", "--max-restarts=5", "--local-addr=127.0.0.1",
            str(WORKER), str(self.folder), name]
        self.agents[name] = Process(command, more=ENVIRONMENT)
        return self.agents[name]

    def kill(self, name):
        """As if the machine had failed."""
        self.agents[name].signal(signal.SIGKILL)
        for mark in self.folder.glob(f"pid-{name}-*"):
            try:
                os.kill(int(mark.name.rsplit("-", 1)[1]), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def steps(self, name, since=0.0):
        """Time, rank, sum and restarts of each step of a node's workers."""
        files = [file.read_text().splitlines() for file in self.folder.glob(f"steps-{name}-*")]
        all_steps = (tuple(map(float, line.split())) for lines in files for line in lines[:-1])
        return [step for step in all_steps if step[0] > since]

    def wait_for_size(self, size, *names, since=0.0):
        """Waits until each of these nodes' two workers makes steps in a world of so many."""
        deadline = time.monotonic() + SLOW_S
        def there(name):
            return len({rank for _, rank, total, _ in self.steps(name, since) if total == size}) >= 2
        while not all(there(name) for name in names):
            ended = any(self.agents[name].process.poll() is not None for name in names)
            logs = "\n\n".join(f"{name}:\n{it.log()}" for name, it in self.agents.items())
            assert not ended and time.monotonic() < deadline, logs
            time.sleep(0.1)

    def end(self, *names):
        (self.folder / "stop").touch()
        for name in names:
            agent = self.agents[name]
            try:
                status = agent.process.wait(SLOW_S)
            except subprocess.TimeoutExpired:
                status = "still there"
            assert status == 0, agent.log()
            assert agent.log().count(f"node {name} rank ") == 2, agent.log()


@pytest.fixture
def job(servers, tmp_path):
    jobs = []

    def start(nodes, **settings):
        folder = tmp_path / f"job-{len(jobs)}"
        folder.mkdir()
        jobs.append(Job(servers(), folder, nodes, **settings))
        return jobs[-1]

    yield start
    for it in jobs:
        for name in it.agents:
            it.kill(name)


def test_torchrun_runs_a_job(job):
    it = job("2")
    for name in "ab":
        it.start(name)
    it.wait_for_size(4, *"ab")
    it.end(*"ab")
    ranks = {name: {rank for _, rank, _, _ in it.steps(name)} for name in "ab"}
    assert sorted(ranks.values(), key=min) == [{0, 1}, {2, 3}]
    # What is left: that the run is over, and how many nodes it had.
    keys = rondo.KeyValueStore(it.server.address).directory("torch")
    assert keys.keys() == {"torch/a%20run%25/rendezvous/state", "torch/a%20run%25/rendezvous/count"}
    late = it.start("late")
    assert late.wait() != 0 and "--rdzv-id" in late.log() and "RendezvousClosedError" in late.log()


def test_nodes_join_and_die(job):
    it = job("1:3", last_call_timeout=1)
    it.start("a")
    it.wait_for_size(2, "a")
    it.start("b")
    it.wait_for_size(4, *"ab")
    it.start("c")
    it.wait_for_size(6, *"abc")
    # The first node hosts what the workers meet at: its death is the hardest.
    since = time.time()
    it.kill("a")
    it.wait_for_size(4, *"bc", since=since)
    since = time.time()
    it.kill("c")
    it.wait_for_size(2, "b", since=since)
    it.end("b")


def test_a_spare_node_takes_the_place_of_a_dead_one_or_goes(job):
    it = job("2:2")
    for name in "ab":
        it.start(name)
    it.wait_for_size(4, *"ab")
    spares = [it.start(name) for name in "cd"]
    since = time.time()
    it.kill("b")
    deadline = time.monotonic() + SLOW_S
    while not any(it.steps(name) for name in "cd"):
        assert time.monotonic() < deadline, it.agents["a"].log() + spares[0].log()
        time.sleep(0.1)
    chosen, other = ("c", "d") if it.steps("c") else ("d", "c")
    it.wait_for_size(4, "a", chosen, since=since)
    it.end("a", chosen)
    # torchrun 2.11 trips over such an end by itself, so its status says nothing.
    it.agents[other].wait()
    assert not it.steps(other) and "Rendezvous" not in it.agents[other].log(), it.agents[other].log()


def test_a_node_that_stands_still_is_held_dead_and_comes_back(job):
    it = job("1:2", last_call_timeout=1)
    for name in "ab":
        it.start(name)
    it.wait_for_size(4, *"ab")
    it.agents["a"].signal(signal.SIGSTOP)
    since = time.time()
    it.wait_for_size(2, "b", since=since)
    it.agents["a"].signal(signal.SIGCONT)
    since = time.time()
    it.wait_for_size(4, *"ab", since=since)
    it.end(*"ab")


def test_the_server_is_killed_at_every_stage(job):
    it = job("2:3", last_call_timeout=3)
    it.start("a")
    # One node gathers; the server goes, and is back.
    time.sleep(4)
    it.server.kill()
    time.sleep(1)
    it.server.start()
    it.start("b")
    it.wait_for_size(4, *"ab")
    # Workers run on without it, for longer than it takes to be held dead.
    it.server.kill()
    since = time.time()
    time.sleep(5)
    it.wait_for_size(4, *"ab", since=since + 4)
    assert {restarts for name in "ab" for *_, restarts in it.steps(name)} == {0}
    it.server.start()
    time.sleep(3)
    assert {restarts for name in "ab" for *_, restarts in it.steps(name)} == {0}
    it.start("c")
    it.wait_for_size(6, *"abc")
    it.server.kill()
    it.server.start()
    it.end(*"abc")


def test_a_server_that_is_not_there_is_named(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=rondo",
               "--rdzv-endpoint=127.0.0.1:1", "--rdzv-conf=connect_timeout=2", "--rdzv-id=run", "--nnodes=2",
               str(WORKER), str(tmp_path), "a"]
    began = time.monotonic()
    agent = Process(command, more=ENVIRONMENT)
    assert agent.wait() != 0 and time.monotonic() - began < PATIENCE_S
    assert "RendezvousConnectionError" in agent.log() and "127.0.0.1:1 within 2s" in agent.log()
    assert "rondo serve" in agent.log()


def handler_of(endpoint, nodes=(1, 1), **config):
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    parameters = RendezvousParameters("rondo", endpoint, "run", *nodes, "127.0.0.1", **config)
    return get_rendezvous_handler(parameters)


def test_a_rendezvous_without_enough_nodes_ends_in_time(servers):
    from torch.distributed.elastic.rendezvous import RendezvousClosedError, RendezvousTimeoutError

    server = servers()
    handler = handler_of(server.address, (2, 2), join_timeout="0.5", close_timeout="2", timeout="900")
    with pytest.raises(RendezvousTimeoutError, match="1 nodes have come, 2 to 2 are wanted"):
        handler.next_rendezvous()
    assert (handler.get_backend(), handler.get_run_id(), handler.use_agent_store) == ("rondo", "run", False)
    assert not handler.is_closed()
    handler.set_closed()
    assert handler.is_closed() and handler.num_nodes_waiting() == 0
    with pytest.raises(RendezvousClosedError, match="'run' at 127.*another --rdzv-id"):
        handler.next_rendezvous()
    assert handler.shutdown()
    # Without a server nothing waits for ever.
    other = handler_of(server.address, (2, 2), join_timeout="0.5", close_timeout="0.5", server_timeout="1")
    server.kill()
    began = time.monotonic()
    with pytest.raises(RendezvousClosedError):
        other.next_rendezvous()
    assert not other.shutdown() and time.monotonic() - began < PATIENCE_S


def test_settings_that_are_none_are_named(servers):
    for config, words in [({"joint_timeout": "3"}, "joint_timeout: rondo knows .*join_timeout"),
                          ({"join_timeout": "soon"}, "join_timeout=soon: a number above zero"),
                          ({"keep_alive_max_attempt": "0"}, "keep_alive_max_attempt=0")]:
        with pytest.raises(ValueError, match=words):
            handler_of("127.0.0.1:1", **config)
    for endpoint in ("host:port", "host:99999", ":5050", "host/path"):
        with pytest.raises(ValueError, match=f"--rdzv-endpoint={endpoint}: HOST or HOST:PORT"):
            handler_of(endpoint)


def test_what_is_no_state_is_a_state_error(servers):
    from torch.distributed.elastic.rendezvous import RendezvousStateError

    server = servers()
    rondo.KeyValueStore(server.address).set("torch/run/rendezvous/state", "nonsense")
    handler = handler_of(server.address)
    with pytest.raises(RendezvousStateError, match="nonsense"):
        handler.next_rendezvous()
