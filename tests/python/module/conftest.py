"""A real server and workers for the tests of the module `rondo`.

`RONDO_BIN` names the binary. `python -m pytest tests/python/module` runs them under a Python that has the
module.
"""
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pyarrow
import pyarrow.parquet
import pytest

import rondo

PATIENCE_S = 60
RECORDS = 5000


class Process:
    """A process whose lines are kept."""

    def __init__(self, command, ready=None, more=()):
        settings = {name: value for name, value in os.environ.items() if not name.startswith("RONDO_")}
        settings.update(more)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=settings)
        self.lines = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        self.ready = self.line_with(ready) if ready else None

    def _follow(self):
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()
        with self._said:
            self.lines.append(None)
            self._said.notify_all()

    def line_with(self, wanted):
        found = lambda: next((line for line in self.lines if line is None or wanted in line), "")
        with self._said:
            assert self._said.wait_for(lambda: found() != "", PATIENCE_S), self.log()
            assert found() is not None, self.log()
            return found()

    def log(self):
        return "\n".join(line for line in self.lines if line is not None)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)


def binary():
    return os.environ["RONDO_BIN"]


class Server:
    """`rondo serve`, which keeps its address and its data over kills."""

    def __init__(self, folder, *flags):
        self.folder, self.flags = folder, flags
        self.port = 0
        self.start()

    def start(self):
        command = [binary(), "serve", f"--listen=127.0.0.1:{self.port}", "--store=segment", "--data",
                   str(self.folder / "data"), *self.flags]
        self.process = Process(command, " ready on ")
        self.port = int(self.process.ready.split(" ready on ")[1].split()[0].rsplit(":", 1)[1])

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def kill(self):
        self.process.kill()

    def register(self, name, pipeline):
        """Registers a pipeline, in YAML."""
        file = self.folder / f"{name}.yaml"
        file.write_text(textwrap.dedent(pipeline))
        command = [binary(), "dataset", "register", str(file), "--id", name, "--server", self.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def worker(self):
        command = [binary(), "worker", f"--server={self.address}", "--listen=127.0.0.1:0",
                   "--heartbeat-interval=200ms"]
        return Process(command, " worker ready on ")


@pytest.fixture
def servers(tmp_path):
    """Starts servers, with flags; they end with the test."""
    started = []

    def start(*flags):
        folder = tmp_path / f"server-{len(started)}"
        folder.mkdir()
        started.append(Server(folder, *flags))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def table(records):
    """Records whose every column says which one it is."""
    numbers = range(records)
    return pyarrow.table({
        "number": pyarrow.array(numbers, pyarrow.int64()),
        "half": pyarrow.array([number / 2 for number in numbers], pyarrow.float32()),
        "is_even": [number % 2 == 0 for number in numbers],
        "name": [f"n{number}" for number in numbers],
        "pair": pyarrow.array([[number, -number] for number in numbers], pyarrow.list_(pyarrow.int32(), 2)),
        "row": pyarrow.array([list(range(number % 4)) for number in numbers], pyarrow.list_(pyarrow.int16())),
        "inner": [{"b": number % 7, "a": f"a{number}"} for number in numbers],
    })


def fill(server):
    """Registers the datasets `numbers` (one record an element) and `batches` (of 32)."""
    folder = server.folder
    pyarrow.parquet.write_table(table(RECORDS), folder / "numbers.parquet", row_group_size=500)
    server.register("numbers", f"""
        source:
          parquet: {{ files: ["{folder}/numbers.parquet"] }}
        split_records: 500
        """)
    server.register("batches", f"""
        source:
          parquet: {{ files: ["{folder}/numbers.parquet"] }}
        split_records: 500
        operations:
          - select: [number, half, is_even, name, pair]
          - batch: {{ size: 32 }}
        """)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A server with a worker and datasets."""
    server = Server(tmp_path_factory.mktemp("data"))
    fill(server)
    worker = server.worker()
    yield server
    worker.kill()
    server.kill()


@pytest.fixture
def short_lived_data(servers):
    """The same for one test, which may kill the server."""
    server = servers()
    fill(server)
    worker = server.worker()
    yield server
    worker.kill()


@pytest.fixture
def job(request):
    """A job's name of this test alone."""
    return f"{request.node.name}-{next(_NUMBERS)}"


_NUMBERS = itertools.count()


@pytest.fixture
def interrupted(tmp_path):
    """Runs a program that waits, sends it what Ctrl-C does once it says `waiting`, and gives what it said."""

    def run(program):
        # What was started in the background of a shell passes on that Ctrl-C is nothing to it.
        heeds = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        process = Process([sys.executable, "-c", heeds + textwrap.dedent(program)], "waiting")
        # It is about to wait.
        threading.Event().wait(0.3)
        process.signal(signal.SIGINT)
        process.wait()
        return process.log()

    return run


@pytest.fixture
def tasks(servers):
    """Agents of all tasks of a job, connected."""
    opened = []

    def start(count, **settings):
        server = servers(f"--tasks={count}")
        agents = [rondo.Agent(server.address, task, **settings) for task in range(count)]
        opened.extend(agents)
        together([agent.connect for agent in agents])
        return server, agents

    yield start
    for agent in opened:
        agent.close()


def together(calls):
    """Makes the calls at once, and gives what each returned."""
    results = [None] * len(calls)
    errors = []

    def make(index):
        try:
            results[index] = calls[index]()
        except BaseException as error:  # what a thread raises is the test's
            errors.append(error)

    threads = [threading.Thread(target=make, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a call waits for ever"
    if errors:
        raise errors[0]
    return results
